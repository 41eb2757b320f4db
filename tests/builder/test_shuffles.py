# SPDX-License-Identifier: Apache-2.0
"""Shuffles of channels and pixels against torch, wherever the pixels are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import (
    ChannelShuffleConfiguration,
    PixelShuffleConfiguration,
    PixelUnshuffleConfiguration,
    TtChannelShuffle,
    TtPixelShuffle,
    TtPixelUnshuffle,
)


def flattened(images: torch.Tensor) -> torch.Tensor:
    return images.permute(0, 2, 3, 1).reshape(1, 1, -1, images.shape[1])


@pytest.mark.parametrize(
    "batch, side, channels, groups",
    [(1, 28, 116, 2), (2, 14, 24, 2), (1, 7, 464, 2), (1, 28, 240, 3), (1, 56, 48, 2), (2, 7, 40, 4)],
)
@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=str)
def test_channel_shuffle(
    batch: int,
    side: int,
    channels: int,
    groups: int,
    dtype: Any,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    torch_layer = nn.ChannelShuffle(groups)
    x = torch.randint(-8, 8, (batch, channels, side, side)).float()
    given = place(flattened(x), where, dtype)
    before, memory = l1_in_use(), given.memory_config()
    configuration = ChannelShuffleConfiguration.from_torch(torch_layer, channels, deallocate_input=True)
    output = TtChannelShuffle(configuration, device)(given)
    assert output.memory_config() == memory and output.dtype == dtype
    assert not given.is_allocated() and l1_in_use() == before
    assert torch.equal(ttnn.to_torch(output).float(), flattened(torch_layer(x)))


@pytest.mark.parametrize(
    "batch, side, channels, factor",
    [(1, 28, 256, 2), (2, 14, 96, 2), (1, 64, 48, 4), (1, 7, 1024, 2), (2, 7, 36, 3), (1, 56, 192, 2)],
)
def test_pixel_shuffle(
    batch: int,
    side: int,
    channels: int,
    factor: int,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    torch_layer = nn.PixelShuffle(factor)
    x = torch.randn(batch, channels, side, side).bfloat16().float()
    given = place(flattened(x), where)
    configuration = PixelShuffleConfiguration.from_torch(
        torch_layer, side, side, batch, channels, memory_config=ttnn.DRAM_MEMORY_CONFIG, deallocate_input=True
    )
    output, size = TtPixelShuffle(configuration, device)(given, return_output_dim=True)
    assert size == (side * factor, side * factor) and not given.is_allocated() and l1_in_use() == 0
    assert tuple(output.shape) == (1, 1, batch * size[0] * size[1], channels // factor**2)
    assert_rows(flattened(torch_layer(x)), output)


@pytest.mark.parametrize(
    "batch, side, channels, factor",
    [(1, 28, 64, 2), (2, 14, 24, 2), (1, 64, 3, 4), (1, 14, 256, 2), (2, 21, 40, 3), (1, 56, 48, 2)],
)
def test_pixel_unshuffle(
    batch: int,
    side: int,
    channels: int,
    factor: int,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    torch_layer = nn.PixelUnshuffle(factor)
    x = torch.randn(batch, channels, side, side).bfloat16().float()
    given = place(flattened(x), where)
    configuration = PixelUnshuffleConfiguration.from_torch(
        torch_layer, side, side, batch, channels, memory_config=ttnn.DRAM_MEMORY_CONFIG, deallocate_input=True
    )
    output, size = TtPixelUnshuffle(configuration, device)(given, return_output_dim=True)
    assert size == (side // factor, side // factor) and not given.is_allocated() and l1_in_use() == 0
    assert tuple(output.shape) == (1, 1, batch * size[0] * size[1], channels * factor**2)
    assert_rows(flattened(torch_layer(x)), output)


def test_what_cannot_be_shuffled_is_refused() -> None:
    with pytest.raises(ValueError, match=r"groups is 3; it must be a divisor of channels \(64\)"):
        ChannelShuffleConfiguration(64, 3)
    with pytest.raises(ValueError, match="channels is 6; it must be a multiple of 4, the pixels that one becomes"):
        PixelShuffleConfiguration(8, 8, 6, 1, 2)
    with pytest.raises(ValueError, match=r"input_width is 7; it must be a multiple of downscale_factor \(2\)"):
        PixelUnshuffleConfiguration(8, 7, 6, 1, 2)
