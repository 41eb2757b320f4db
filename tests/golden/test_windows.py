# SPDX-License-Identifier: Apache-2.0
"""Window ops and what stands beside them in a network, recorded in the format of calls written as data: convolutions,
pools and upsampling of inputs on any grid and in DRAM shards, `convert_to_hwc`, global averages, parameters prepared
ahead. The calls were generated after the rules were written; those that were missed at first are among them."""

from __future__ import annotations

import pytest

from tests.golden.test_corpus import replayed, shortfalls

EVERY_FIELD = (
    "status",
    "message",
    "output",
    "address",
    "steps",
    "factories",
    "cores",
    "cbs",
    "borrowed",
    "allocations",
    "peak",
)


@pytest.mark.parametrize("name", ["second_windows_n150.jsonl.gz", "second_windows_p150.jsonl.gz"])
def test_window_ops(name: str) -> None:
    tally = replayed(name)
    assert not tally.missing
    assert not shortfalls(tally, dict.fromkeys(EVERY_FIELD, 99.0))
    assert {family: of["status"].percent for family, of in tally.by_family.items() if of["status"].percent < 98} == {}
