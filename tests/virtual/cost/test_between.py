# SPDX-License-Identifier: Apache-2.0
"""Gaps and transfers by the measured figures."""

from __future__ import annotations

import pytest

from tt_cnn.virtual.arch import CARDS, card_by_name
from tt_cnn.virtual.cost.between import gap_ns, transfer_ns

N150 = card_by_name("n150")
SIZE = 64 * 2**20


@pytest.mark.parametrize(
    ("card", "direction", "page", "rate"),
    [
        ("n150", "write", 2048, 14.0),
        ("n150", "write", 512, 7.83),
        ("n150", "write", 32, 0.53),
        ("n150", "read", 2048, 12.6),
        ("p150", "write", 2048, 21.5),
        ("p150", "read", 2048, 14.5),
    ],
)
def test_large_transfers_go_at_the_measured_rates(card: str, direction: str, page: int, rate: float) -> None:
    took = transfer_ns(card_by_name(card), direction, SIZE, page)  # type: ignore[arg-type]
    assert SIZE / took == pytest.approx(rate, rel=0.01)


def test_smaller_pages_are_slower_all_the_way() -> None:
    times = [transfer_ns(N150, "write", SIZE, page) for page in (4096, 2048, 1024, 512, 200, 64, 32, 16, 8)]
    assert times[0] == pytest.approx(times[1])
    assert times[1:] == sorted(times[1:])
    assert times[-1] == pytest.approx(2 * times[-2], rel=0.01)  # a page takes as long as one of 32 bytes


def test_a_direction_must_be_one() -> None:
    with pytest.raises(ValueError, match="'write' or 'read'"):
        transfer_ns(N150, "up", SIZE, 2048)  # type: ignore[arg-type]


def test_traces_shorten_the_gaps() -> None:
    for card in CARDS.values():
        assert gap_ns(card, traced=True) < gap_ns(card, traced=False)


def test_ethernet_dispatch_costs_the_n300_more() -> None:
    assert gap_ns(card_by_name("n300"), traced=True) > gap_ns(N150, traced=True)


def test_chips_of_a_card_share_its_link_and_the_second_is_reached_over_ethernet() -> None:
    """Published for an n300: 14.0 GB/s to the first chip, 9.4 to the other; 12.6 and 4.8 back."""
    n300 = card_by_name("n300")
    start = transfer_ns(n300, "write", 0, 2048)
    assert transfer_ns(n300, "write", SIZE, 2048, chips=2) - start == pytest.approx(2 * SIZE / 14.0)
    start = transfer_ns(n300, "read", 0, 2048)
    assert transfer_ns(n300, "read", SIZE, 2048, chips=2) - start == pytest.approx(SIZE / 4.8)
    t3000, galaxy = card_by_name("t3000"), card_by_name("galaxy")
    assert transfer_ns(t3000, "read", SIZE, 2048, chips=8) == transfer_ns(n300, "read", SIZE, 2048, chips=2)
    assert transfer_ns(galaxy, "read", SIZE, 2048, chips=32) - start == pytest.approx(7 * SIZE / 4.8)
