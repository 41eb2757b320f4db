# SPDX-License-Identifier: Apache-2.0
"""The shortened corpora, replayed: the share of records that must agree, for the ops that the virtual card has.

The `second_look` corpora hold calls that were recorded after the rules were written, with those that were missed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import Tally

DATA = Path(__file__).parent / "data"
PLAN_FIELDS = ("status", "message", "output", "address", "steps", "cores", "cbs", "peak", "graph_peak")
PLANS = dict.fromkeys(PLAN_FIELDS, 99.0) | {"graph_peak": 98.0}
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


@pytest.mark.parametrize(
    "name",
    [
        "ops_wormhole.jsonl.gz",
        "conv2d_wormhole.jsonl.gz",
        "conv2d_blackhole.jsonl.gz",
        "chains_wormhole.jsonl.gz",
        "ops_second_look.jsonl.gz",
        "conv2d_second_look.jsonl.gz",
        "chains_second_look.jsonl.gz",
    ],
)
def test_plans(name: str) -> None:
    tally = replayed(name)
    assert not tally.missing
    assert not shortfalls(tally, PLANS)


def test_plans_of_norms_and_tall_reductions() -> None:
    """Recorded after the rules were written, without group norms that choose their own blocks (docs/fidelity.md)."""
    tally = replayed("second_norm_n150.jsonl.gz")
    assert not tally.missing
    fields = ("factories", "allocations", *PLAN_FIELDS)
    assert not shortfalls(tally, dict.fromkeys(fields, 99.0))


def test_values_of_elementwise_kernels() -> None:
    tally = replayed("values")
    assert not tally.missing
    assert not shortfalls(tally, {"values": 100, "error": 100})


def test_networks() -> None:
    tally = replayed("networks")
    assert not tally.missing
    assert not shortfalls(tally, {"values": 100, "error": 90})
