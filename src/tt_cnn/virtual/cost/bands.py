# SPDX-License-Identifier: Apache-2.0
"""How far predicted times may be off: bands from the errors measured on published kernel times.

`figures/bands.json` has for each op and card family the 10th and 90th percentile of published over predicted times. It
is written by `python benchmarks/op_times.py FILE... --write-bands`, and only rows of published times go into it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from math import hypot
from typing import Any, NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost import figures
from tt_cnn.virtual.types.enums import Arch

FILE = "bands.json"
ALL_OPS = "all"
FAMILIES = {Arch.WORMHOLE_B0: "n150", Arch.BLACKHOLE: "p150"}
"""The card that stands for an architecture."""


class Band(NamedTuple):
    """Eight of ten times lie between `low` and `high`."""

    low: float
    high: float


@lru_cache
def _bands() -> Mapping[str, Mapping[str, Any]]:
    table: dict[str, Any] = json.loads(files(figures).joinpath(FILE).read_text(encoding="utf-8"))
    return table["bands"]


def band_of(op: str, card: Card) -> Band:
    """Factors of a predicted kernel time, by the op of its program; ops without published times have all ops' band."""
    bands = _bands()
    return Band(*bands.get(op, bands[ALL_OPS])[FAMILIES[card.arch]])


def band_of_sum(steps: Iterable[tuple[str, float, float, float]]) -> Band:
    """The band of many steps' time together, given as their ops, times and the ends of their own bands.

    Steps of one op are taken to be wrong in the same way, as they mostly are; ops independently of each other.
    """
    predicted = 0.0
    by_op: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for op, ns, low, high in steps:
        predicted += ns
        by_op[op][0] += low
        by_op[op][1] += high
    middle = sum(low + high for low, high in by_op.values()) / 2
    spread = hypot(*(high - low for low, high in by_op.values())) / 2
    return Band(min(predicted, middle - spread), max(predicted, middle + spread))
