# SPDX-License-Identifier: Apache-2.0
"""Layers that work on groups of neighbouring channels, and rearrangements of tiles, against torch."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder.grouped_softmax import GroupedSoftmaxConfiguration, TtGroupedSoftmax
from tt_cnn.builder.multiply import TtMultiply
from tt_cnn.builder.multiply_configuration import MultiplyConfiguration
from tt_cnn.builder.rearrange import RearrangeConfiguration, TtRearrange


def tiles(values: torch.Tensor, device: Any) -> Any:
    return ttnn.from_torch(
        values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG
    )


@pytest.mark.parametrize("shift", [0.0, 300.0, -300.0])
@pytest.mark.parametrize(("rows", "groups", "size"), [(100, 4, 16), (64, 2, 32), (33, 3, 5), (7, 1, 40)])
def test_grouped_softmax(rows: int, groups: int, size: int, shift: float, device: Any) -> None:
    """Also of values whose exponentials no format holds, and of groups that differ by a lot."""
    torch.manual_seed(0)
    x = (4 * torch.randn(rows, groups, size) + shift + 20 * torch.arange(groups)[:, None]).bfloat16().float()
    layer = TtGroupedSoftmax(GroupedSoftmaxConfiguration(groups, size, deallocate_input=True), device)
    given = tiles(x.reshape(1, 1, rows, -1), device)
    found = ttnn.to_torch(layer(given)).float().reshape(x.shape)
    assert not given.is_allocated()
    assert (found - x.softmax(-1)).abs().max() < 0.02
    assert (found.sum(-1) - 1).abs().max() < 0.03


@pytest.mark.parametrize(("rows", "groups", "size"), [(100, 3, 80), (32, 4, 8), (65, 2, 16), (20, 5, 1)])
def test_factors_of_groups(rows: int, groups: int, size: int, device: Any) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(rows, groups, size).bfloat16().float(), torch.randn(rows, groups, 1).bfloat16().float()
    configuration = MultiplyConfiguration(deallocate_input=True, deallocate_other=True)
    given = tiles(x.reshape(1, 1, rows, -1), device), tiles(y.reshape(1, 1, rows, -1), device)
    found = ttnn.to_torch(TtMultiply(configuration, device)(*given)).float().reshape(x.shape)
    assert not any(each.is_allocated() for each in given)
    assert ((found - x * y).abs() <= 0.01 * (x * y).abs() + 1e-6).all()


@pytest.mark.parametrize("seed", range(60))
def test_random_rearrangements_of_tiles(seed: int, device: Any) -> None:
    """Whatever runs the rows and the columns of the tiles are of."""
    chance = random.Random(seed)
    sizes = [chance.choice((1, 2, 3, 5, 16, 40, 64)) for _ in range(chance.randint(2, 5))]
    while prod(sizes) > 100_000:
        sizes.pop()
    order = chance.sample(range(len(sizes)), len(sizes))
    columns = prod(sizes[chance.randint(1, len(sizes)) :])
    moved = [sizes[dim] for dim in order]
    last = prod(moved[chance.randint(1, len(moved)) :])
    x = torch.randint(-100, 100, (prod(sizes),)).float()
    given = tiles(x.reshape(1, 1, -1, columns), device)
    shape = (1, 1, prod(sizes) // last, last)
    layer = TtRearrange(RearrangeConfiguration(tuple(sizes), tuple(order), shape), device)
    expected = x.reshape(sizes).permute(order).reshape(shape)
    assert torch.equal(ttnn.to_torch(layer(given)).float(), expected), (sizes, order, columns)
