"""What the modules are made of: activations fused or not, joining in the shards or not, twice the size, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.yolov4.modules import QUARTER, flat, on_card
from tt_cnn import ttnn
from tt_cnn.builder import TtUpsample, UpsampleConfiguration
from tt_cnn.models.yolov4.tt.config import AT_320, AT_640, BF8, BF16, BLACKHOLE_GRID, HEIGHT, WORMHOLE_GRID, row_of
from tt_cnn.models.yolov4.tt.layers import LEAKY, MISH, ChannelsLast, Twice, joined_in_place


def test_what_a_matrix_multiplication_cannot_fuse_follows_it(model_on: Callable[..., Any]) -> None:
    model = model_on(QUARTER)
    three, one, wide = model.down1.conv2, model.down1.conv3, model.neck.conv7
    assert three.conv.configuration.activation == MISH and three.after is None
    assert one.conv.configuration.activation is None and one.after is not None
    assert wide.conv.configuration.activation == LEAKY and wide.after is None
    assert model.head.conv2.conv.configuration.activation is None and model.head.conv2.after is None


@pytest.mark.parametrize(("channels", "in_shards"), [(64, True), (16, True), (8, False)])
def test_branches_are_joined_in_their_shards(channels: int, in_shards: bool, open_device: Callable[..., Any]) -> None:
    """Rows of a shard must be 32 bytes at least: narrower ones are joined over all banks."""
    device = open_device()
    values = [torch.randn(1, 1, 2048, channels).bfloat16().float() for _ in range(2)]
    config = ttnn.create_sharded_memory_config(
        (32, max(channels, 32)),
        core_grid=ttnn.CoreGrid(x=8, y=8),
        strategy=ttnn.ShardStrategy.HEIGHT,
        use_height_and_width_as_shard_shape=True,
    )
    parts = [
        ttnn.from_torch(each, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
        for each in values
    ]
    together = joined_in_place(*parts)
    assert together.is_sharded() == in_shards
    assert not any(part.is_allocated() for part in parts)
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=3))


@pytest.mark.parametrize(("size", "channels"), [(10, 256), (20, 128), (10, 64), (20, 32), (20, 8)])
def test_twice_is_torchs_nearest(size: int, channels: int, open_device: Callable[..., Any]) -> None:
    device = open_device()
    values = torch.randn(1, channels, size, size).bfloat16().float()
    upsample = TtUpsample(UpsampleConfiguration(size, size, channels, 1, scale_factor=(2, 2)), device)
    found = Twice(upsample, ttnn.bfloat16)(on_card(values, ttnn.bfloat16, device))
    assert torch.equal(ttnn.to_torch(found).float(), flat(torch.nn.functional.interpolate(values, scale_factor=2)))


@pytest.mark.parametrize(("card", "grid"), [("n150", WORMHOLE_GRID), ("p150", BLACKHOLE_GRID)])
@pytest.mark.parametrize("size", [320, 640])
def test_channels_are_put_last(size: int, card: str, grid: tuple[int, int], open_device: Callable[..., Any]) -> None:
    device = open_device(card)
    images = torch.rand(1, 3, size, size).bfloat16().float()
    channels_last = ChannelsLast((size, size), grid)
    given = ttnn.from_torch(images, dtype=ttnn.bfloat16, device=device, memory_config=channels_last.input_memory_config)
    found = channels_last(given)
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
