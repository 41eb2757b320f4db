# SPDX-License-Identifier: Apache-2.0
"""What the modules are made of: activations fused or not, joining in the shards or not, twice the size, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.yolov4.modules import QUARTER, flat, on_card
from tt_cnn import ttnn
from tt_cnn.builder import TtUpsample, UpsampleConfiguration
from tt_cnn.models.picture import TtPicture
from tt_cnn.models.yolov4.tt.config import (
    AT_320,
    AT_640,
    BF8,
    BF16,
    BLACKHOLE_GRID,
    HEIGHT,
    WORMHOLE_GRID,
    picture_configuration,
    row_of,
)
from tt_cnn.models.yolov4.tt.layers import LEAKY, MISH, Twice


def test_every_activation_is_its_convolutions(model_on: Callable[..., Any]) -> None:
    """Where TT-NN makes a matmul of a 1x1 convolution, which has neither, the layer lets it follow."""
    model = model_on(QUARTER)
    three, one, wide = model.down1.conv2, model.down1.conv3, model.neck.conv7
    assert three.configuration.activation == one.configuration.activation == MISH
    assert wide.configuration.activation == LEAKY and model.head.conv2.configuration.activation is None
    picture = ttnn.zeros((1, 1, 32, 32), layout=ttnn.TILE_LAYOUT, device=model.device)
    assert three.activation_after(picture) is None and wide.activation_after(picture) is None
    assert one.activation_after(picture) == MISH


def test_branches_are_joined_in_their_shards_where_these_are_rows(model_on: Callable[..., Any]) -> None:
    """Rows of a shard must be 32 bytes at least; blocks are joined over all banks."""
    model = model_on(QUARTER)
    places = [each.concat.configuration.place for each in (model.down1, model.down2, model.down3, model.down4)]
    assert places == ["shards", "shards", "shards", "l1"]


@pytest.mark.parametrize(("size", "channels"), [(10, 256), (20, 128), (10, 64), (20, 32), (20, 8)])
def test_twice_is_torchs_nearest(size: int, channels: int, open_device: Callable[..., Any]) -> None:
    device = open_device()
    values = torch.randn(1, channels, size, size).bfloat16().float()
    upsample = TtUpsample(UpsampleConfiguration(size, size, channels, 1, scale_factor=(2, 2)), device)
    found = Twice(upsample)(on_card(values, ttnn.bfloat16, device))
    assert torch.equal(ttnn.to_torch(found).float(), flat(torch.nn.functional.interpolate(values, scale_factor=2)))


@pytest.mark.parametrize(("card", "grid"), [("n150", WORMHOLE_GRID), ("p150", BLACKHOLE_GRID)])
@pytest.mark.parametrize("size", [320, 640])
def test_channels_are_put_last(size: int, card: str, grid: tuple[int, int], open_device: Callable[..., Any]) -> None:
    device = open_device(card)
    images = torch.rand(1, 3, size, size).bfloat16().float()
    picture = TtPicture(picture_configuration((size, size), 1, grid), device)
    given = ttnn.to_device(picture.to_host(images), device, memory_config=picture.l1_memory_config)
    found = picture(given)
    assert given.is_allocated(), "the picture belongs to the caller"
    shard = found.memory_config().shard_spec
    assert shard.num_cores() == grid[0] * grid[1] and shard.shape[0] % 32 == 0
    values = ttnn.to_torch(found).float()
    assert torch.equal(values[..., :3], flat(images)) and not values[..., 3:].any()


def test_rows_are_found_by_the_layers_name_or_its_modules() -> None:
    assert row_of(AT_320, "down3.resblock.blocks.7.1.conv") == AT_320["down3"]
    assert row_of(AT_320, "down3.conv3.conv").output == BF16 and row_of(AT_320, "down3.conv4.conv").output == BF8
    assert row_of(AT_320, "head.conv2").layout == HEIGHT
    assert row_of(AT_640, "down1.conv6.conv").block == 320 and row_of(AT_320, "down1.conv6.conv").block == 0
