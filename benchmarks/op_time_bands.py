# SPDX-License-Identifier: Apache-2.0
"""Bands around predicted times, from the errors on published ones; `--write-bands` of op_times.py writes them.

A band is the 10th and 90th percentile of published over predicted. An op has one for each card family; one for both
together where a family has fewer than 5 rows; that of all ops where both together have fewer.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import exp, log
from pathlib import Path

from tt_cnn.virtual.cost.bands import ALL_OPS, FAMILIES

LEAST_ROWS = 5
FOLDS = 10
FILE = Path(__file__).resolve().parents[1] / "src" / "tt_cnn" / "virtual" / "cost" / "figures" / "bands.json"
Bands = dict[str, dict[str, tuple[float, float]]]


@dataclass(frozen=True)
class Error:
    """Of one row."""

    id: str
    source: str
    op: str
    """Of the program that was timed."""
    family: str
    log_ratio: float
    """Of published over predicted."""


def bands_of(errors: Sequence[Error]) -> Bands:
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in errors:
        for op in (one.op, ALL_OPS):
            for family in (one.family, ""):
                groups[op, family].append(one.log_ratio)
    bands: Bands = {}
    for op in sorted({op for op, family in groups if len(groups[op, family]) >= LEAST_ROWS}):
        own = {family: groups.get((op, family), []) for family in FAMILIES.values()}
        bands[op] = {
            family: _percentiles(logs if len(logs) >= LEAST_ROWS else groups[op, ""]) for family, logs in own.items()
        }
    return bands


def _percentiles(logs: Sequence[float]) -> tuple[float, float]:
    """So that a further row lies between them with 80 % (of few rows they are beyond the least and the largest).

    The prediction itself is always between them.
    """
    deciles = statistics.quantiles(logs, n=10, method="exclusive")
    return round(exp(min(0.0, deciles[0])), 3), round(exp(max(0.0, deciles[-1])), 3)


def covered(errors: Sequence[Error], by_source: bool = False) -> float:
    """The share of rows in the bands that were made without them: a tenth at a time, or a source at a time."""
    parts: dict[object, list[Error]] = defaultdict(list)
    for one in errors:
        parts[one.source if by_source else sha256(one.id.encode()).digest()[0] % FOLDS].append(one)
    inside = 0
    for left_out in parts.values():
        names = {one.id for one in left_out}
        bands = bands_of([one for one in errors if one.id not in names])
        for one in left_out:
            low, high = bands.get(one.op, bands[ALL_OPS])[one.family]
            inside += log(low) <= one.log_ratio <= log(high)
    return inside / len(errors)


def coverage_line(errors: Sequence[Error]) -> str:
    return (
        f"{covered(errors):.0%} of {len(errors)} rows lie in bands made without them (80 % is meant; "
        f"{covered(errors, by_source=True):.0%} where a whole set of rows is left out)"
    )


def write_bands(errors: Sequence[Error], path: Path) -> None:
    bands = bands_of(errors)
    lines = ",\n".join(f"    {json.dumps(op)}: {json.dumps(of)}" for op, of in bands.items())
    said = "published over predicted kernel times, 10th and 90th percentile: benchmarks/op_times.py --write-bands"
    head = {"source": said, "rows": len(errors), "covered": round(covered(errors), 3)}
    text = json.dumps(head, indent=2).removesuffix("\n}")
    path.write_text(f'{text},\n  "bands": {{\n{lines}\n  }}\n}}\n', encoding="utf-8")
