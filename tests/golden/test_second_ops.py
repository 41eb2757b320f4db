# SPDX-License-Identifier: Apache-2.0
"""Recorded calls of ops that other people's models use: planned, placed and refused as by the real library."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.golden.replaying import replay
from tests.virtual.ops.recorded_calls import read

DATA = Path(__file__).parent / "data"
RECORDS = [record for card in ("n150", "p150") for record in read(DATA / f"second_ops_{card}.jsonl.gz")]
OPS = sorted({record["case"]["op"] for record in RECORDS})


@pytest.mark.parametrize("op", OPS)
def test_calls_are_planned_as_recorded(op: str) -> None:
    differences = defaultdict(dict)
    for record in (r for r in RECORDS if r["case"]["op"] == op):
        for field, verdict in replay(record).items():
            if not verdict.agrees:
                differences[f"{record['case']['what']} on {record['card']}"][field] = verdict.recorded, verdict.found
    assert not differences


def test_every_op_has_a_dozen_calls() -> None:
    for op in OPS:
        statuses = [record["result"]["status"] for record in RECORDS if record["case"]["op"] == op]
        assert len(statuses) >= 11 and "ok" in statuses, op
