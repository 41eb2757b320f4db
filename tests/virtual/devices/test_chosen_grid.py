# SPDX-License-Identifier: Apache-2.0
"""Boards differ in the cores that are left to ops: the grid can be chosen when a card is opened."""

from __future__ import annotations

import pytest

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name


@pytest.mark.parametrize("options", [{"card": "p150", "grid": (13, 10)}, {"card": "p150-13x10"}])
def test_planning_follows_the_chosen_grid(options: dict[str, object]) -> None:
    with ttnn.manage_device(0, **options) as device:
        size = device.compute_with_storage_grid_size()
        assert (size.x, size.y) == (13, 10)
        x = ttnn.empty((1, 1, 130 * 32, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device=device)
        config = ttnn.create_sharded_memory_config(
            (1, 1, 130 * 32, 64), ttnn.CoreGrid(x=13, y=10), ttnn.ShardStrategy.HEIGHT
        )
        assert ttnn.to_memory_config(x, config).memory_config().shard_spec.num_cores() == 130


def test_a_p100_has_seven_banks_and_110_cores() -> None:
    with ttnn.manage_device(0, card="p100") as device:
        size = device.compute_with_storage_grid_size()
        assert (size.x * size.y, ttnn.get_memory_view(device, ttnn.BufferType.DRAM).num_banks) == (110, 7)
        assert device.arch() == ttnn.Arch.BLACKHOLE


def test_names_say_the_grid_and_lead_back_to_it() -> None:
    card = card_by_name("p150").with_grid((13, 10))
    assert (card.name, card.model) == ("p150-13x10", "p150")
    assert card_by_name(card.name) == card
    assert card_by_name("p150").with_grid((11, 10)) is card_by_name("p150")


@pytest.mark.parametrize("name", ["p150-15x10", "p150-0x10", "n150-9x8"])
def test_grids_that_no_chip_has_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"has up to \d+x10 cores"):
        card_by_name(name)
