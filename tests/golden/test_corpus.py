"""The shortened corpora, replayed: the share of records that must agree, for the ops that the virtual card has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import Tally

DATA = Path(__file__).parent / "data"
PLANNED_OPS = {"add", "concat", "leaky_relu", "mish", "relu", "silu", "to_layout", "to_memory_config"}
"""Ops of `ops_wormhole` that must be there; the others count as soon as they are."""

PLANS = {"status": 97, "message": 85, "output": 98, "address": 95}
CONVOLUTION_PLANS = {"status": 90, "message": 85, "output": 95, "address": 80}
"""Percent of the records that must agree."""


def replayed(name: str) -> Tally:
    tally = Tally()
    corpus = read_corpus(DATA / name)
    assert len(list(replay(corpus, tally))) == len(corpus.records)
    return tally


def shortfalls(tally: Tally, minimum: dict[str, float]) -> dict[str, list[object]]:
    """The fields that agree too rarely, with their differences to look at."""
    return {
        name: [(d.place, d.recorded, d.found) for d in tally.differences[name]]
        for name, percent in minimum.items()
        if tally.counts[name].percent < percent
    }


def test_host_conversions_are_those_of_the_library_to_the_bit() -> None:
    assert not shortfalls(replayed("numerics.npz"), {"numerics": 100})


def test_plans_of_ops() -> None:
    tally = replayed("ops_wormhole.jsonl.gz")
    assert set(tally.by_op) >= PLANNED_OPS
    minimum = {
        "status": 97,
        "message": 85,
        "output": 98,
        "address": 95,
        "steps": 95,
        "cores": 90,
        "cbs": 90,
        "peak": 90,
    }
    assert not shortfalls(tally, minimum)


def test_values_of_elementwise_kernels() -> None:
    tally = replayed("values")
    assert not tally.missing
    assert not shortfalls(tally, {"values": 80, "error": 95})


@pytest.mark.parametrize("name", ["conv2d_wormhole.jsonl.gz", "conv2d_blackhole.jsonl.gz", "chains_wormhole.jsonl.gz"])
def test_plans_of_convolutions_and_chains_agree_where_they_can_be_made(name: str) -> None:
    tally = replayed(name)
    assert not shortfalls(
        tally, {field: percent for field, percent in CONVOLUTION_PLANS.items() if field in tally.counts}
    )


def test_networks_agree_where_they_can_be_run() -> None:
    tally = replayed("networks")
    assert not shortfalls(tally, {field: 50 for field in ("values", "error") if field in tally.counts})
