# SPDX-License-Identifier: Apache-2.0
"""Pools, upsampling, transposed convolutions and head ops are planned as TT-NN 0.81.1 plans them, field by field.

The recordings were made with the real library on mocked cards (n150 and p150): random sizes, windows, paddings,
layouts, dtypes, memories, shards and slices. Not among them: three pools of small row-major inputs in L1, whose peak
differs by less than 100 bytes, and preparations of weights for 1x1 windows or for inputs resharded on the way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.virtual.ops.pool_recordings import replay
from tests.virtual.ops.shape_recordings import read
from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay as replay_corpus
from tt_cnn.conformance.tally import Tally

DATA = Path(__file__).parents[2] / "golden" / "data"
RECORDS = read(DATA / "plans_pool.jsonl.gz")
GROUPS = sorted({(record["card"], record["case"]["op"]) for record in RECORDS})


@pytest.mark.parametrize(("card", "op"), GROUPS, ids=lambda value: value)
def test_recorded_calls_are_planned_alike(card: str, op: str) -> None:
    differences = []
    for number, record in enumerate(RECORDS):
        if (record["card"], record["case"]["op"]) != (card, op):
            continue
        for field, verdict in replay(record).items():
            if not verdict.agrees:
                differences.append(f"{number} {field}: recorded {verdict.recorded}, found {verdict.found}")
    assert not differences, "\n".join(differences[:5])


def test_the_recordings_cover_every_step_and_many_refusals() -> None:
    steps = {step["op"] for record in RECORDS for step in record["result"].get("ops", [])}
    assert {"Halo", "Pool2D", "Reduce", "Upsample", "Conv2d", "Matmul", "Move", "PaddedSlice", "SliceWrite"} <= steps
    assert sum(record["result"]["status"] == "error" for record in RECORDS) > 140
    assert sum(record["card"] == "p150" for record in RECORDS) > 40


def test_exact_numbers_are_those_of_the_kernels() -> None:
    tally = Tally()
    list(replay_corpus(read_corpus(DATA / "values_pool"), tally))
    assert tally.counts and all(count.percent == 100 for count in tally.counts.values())
