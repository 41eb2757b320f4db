# SPDX-License-Identifier: Apache-2.0
"""Weights are prepared for the form of an input: with another input, a layer does not use them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import (
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    PlacementConfiguration,
    TtConv2d,
    TtConvTranspose2d,
    TtPlacement,
)
from tt_cnn.builder.convolution import MOST_FORMS

SIZE, CHANNELS = 16, 64
STRATEGIES = {
    "height": ttnn.ShardStrategy.HEIGHT,
    "width": ttnn.ShardStrategy.WIDTH,
    "block": ttnn.ShardStrategy.BLOCK,
}


def config_of(form: str) -> Any:
    if form not in STRATEGIES:
        return {"l1": ttnn.L1_MEMORY_CONFIG, "dram": ttnn.DRAM_MEMORY_CONFIG}[form]
    grid = ttnn.CoreGrid(x=2, y=1) if form == "width" else ttnn.CoreGrid(x=2, y=4)
    shape = (1, 1, SIZE * SIZE, CHANNELS)
    return ttnn.create_sharded_memory_config(shape, core_grid=grid, strategy=STRATEGIES[form])


def put(images: Any, x: torch.Tensor, form: str) -> Any:
    if form == "host":
        return images.put(x, host=True)
    tiles = {} if form in ("l1", "dram") else {"layout": ttnn.TILE_LAYOUT}
    return images.put(x, flat=True, memory_config=config_of(form), **tiles)


def configuration(**options: Any) -> Conv2dConfiguration:
    return Conv2dConfiguration.with_random_weights(SIZE, SIZE, CHANNELS, 96, 1, (3, 3), padding=(1, 1), **options)


def expected(made: Conv2dConfiguration, x: torch.Tensor) -> torch.Tensor:
    assert made.bias is not None
    return F.conv2d(x, ttnn.to_torch(made.weight), ttnn.to_torch(made.bias).reshape(-1), padding=1)


@pytest.mark.parametrize(("first", "second"), list(permutations(("height", "width", "block", "dram", "host"), 2)))
def test_a_layer_is_right_for_every_input_that_it_is_called_with(
    device: Any, images: Any, first: str, second: str
) -> None:
    made = configuration()
    layer = TtConv2d(made, device)
    x = images.random(1, CHANNELS, SIZE, SIZE)
    for form in (first, second, first):
        images.assert_close(expected(made, x), layer(put(images, x, form)))


def test_other_padded_channels_are_another_form(device: Any, images: Any) -> None:
    """A picture's three channels, padded by the model to 8 or to 16."""
    made = Conv2dConfiguration.with_random_weights(SIZE, SIZE, 3, 32, 1, (3, 3), padding=(1, 1))
    layer, x = TtConv2d(made, device), images.random(1, 3, SIZE, SIZE)
    for channels in (8, 16, 8):
        padded = F.pad(x, (0, 0, 0, 0, 0, channels - 3))
        shape = (1, 1, SIZE * SIZE, channels)
        shards = ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)
        images.assert_close(expected(made, x), layer(images.put(padded, flat=True, memory_config=shards)))


def test_an_earlier_layer_that_is_configured_anew_does_not_make_later_ones_wrong(device: Any, images: Any) -> None:
    made, x = configuration(), images.random(1, CHANNELS, SIZE, SIZE)
    before = TtPlacement(PlacementConfiguration(config_of("height")), device, "before")
    layer = TtConv2d(made, device, "layer")
    for form in ("height", "block", "width", "height"):
        before.configure(PlacementConfiguration(config_of(form)))
        given = images.put(x, flat=True, layout=ttnn.TILE_LAYOUT)
        images.assert_close(expected(made, x), layer(before(given)))


def test_slices_of_channels_and_transposed_convolutions_too(device: Any, images: Any) -> None:
    made = configuration(slice_strategy=ChannelSliceStrategyConfiguration(2))
    sliced, x = TtConv2d(made, device), images.random(1, CHANNELS, SIZE, SIZE)
    for form in ("dram", "l1", "dram"):
        images.assert_close(expected(made, x), sliced(put(images, x, form)), pcc=0.99)
    up = ConvTranspose2dConfiguration.with_random_weights(SIZE, SIZE, CHANNELS, 32, 1, (2, 2), stride=(2, 2))
    layer = TtConvTranspose2d(up, device)
    assert up.bias is not None
    wanted = F.conv_transpose2d(x, ttnn.to_torch(up.weight), ttnn.to_torch(up.bias).reshape(-1), stride=2)
    for form in ("height", "block", "height"):
        images.assert_close(wanted, layer(put(images, x, form)), pcc=0.99)


def test_weights_are_prepared_once_for_each_form_and_kept_for_a_few(device: Any, images: Any) -> None:
    layer, x = TtConv2d(configuration(), device), images.random(1, CHANNELS, SIZE, SIZE)
    prepared: dict[str, int] = {}
    for form in ("height", "block"):
        layer(put(images, x, form))
        prepared[form] = layer.weight.buffer_address()
    taken = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    for form in ("block", "height", "block"):
        layer(put(images, x, form))
    assert ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == taken
    assert prepared["height"] != prepared["block"]
    for form in ("width", "dram", "l1", "host", "height"):
        layer(put(images, x, form))
    assert len(layer._kept) == MOST_FORMS
    layer.configure(layer.configuration)
    assert not layer._kept and layer.weight is layer.configuration.weight


def test_a_call_that_fails_prepares_nothing(device: Any, images: Any) -> None:
    layer = TtConv2d(configuration(), device)
    with pytest.raises(RuntimeError):
        layer(images.put(images.random(1, CHANNELS, 4, 4)))
    assert not layer._kept and layer.weight is layer.configuration.weight
