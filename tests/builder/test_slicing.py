# SPDX-License-Identifier: Apache-2.0
"""Slicing strategies: the same values, made in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    MaxPool2dConfiguration,
    TtAvgPool2d,
    TtConv2d,
    TtMaxPool2d,
    TtUpsample,
    UpsampleConfiguration,
    WidthSliceStrategyConfiguration,
    to_slice_config,
)

STRATEGIES = (
    None,
    L1FullSliceStrategyConfiguration(),
    HeightSliceStrategyConfiguration(num_slices=2),
    WidthSliceStrategyConfiguration(num_slices=2),
    ChannelSliceStrategyConfiguration(num_slices=4),
)
RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)


def convolution(in_channels: int = 64, out_channels: int = 128, **settings: Any) -> Conv2dConfiguration:
    return Conv2dConfiguration.with_random_weights(
        32, 64, in_channels, out_channels, 1, (3, 3), padding=(1, 1), **settings
    )


def expected(configuration: Conv2dConfiguration, x: Any) -> Any:
    bias = None if configuration.bias is None else ttnn.to_torch(configuration.bias).reshape(-1)
    return F.conv2d(x, ttnn.to_torch(configuration.weight), bias, padding=1)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("channels", [(64, 128), (128, 64)])
def test_conv2d(strategy: Any, channels: tuple[int, int], device: Any, images: Any) -> None:
    configuration = convolution(*channels, slice_strategy=strategy)
    layer = TtConv2d(configuration, device)
    x = images.random(1, channels[0], 32, 64)
    output, size = layer(images.put(x), return_output_dim=True)
    assert size == (32, 64)
    assert len(layer.weight_slices) == (4 if isinstance(strategy, ChannelSliceStrategyConfiguration) else 0)
    in_l1 = isinstance(strategy, L1FullSliceStrategyConfiguration)
    assert output.memory_config().buffer_type == (ttnn.BufferType.L1 if in_l1 else ttnn.BufferType.DRAM)
    images.assert_close(expected(configuration, x), output)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("host", [True, False])
def test_channel_slices_of_a_convolution_are_summed_before_the_activation(
    biased: bool, host: bool, device: Any, images: Any
) -> None:
    made = convolution(64, 32)
    configuration = Conv2dConfiguration(
        32, 64, 64, 32, 1, (3, 3), made.weight, padding=(1, 1), bias=made.bias if biased else None,
        activation=RELU, slice_strategy=ChannelSliceStrategyConfiguration(4), output_layout=ttnn.ROW_MAJOR_LAYOUT,
    )  # fmt: skip
    x = images.random(1, 64, 32, 64)
    output = TtConv2d(configuration, device)(images.put(x, host=host))
    assert output.layout == ttnn.ROW_MAJOR_LAYOUT
    images.assert_close(expected(configuration, x).relu(), output)


def test_sliced_weights_are_prepared_once_and_nothing_is_left_behind(
    device: Any, images: Any, l1_in_use: Callable[[], int]
) -> None:
    layer = TtConv2d(convolution(slice_strategy=ChannelSliceStrategyConfiguration(4)), device)
    x = images.put(images.random(1, 64, 32, 64))
    first = ttnn.to_torch(layer(x))
    addresses = [w.buffer_address() for w in layer.weight_slices] + [layer.bias.buffer_address()]
    before = l1_in_use(), ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    assert (ttnn.to_torch(layer(x)) == first).all()
    assert [w.buffer_address() for w in layer.weight_slices] + [layer.bias.buffer_address()] == addresses
    after = l1_in_use(), ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    assert after == before and before[0] == 0
    assert x.is_allocated()


def test_channel_slicing_frees_the_input_when_told(device: Any, images: Any) -> None:
    configuration = convolution(32, 32, slice_strategy=ChannelSliceStrategyConfiguration(2), deallocate_activation=True)
    x = images.random(1, 32, 32, 64)
    kept, freed = images.put(x), images.put(x, memory_config=ttnn.L1_MEMORY_CONFIG)
    layer = TtConv2d(configuration, device)
    images.assert_close(expected(configuration, x), layer(kept))
    layer(freed)
    assert kept.is_allocated() and not freed.is_allocated(), "only L1 is scarce: TT-NN keeps inputs in DRAM too"


@pytest.mark.parametrize("strategy", [None, STRATEGIES[1], STRATEGIES[4]], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kernel, ceil", [(2, True), (4, False)])
def test_pools(strategy: Any, kernel: int, ceil: bool, device: Any, images: Any) -> None:
    settings = {"ceil_mode": ceil, "slice_strategy": strategy}
    x = images.random(1, 128, 32, 16)
    flat = images.put(x, flat=True)
    window = (32, 16, 128, 1, (kernel, kernel))
    output = TtMaxPool2d(MaxPool2dConfiguration(*window, **settings), device)(flat)
    images.assert_close(F.max_pool2d(x, kernel, 1, ceil_mode=ceil), output)
    output = TtAvgPool2d(AvgPool2dConfiguration(*window, **settings), device)(flat)
    images.assert_close(F.avg_pool2d(x, kernel, 1, ceil_mode=ceil), output)
    assert flat.is_allocated()


@pytest.mark.parametrize("strategy", [None, ChannelSliceStrategyConfiguration(2)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("frees", [True, False])
def test_a_pool_gives_a_sharded_input_back_when_told(strategy: Any, frees: bool, device: Any, images: Any) -> None:
    x = images.random(1, 64, 16, 16)
    shards = ttnn.create_sharded_memory_config((1, 1, 256, 64), ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)
    flat = ttnn.to_memory_config(images.put(x, flat=True), shards)
    configuration = MaxPool2dConfiguration(16, 16, 64, 1, (2, 2), deallocate_input=frees, slice_strategy=strategy)
    images.assert_close(F.max_pool2d(x, 2, 1), TtMaxPool2d(configuration, device)(flat))
    assert flat.is_allocated() != frees


@pytest.mark.parametrize("strategy", [None, STRATEGIES[1], STRATEGIES[4]], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("scale, mode", [(2, "bilinear"), ((2, 3), "nearest"), (4, "nearest")])
def test_upsample(strategy: Any, scale: Any, mode: str, device: Any, images: Any) -> None:
    configuration = UpsampleConfiguration(16, 8, 128, 1, scale, mode, slice_strategy=strategy)
    x = images.random(1, 128, 16, 8)
    output, size = TtUpsample(configuration, device)(images.put(x), return_output_dim=True)
    reference = F.interpolate(x, scale_factor=configuration.scale_factor, mode=mode)
    assert size == tuple(reference.shape[-2:])
    images.assert_close(reference, output)


def test_what_ttnn_is_told() -> None:
    assert to_slice_config(None) is None
    channels = ChannelSliceStrategyConfiguration(2)
    assert to_slice_config(channels) is ttnn.Conv2dL1FullSliceConfig
    assert (channels.get_slice_type(), channels.get_num_slices()) == (ttnn.Conv2dL1Full, 2)
    height = to_slice_config(HeightSliceStrategyConfiguration(3))
    assert (height.slice_type, height.num_slices) == (ttnn.Conv2dDRAMSliceHeight, 3)
    assert to_slice_config(WidthSliceStrategyConfiguration()).slice_type == ttnn.Conv2dDRAMSliceWidth
    assert to_slice_config(L1FullSliceStrategyConfiguration()).slice_type == ttnn.Conv2dL1Full
