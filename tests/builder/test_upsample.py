# SPDX-License-Identifier: Apache-2.0
"""Upsampling of flattened pixels in tiles, wherever they are, to rows and back to tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import ChannelSliceStrategyConfiguration, TtUpsample, UpsampleConfiguration


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT], ids=["rows", "tiles"])
@pytest.mark.parametrize(
    "batch, side, channels, scale",
    [(1, 14, 256, 2), (2, 7, 40, 2), (1, 28, 24, 4), (1, 32, 64, 2), (2, 16, 64, 8), (1, 7, 116, 2), (2, 1, 96, 7)],
)
def test_values_are_torchs(
    mode: str,
    layout: Any,
    batch: int,
    side: int,
    channels: int,
    scale: int,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    x = torch.randn(batch, channels, side, side).bfloat16().float()
    configuration = UpsampleConfiguration.from_torch(
        torch.nn.Upsample(scale_factor=scale, mode=mode),
        side,
        side,
        batch,
        channels,
        output_layout=layout,
        memory_config=ttnn.DRAM_MEMORY_CONFIG,
        deallocate_input=True,
    )
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, channels), where)
    output, size = TtUpsample(configuration, device)(given, return_output_dim=True)
    assert not given.is_allocated() and l1_in_use() == 0
    assert size == (scale * side, scale * side) and output.layout == layout
    pixels = batch * size[0] * size[1]
    flat = layout == ttnn.TILE_LAYOUT
    assert tuple(output.shape) == ((1, 1, pixels, channels) if flat else (batch, *size, channels))
    assert_rows(F.interpolate(x, scale_factor=scale, mode=mode).permute(0, 2, 3, 1), output)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_block_formats_come_in_and_go_out(mode: str, where: str, place: Callable[..., Any], device: Any) -> None:
    x = torch.randn(1, 64, 14, 14).bfloat16().float()
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, 64), where, ttnn.bfloat8_b)
    settings = {"mode": mode, "output_layout": ttnn.TILE_LAYOUT, "output_dtype": ttnn.bfloat8_b}
    output = TtUpsample(UpsampleConfiguration(14, 14, 64, 1, 2, **settings), device)(given)
    assert output.dtype == ttnn.bfloat8_b and given.is_allocated()
    assert_rows(F.interpolate(x, scale_factor=2, mode=mode).permute(0, 2, 3, 1), output)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_slices_of_channels_that_are_no_tiles(mode: str, where: str, place: Callable[..., Any], device: Any) -> None:
    x = torch.randn(1, 80, 7, 7).bfloat16().float()
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, 80), where)
    settings = {"mode": mode, "slice_strategy": ChannelSliceStrategyConfiguration(2)}
    output = TtUpsample(UpsampleConfiguration(7, 7, 80, 1, (2, 3), **settings), device)(given)
    assert_rows(F.interpolate(x, scale_factor=(2, 3), mode=mode).permute(0, 2, 3, 1), output)
