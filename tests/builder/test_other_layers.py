# SPDX-License-Identifier: Apache-2.0
"""Pools, upsampling, transposed convolutions and fully connected layers against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    ChannelSliceStrategyConfiguration,
    ConvTranspose2dConfiguration,
    GlobalAvgPool2dConfiguration,
    HeightShardedStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    TtAvgPool2d,
    TtConvTranspose2d,
    TtGlobalAvgPool2d,
    TtLinear,
    TtMaxPool2d,
    TtUpsample,
    UpsampleConfiguration,
)


@pytest.mark.parametrize("channels, batch", [(16, 2), (8, 1)])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "stride": 1, "padding": 1, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "stride": 3, "ceil_mode": True},
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": 2},
    ],
    ids=str,
)
def test_max_pool2d(channels: int, batch: int, options: dict[str, Any], device: Any, images: Any) -> None:
    layer = torch.nn.MaxPool2d(**options)
    configuration = MaxPool2dConfiguration.from_torch(layer, 9, 8, batch, channels)
    x = images.random(batch, channels, 9, 8)
    output, size = TtMaxPool2d(configuration, device)(images.put(x, flat=True), return_output_dim=True)
    reference = layer(x)
    assert size == tuple(reference.shape[-2:])
    assert output.layout == ttnn.ROW_MAJOR_LAYOUT and output.dtype == ttnn.bfloat16
    images.assert_close(reference, output, pcc=0.9999)


def test_max_pool2d_in_tiles_and_sharded_as_told(device: Any, images: Any) -> None:
    configuration = MaxPool2dConfiguration(
        8, 8, 64, 1, (2, 2), stride=(2, 2), dtype=ttnn.bfloat8_b, output_layout=ttnn.TILE_LAYOUT,
        applied_shard_scheme=ttnn.TensorMemoryLayout.BLOCK_SHARDED,
    )  # fmt: skip
    x = images.random(1, 64, 8, 8)
    output = TtMaxPool2d(configuration, device)(images.put(x, flat=True))
    assert output.dtype == ttnn.bfloat8_b and output.layout == ttnn.TILE_LAYOUT
    assert output.memory_config().memory_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED
    images.assert_close(F.max_pool2d(x, 2), output)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
        {"kernel_size": 3, "stride": 1, "divisor_override": 5},
    ],
    ids=str,
)
def test_avg_pool2d(options: dict[str, Any], device: Any, images: Any) -> None:
    layer = torch.nn.AvgPool2d(**options)
    configuration = AvgPool2dConfiguration.from_torch(layer, 8, 8, 2, 32)
    x = images.random(2, 32, 8, 8)
    output, size = TtAvgPool2d(configuration, device)(images.put(x, flat=True), return_output_dim=True)
    reference = layer(x)
    assert size == tuple(reference.shape[-2:])
    images.assert_close(reference, output)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT])
def test_global_avg_pool2d(flat: bool, layout: Any, device: Any, images: Any) -> None:
    configuration = GlobalAvgPool2dConfiguration.from_torch(torch.nn.AdaptiveAvgPool2d(1), 8, 8, 2, 64)
    x = images.random(2, 64, 8, 8)
    output, size = TtGlobalAvgPool2d(configuration, device)(
        images.put(x, flat=flat, layout=layout), return_output_dim=True
    )
    assert output.shape == (2, 1, 1, 64) and size == (1, 1)
    images.assert_close(x.mean((2, 3), keepdim=True), output)


def test_global_avg_pool2d_of_a_sharded_input(device: Any, images: Any) -> None:
    x = images.random(2, 64, 8, 8)
    sharded = ttnn.create_sharded_memory_config((1, 1, 128, 64), ttnn.CoreGrid(x=4, y=1), ttnn.ShardStrategy.HEIGHT)
    flat = ttnn.to_memory_config(images.put(x, flat=True, layout=ttnn.TILE_LAYOUT), sharded)
    configuration = GlobalAvgPool2dConfiguration(8, 8, 64, 2, memory_config=ttnn.L1_MEMORY_CONFIG)
    output = TtGlobalAvgPool2d(configuration, device)(flat)
    assert output.memory_config() == ttnn.L1_MEMORY_CONFIG
    images.assert_close(x.mean((2, 3), keepdim=True), output)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("side", [8, 7])
def test_global_avg_pool2d_as_a_mean_of_tiles(device: Any, images: Any, side: int, flat: bool) -> None:
    x = images.random(1, 64, side, side)
    given = images.put(x, flat=flat, layout=ttnn.TILE_LAYOUT)
    configuration = GlobalAvgPool2dConfiguration(side, side, 64, 1, as_mean=True)
    output = TtGlobalAvgPool2d(configuration, device)(given)
    assert output.shape == (1, 1, 1, 64) and output.memory_config() == ttnn.L1_MEMORY_CONFIG
    images.assert_close(x.mean((2, 3), keepdim=True), output)
    assert given.is_allocated()


@pytest.mark.parametrize("side, channels", [(7, 40), (14, 116), (8, 64), (28, 96)])
def test_means_of_several_images(
    side: int, channels: int, where: str, place: Any, device: Any, images: Any, l1_in_use: Any
) -> None:
    x = images.random(3, channels, side, side)
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, channels), where)
    before = l1_in_use()
    configuration = GlobalAvgPool2dConfiguration(
        side, side, channels, 3, as_mean=True, memory_config=ttnn.DRAM_MEMORY_CONFIG
    )
    output = TtGlobalAvgPool2d(configuration, device)(given)
    assert output.shape == (3, 1, 1, channels) and given.is_allocated() and l1_in_use() == before
    images.assert_close(x.mean((2, 3), keepdim=True), output)


@pytest.mark.parametrize("batch, channels", [(1, 64), (3, 64), (8, 288)])
@pytest.mark.parametrize("as_mean", [False, True])
@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b])
def test_averages_in_any_format_as_images_and_as_rows(
    dtype: Any, as_mean: bool, batch: int, channels: int, device: Any, images: Any
) -> None:
    x = images.random(batch, channels, 14, 14)
    rows = x.permute(0, 2, 3, 1).reshape(1, 1, -1, channels)
    for as_rows, shape in ((False, (batch, 1, 1, channels)), (True, (1, 1, batch, channels))):
        configuration = GlobalAvgPool2dConfiguration(14, 14, channels, batch, as_mean=as_mean, as_rows=as_rows)
        given = ttnn.from_torch(rows, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
        output = TtGlobalAvgPool2d(configuration, device)(given)
        assert output.shape == shape and given.is_allocated()
        found = ttnn.to_torch(output).float().reshape(batch, channels)
        assert torch.allclose(found, x.mean((2, 3)), atol=0.01)


@pytest.mark.parametrize("given", [ttnn.bfloat16, ttnn.bfloat8_b])
@pytest.mark.parametrize("wanted", [ttnn.bfloat16, ttnn.bfloat8_b])
def test_averages_have_the_dtype_that_was_asked_for(given: Any, wanted: Any, device: Any, images: Any) -> None:
    x = images.random(2, 64, 7, 7)
    rows = x.permute(0, 2, 3, 1).reshape(1, 1, -1, 64)
    layer = TtGlobalAvgPool2d(GlobalAvgPool2dConfiguration(7, 7, 64, 2, dtype=wanted), device)
    output = layer(ttnn.from_torch(rows, dtype=given, layout=ttnn.TILE_LAYOUT, device=device))
    assert output.dtype == wanted
    assert torch.allclose(ttnn.to_torch(output).float().reshape(2, 64), x.mean((2, 3)), atol=0.01)


@pytest.mark.parametrize("batch, side", [(1, 7), (3, 7), (16, 7), (2, 16), (40, 4)])
@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT], ids=["rows", "tiles"])
def test_an_average_pool_of_whole_images_may_be_a_mean_of_tiles(
    batch: int, side: int, layout: Any, device: Any, images: Any, l1_in_use: Any
) -> None:
    x = images.random(batch, 96, side, side)
    configuration = AvgPool2dConfiguration(
        side, side, 96, batch, kernel_size=(side, side), output_layout=layout, as_mean=True, deallocate_input=True
    )
    rows = x.permute(0, 2, 3, 1).reshape(1, 1, -1, 96)
    given = ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    output = TtAvgPool2d(configuration, device)(given)
    assert not given.is_allocated() and output.layout == layout and output.dtype == ttnn.bfloat16
    assert tuple(output.shape) == (1, 1, batch, 96)
    assert torch.allclose(ttnn.to_torch(output).float().reshape(batch, 96), x.mean((2, 3)), atol=0.01)


def test_a_mean_is_of_whole_images() -> None:
    with pytest.raises(ValueError, match="as_mean is True; it must be False where the window is no whole image"):
        AvgPool2dConfiguration(7, 7, 64, 1, kernel_size=(3, 3), as_mean=True)


@pytest.mark.parametrize("as_mean", [False, True])
def test_averages_of_two_images_have_the_dtype_that_was_asked_for(as_mean: bool, device: Any, images: Any) -> None:
    rows = images.random(2, 64, 7, 7).permute(0, 2, 3, 1).reshape(1, 1, -1, 64)
    given = ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    configuration = GlobalAvgPool2dConfiguration(7, 7, 64, 2, as_mean=as_mean, dtype=ttnn.bfloat8_b)
    assert TtGlobalAvgPool2d(configuration, device)(given).dtype == ttnn.bfloat8_b


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Upsample(scale_factor=2),
        torch.nn.Upsample(scale_factor=(2, 3)),
        torch.nn.Upsample(size=(24, 16)),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
    ],
    ids=str,
)
@pytest.mark.parametrize("flat", [True, False])
def test_upsample(layer: torch.nn.Upsample, flat: bool, device: Any, images: Any) -> None:
    """A flattened input gives the same images: the layer knows their size."""
    configuration = UpsampleConfiguration.from_torch(layer, 8, 8, 2, 32)
    x = images.random(2, 32, 8, 8)
    reference = layer(x)
    output = TtUpsample(configuration, device)(images.put(x, flat=flat))
    assert output.shape == (2, *reference.shape[-2:], 32)
    images.assert_close(reference, output)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel_size": 3, "stride": 1, "padding": (1, 0), "bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "slicing", [None, L1FullSliceStrategyConfiguration(), ChannelSliceStrategyConfiguration(2)], ids=str
)
def test_conv_transpose2d(options: dict[str, Any], slicing: Any, device: Any, images: Any) -> None:
    layer = torch.nn.ConvTranspose2d(64, 32, **options)
    configuration = ConvTranspose2dConfiguration.from_torch(
        layer,
        8,
        8,
        2,
        slice_strategy=slicing,
        sharding_strategy=HeightShardedStrategyConfiguration(),
        activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
    )
    x = images.random(2, 64, 8, 8)
    tt_layer = TtConvTranspose2d(configuration, device)
    output, size = tt_layer(images.put(x), return_output_dim=True)
    reference = layer(x).relu()
    assert size == tuple(reference.shape[-2:])
    images.assert_close(reference, output)
    images.assert_close(reference, tt_layer(images.put(x)))


def test_conv_transpose2d_with_random_weights_and_a_turned_kernel(device: Any, images: Any) -> None:
    configuration = ConvTranspose2dConfiguration.with_random_weights(8, 8, 32, 16, 1, 2, stride=2, mirror_kernel=False)
    x = images.random(1, 32, 8, 8)
    output = TtConvTranspose2d(configuration, device)(images.put(x))
    turned = ttnn.to_torch(configuration.weight).flip((2, 3))
    images.assert_close(F.conv_transpose2d(x, turned, ttnn.to_torch(configuration.bias).reshape(-1), 2), output)


@pytest.mark.parametrize("weights_dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=str)
@pytest.mark.parametrize("activation", [None, "relu", ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)], ids=str)
def test_linear(weights_dtype: Any, activation: Any, device: Any) -> None:
    torch_layer = torch.nn.Linear(64, 100)
    configuration = LinearConfiguration.from_torch(torch_layer, weights_dtype=weights_dtype, activation=activation)
    layer = TtLinear(configuration, device)
    values = torch.randn(1, 1, 40, 64).bfloat16().float()
    rows = ttnn.from_torch(values, dtype=ttnn.bfloat16, device=device)
    output = ttnn.to_torch(layer(rows))
    reference = torch_layer(values)
    reference = reference if activation is None else reference.relu()
    pair = torch.stack((reference.detach().flatten().double(), output.flatten().double()))
    assert torch.corrcoef(pair)[0, 1] > 0.999 and abs(pair[1].std() / pair[0].std() - 1) < 0.05
    assert layer.weight.dtype == weights_dtype
    prepared = layer.weight.buffer_address(), layer.bias.buffer_address()
    layer(ttnn.to_layout(rows, ttnn.TILE_LAYOUT))
    assert (layer.weight.buffer_address(), layer.bias.buffer_address()) == prepared


def test_linear_without_bias_takes_preprocessed_weights(device: Any) -> None:
    weight = torch.randn(32, 64).bfloat16()
    tiles = ttnn.from_torch(weight, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    layer = TtLinear(LinearConfiguration(32, 64, tiles), device)
    values = torch.eye(32).reshape(1, 1, 32, 32)
    rows = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    output = ttnn.to_torch(layer(rows)).reshape(32, 64).float()
    assert layer.weight is tiles
    assert torch.allclose(output, weight.float(), atol=0.05, rtol=0.05)


def test_linear_with_random_weights_reaches_all_features(device: Any) -> None:
    layer = TtLinear(LinearConfiguration.with_random_weights(32, 10, core_grid=ttnn.CoreGrid(x=2, y=2)), device)
    rows = ttnn.from_torch(torch.zeros(1, 1, 32, 32), dtype=ttnn.bfloat16, device=device)
    bias = ttnn.to_torch(layer.configuration.bias).reshape(1, -1)
    assert torch.equal(ttnn.to_torch(layer(rows)).float().reshape(32, 10), bias.expand(32, -1))


@pytest.mark.parametrize("activation", ["hardswish", "relu", ttnn.UnaryWithParam(ttnn.UnaryOpType.MISH, 0.0)], ids=str)
@pytest.mark.parametrize("grid", [None, ttnn.CoreGrid(x=8, y=8)], ids=str)
def test_linear_runs_activations_behind_it_where_tt_nn_cannot(
    activation: Any, grid: Any, where: str, place: Any, device: Any
) -> None:
    torch_layer = torch.nn.Linear(64, 96)
    configuration = LinearConfiguration.from_torch(
        torch_layer, activation=activation, core_grid=grid, math_fidelity=ttnn.MathFidelity.HiFi4
    )
    values = torch.randn(1, 1, 98, 64).bfloat16().float()
    function = getattr(F, activation if isinstance(activation, str) else "mish")
    assert_rows(function(torch_layer(values)), TtLinear(configuration, device)(place(values, where)))
