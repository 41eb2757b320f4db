# SPDX-License-Identifier: Apache-2.0
"""Graphs of many calls beside those of the real library (n150), in both run modes, without and with a program cache."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.virtual.graphs.recorded_calls import CALLS, capture, summary
from tt_cnn.virtual import ttnn

DATA = Path(__file__).parents[2] / "golden" / "data" / "graph_calls.jsonl.gz"
RECORDED = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
CACHE_HITS_DIFFER = {
    ("moves", "NO_DISPATCH"): "the move of a dry run is another program there",
    ("does_not_fit", "NO_DISPATCH"): "programs of unary ops do not depend on the tensor's shape there",
}


def test_all_calls_are_recorded() -> None:
    assert {one["case"] for one in RECORDED} == set(CALLS)
    assert len(RECORDED) == 4 * len(CALLS)


@pytest.mark.parametrize("real", RECORDED, ids=lambda one: f"{one['case']}-{one['mode']}-{one['cache']}")
def test_what_happens_and_the_peaks_are_the_real_ones(open_card, real) -> None:
    card = open_card(l1_small_size=65536, hazards="off")
    if real["cache"]:
        capture(ttnn, card, real["case"], "NORMAL")
    else:
        card.disable_and_clear_program_cache()
    mine = summary(ttnn, capture(ttnn, card, real["case"], real["mode"]))
    if real["cache"] and (real["case"], real["mode"]) in CACHE_HITS_DIFFER:
        for one in (*mine["happened"], *real["happened"]):
            if one[0].endswith("Operation"):
                one[1] = None
    for field, value in mine.items():
        assert value == real[field], field
