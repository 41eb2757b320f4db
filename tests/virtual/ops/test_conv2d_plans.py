# SPDX-License-Identifier: Apache-2.0
"""conv2d is planned as TT-NN 0.81.1 plans it: every recorded call, every field.

The recordings were made with the real library on mocked cards (n150, p150), beside the corpora: odd sizes and options
together, inputs on the host, in L1 and in shards of all kinds, depthwise lines, slices, and calls that it refuses.
Kernels larger than their padded input are not among them: there the real library computes with wrapped-around numbers.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.virtual.ops.conv2d_recordings import read, replay
from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay as replay_corpus
from tt_cnn.conformance.tally import Tally

DATA = Path(__file__).parents[2] / "golden" / "data"
RECORDS = read(DATA / "plans_conv2d.jsonl.gz")
GROUPS = sorted({(record["card"], record["case"].get("memory", {"kind": "dram"})["kind"]) for record in RECORDS})


@pytest.mark.parametrize(("card", "memory"), GROUPS, ids=lambda value: value)
def test_recorded_calls_are_planned_alike(card: str, memory: str) -> None:
    differences = []
    for number, record in enumerate(RECORDS):
        if (record["card"], record["case"].get("memory", {"kind": "dram"})["kind"]) != (card, memory):
            continue
        for field, verdict in replay(record).items():
            if not verdict.agrees:
                differences.append(f"{number} {field}: {verdict.recorded} became {verdict.found}")
    assert not differences, "\n".join(differences[:5])


def test_the_recordings_cover_every_step() -> None:
    steps = {step["op"] for record in RECORDS for step in record["result"].get("ops", [])}
    assert {"Halo", "Conv2d", "Matmul", "Move", "PaddedSlice", "SliceWrite", "Fold", "Tilize", "Reshard"} <= steps
    assert sum(record["result"]["status"] == "error" for record in RECORDS) > 200


@pytest.mark.parametrize("name", ["conv2d_wormhole", "conv2d_blackhole"])
def test_every_field_of_the_corpus_agrees(name: str) -> None:
    tally = Tally()
    list(replay_corpus(read_corpus(DATA / f"{name}.jsonl.gz"), tally))
    least = dict.fromkeys(tally.counts, 100) | {"graph_peak": 95}  # ten dry runs of refused calls end elsewhere
    assert not {
        field: tally.differences[field][:3] for field in tally.counts if tally.counts[field].percent < least[field]
    }


def test_plans_are_quick() -> None:
    """Far above what the corpora need, so that it fails for a rule that loops over pixels and not for a busy host."""
    started = time.process_time()
    for record in RECORDS[:200]:
        replay(record)
    assert time.process_time() - started < 10
