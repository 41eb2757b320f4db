# SPDX-License-Identifier: Apache-2.0
"""The second corpus, family by family: calls written as data, recorded from the real library on an n150 and a p150."""

from __future__ import annotations

from pathlib import Path

import pytest

from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import FIELDS, Tally

SECOND = Path(__file__).parent / "data" / "second"
NO_SUCH_NAME_EITHER = {"ttnn.Tensor.__pow__", "ttnn.Tensor.__neg__"}
"""Calls that were recorded to be refused, because the real library has no such method."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    found = Tally()
    for path in sorted(SECOND.glob("*.jsonl.gz")):
        corpus = read_corpus(path)
        assert len(list(replay(corpus, found))) == len(corpus.records)
    return found


def test_every_call_is_there(tally: Tally) -> None:
    assert tally.records == 2924
    assert set(tally.missing) <= NO_SUCH_NAME_EITHER


@pytest.mark.parametrize("field", [name for name in FIELDS if name not in ("numerics", "values", "error")])
def test_every_field_agrees_in_99_percent(tally: Tally, field: str) -> None:
    least = 98.0 if field == "graph_peak" else 99.0  # graphs of refused calls end where the library's own do not
    differences = [(one.place, one.recorded, one.found) for one in tally.differences.get(field, [])]
    assert tally.counts[field].percent >= least, differences[:5]


def test_the_status_agrees_in_98_percent_of_each_family(tally: Tally) -> None:
    shares = {family: counts["status"].percent for family, counts in tally.by_family.items()}
    assert len(shares) == 21
    assert all(share >= 98.0 for share in shares.values()), shares
