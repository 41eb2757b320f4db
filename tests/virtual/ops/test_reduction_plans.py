# SPDX-License-Identifier: Apache-2.0
"""Reductions, normalizations and indexing ops against recorded plans of TT-NN 0.81.1.

Not all rules of these ops are known: a table says how many of the recorded calls agree in each field, and less is a
failure.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.virtual.ops.recorded_calls import read, replay

RECORDS = read(Path(__file__).parents[2] / "golden" / "data" / "plans_reduction.jsonl.gz")
WHOLE = dict.fromkeys(("status", "message", "output", "address", "steps", "cores", "cbs"), 1.0)
ALL = {**WHOLE, "peak": 1.0}
KNOWN: dict[str, dict[str, float]] = {
    "softmax": WHOLE,
    "softmax_in_place": WHOLE,
    "rms_norm": WHOLE,
    "batch_norm": WHOLE,
    "where": WHOLE,
    "layer_norm": {**WHOLE, "cbs": 0.95},
    "max": ALL,
    "sum": ALL,
    "mean": ALL,
    "min": ALL,
    "var": ALL,
    "std": ALL,
    "argmax": ALL,
    "cumsum": ALL,
    "topk": ALL,
    "scatter": WHOLE,
    "embedding": WHOLE,
}


@pytest.mark.parametrize("op", sorted({record["case"]["op"] for record in RECORDS}))
def test_recorded_calls_are_planned_alike(op: str) -> None:
    agreed: dict[str, list[bool]] = defaultdict(list)
    for record in RECORDS:
        if record["case"]["op"] == op:
            for field, verdict in replay(record).items():
                agreed[field].append(verdict.agrees)
    found = {field: sum(verdicts) / len(verdicts) for field, verdicts in agreed.items()}
    wanted = KNOWN.get(op, {"status": 0.95, "output": 0.85})
    missed = {field: found[field] for field, least in wanted.items() if field in found and found[field] < least}
    assert not missed, f"{op}: {missed} where {wanted} is known to be reached"
