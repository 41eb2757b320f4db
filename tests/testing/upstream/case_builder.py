# SPDX-License-Identifier: Apache-2.0
"""Layers and configurations, as tests of TT-CNN use them."""

import pytest
import torch
import ttnn
from models.tt_cnn.tt.builder import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    MaxPool2dConfiguration,
    ShardedStrategyConfiguration,
    TtConv2d,
    TtMaxPool2d,
    TtUpsample,
    UpsampleConfiguration,
    WidthShardedStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)
from tests.ttnn.utils_for_testing import assert_with_pcc
from ttnn.model_preprocessing import infer_ttnn_module_args

PARAMS = [{"l1_small_size": 32768}]
GOOD = 0.999
DEVICE = pytest.mark.parametrize("device_params", PARAMS, indirect=True)
SHARDINGS = (
    AutoShardedStrategyConfiguration(),
    HeightShardedStrategyConfiguration(),
    WidthShardedStrategyConfiguration(),
    BlockShardedStrategyConfiguration(),
)
SLICINGS = {
    "none": lambda: None,
    "height": lambda: HeightSliceStrategyConfiguration(num_slices=2),
    "width": lambda: WidthSliceStrategyConfiguration(num_slices=2),
    "channel": lambda: ChannelSliceStrategyConfiguration(num_slices=4),
}


def image(batch, channels, height, width):
    return torch.randn((batch, channels, height, width), dtype=torch.bfloat16).float()


def nhwc(x, **options):
    return ttnn.from_torch(x.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, **options)


def flat(x, **options):
    rows = x.permute(0, 2, 3, 1).reshape(1, 1, -1, x.shape[1])
    return ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, **options)


def same(reference, output, pcc=GOOD):
    n, c, h, w = reference.shape
    assert_with_pcc(reference, ttnn.to_torch(output).reshape(n, h, w, c).permute(0, 3, 1, 2), pcc)


def convolved(configuration, x):
    bias = configuration.bias
    return torch.nn.functional.conv2d(
        x,
        ttnn.to_torch(configuration.weight),
        None if bias is None else ttnn.to_torch(bias).reshape(-1),
        stride=configuration.stride,
        padding=configuration.padding,
        dilation=configuration.dilation,
        groups=configuration.groups,
    )


@pytest.mark.parametrize("num_cores, rows, cols", [(1, 1, 1), (1, 8, 8), (4, 8, 8), (63, 8, 8)])
def test_core_grids(num_cores, rows, cols):
    assert ShardedStrategyConfiguration.get_core_grid_from_num_cores(num_cores, rows, cols).num_cores() == num_cores


@DEVICE
@pytest.mark.parametrize("sharding_strategy", SHARDINGS)
@pytest.mark.parametrize("size", [(8, 8), (16, 8)])
@pytest.mark.parametrize("channels", [(8, 16), (16, 16)])
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("kernel, padding", [(3, 1), (5, 2)])
def test_convolutions(size, channels, batch_size, kernel, padding, sharding_strategy, device):
    configuration = Conv2dConfiguration.with_random_weights(
        input_height=size[0],
        input_width=size[1],
        in_channels=channels[0],
        out_channels=channels[1],
        batch_size=batch_size,
        kernel_size=(kernel, kernel),
        padding=(padding, padding),
        sharding_strategy=sharding_strategy,
    )
    x = image(batch_size, channels[0], *size)
    same(convolved(configuration, x), TtConv2d(configuration, device)(nhwc(x)))


@DEVICE
@pytest.mark.parametrize("kernel, ceil_mode", [(2, True), (4, False)])
@pytest.mark.parametrize("channels", [16, 8])
@pytest.mark.parametrize("size", [(8, 8), (16, 8)])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_pools(size, channels, batch_size, kernel, ceil_mode, device):
    configuration = MaxPool2dConfiguration(
        size[0], size[1], channels, batch_size=batch_size, kernel_size=(kernel, kernel), ceil_mode=ceil_mode
    )
    x = image(batch_size, channels, *size)
    reference = torch.nn.functional.max_pool2d(
        x,
        kernel_size=configuration.kernel_size,
        stride=configuration.stride,
        padding=configuration.padding,
        dilation=configuration.dilation,
        ceil_mode=configuration.ceil_mode,
    )
    same(reference, TtMaxPool2d(configuration, device)(ttnn.to_device(flat(x), device)))


@DEVICE
@pytest.mark.parametrize("scale_factor, mode", [(2, "bilinear"), ((2, 3), "nearest"), (4, "nearest")])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_upsampling(scale_factor, mode, batch_size, device):
    configuration = UpsampleConfiguration(
        input_height=16, input_width=8, channels=32, batch_size=batch_size, scale_factor=scale_factor, mode=mode
    )
    x = image(batch_size, 32, 16, 8)
    reference = torch.nn.functional.interpolate(x, scale_factor=configuration.scale_factor, mode=configuration.mode)
    same(reference, TtUpsample(configuration, device)(ttnn.to_device(nhwc(x), device)))


@DEVICE
@pytest.mark.parametrize("size", [224, 32])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_two_convolutions_and_a_pool(size, batch_size, device):
    strategy = HeightShardedStrategyConfiguration(act_block_h_override=64, reshard_if_not_optimal=False)
    shared = {"padding": (1, 1), "sharding_strategy": strategy}
    first, second = (
        Conv2dConfiguration.with_random_weights(size, size, channels, 32, batch_size, (3, 3), **shared)
        for channels in (16, 32)
    )
    last = MaxPool2dConfiguration(
        size, size, 32, batch_size=batch_size, kernel_size=(2, 2), padding=(0, 0), stride=(2, 2)
    )
    x = image(batch_size, 16, size, size)
    y = nhwc(x)
    for layer in (TtConv2d(first, device), TtConv2d(second, device), TtMaxPool2d(last, device)):
        y = layer(y)
    reference = torch.nn.functional.max_pool2d(convolved(second, convolved(first, x)), (2, 2), (2, 2))
    same(reference, y)


@DEVICE
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 1, "bias": True},
        {"kernel_size": 5, "stride": 1, "padding": 2, "groups": 1, "bias": False},
    ],
)
@pytest.mark.parametrize("how", ["from_torch", "from_model_args"])
def test_configurations_of_torchs_convolutions(options, how, device):
    layer = torch.nn.Conv2d(in_channels=8, out_channels=16, **options)
    x = torch.randn(2, 8, 16, 8)
    if how == "from_torch":
        configuration = Conv2dConfiguration.from_torch(torch_layer=layer, input_height=16, input_width=8, batch_size=2)
    else:
        arguments = infer_ttnn_module_args(model=layer, run_model=lambda _: layer(x), device=None)
        weight, bias = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(
            layer.weight.data, layer.bias.data if layer.bias is not None else None
        )
        configuration = Conv2dConfiguration.from_model_args(arguments, weights=weight, bias=bias)
    for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "groups"):
        assert getattr(configuration, name) == getattr(layer, name)
    assert_with_pcc(ttnn.to_torch(configuration.weight), layer.weight.data, 1.0)
    assert (configuration.bias is None) == (layer.bias is None)
    configuration.validate_weights()
    output, (height, width) = TtConv2d(configuration, device)(nhwc(x), return_output_dim=True)
    reference = layer(x)
    assert (height, width) == tuple(reference.shape[-2:])
    same(reference, output)


@DEVICE
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1, "ceil_mode": False},
        {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 1, "ceil_mode": True},
    ],
)
def test_configurations_of_torchs_pools(options, device):
    layer = torch.nn.MaxPool2d(**options)
    configuration = MaxPool2dConfiguration.from_torch(
        torch_layer=layer, input_height=8, input_width=8, batch_size=1, channels=16
    )
    assert configuration.kernel_size == (layer.kernel_size, layer.kernel_size)
    assert configuration.stride == (layer.stride, layer.stride)
    assert configuration.padding == (layer.padding, layer.padding)
    x = torch.randn(1, 16, 8, 8)
    same(layer(x), TtMaxPool2d(configuration, device)(flat(x, device=device)))


@DEVICE
@pytest.mark.parametrize("scale_factor", [2, (2, 3), 4])
def test_configurations_of_torchs_upsampling(scale_factor, device):
    layer = torch.nn.Upsample(scale_factor=scale_factor, mode="nearest")
    configuration = UpsampleConfiguration.from_torch(
        torch_layer=layer, input_height=8, input_width=8, batch_size=1, channels=16
    )
    given = layer.scale_factor
    assert configuration.scale_factor == (given if isinstance(given, tuple) else (given, given))
    assert configuration.mode == layer.mode
    x = torch.randn(1, 16, 8, 8)
    same(layer(x), TtUpsample(configuration, device)(nhwc(x, device=device)))


@pytest.mark.parametrize("kind, window", [("pool", {"kernel_size": (2, 2)}), ("upsample", {"scale_factor": 2})])
def test_what_slicing_refuses(kind, window):
    configured = {"pool": MaxPool2dConfiguration, "upsample": UpsampleConfiguration}[kind]
    size = {"input_height": 16, "input_width": 16, "batch_size": 1, **window}
    for strategy in (HeightSliceStrategyConfiguration(num_slices=2), WidthSliceStrategyConfiguration(num_slices=2)):
        with pytest.raises(ValueError, match="Height and Width slicing are not supported"):
            configured(channels=16, slice_strategy=strategy, **size)
    with pytest.raises(ValueError, match="must be divisible by number of slices"):
        configured(channels=15, slice_strategy=ChannelSliceStrategyConfiguration(num_slices=4), **size)
    with pytest.raises(ValueError, match="Channel slicing requires num_slices > 1"):
        ChannelSliceStrategyConfiguration(num_slices=1)
    with pytest.raises(ValueError, match="Mode must be one of"):
        UpsampleConfiguration(16, 16, 16, 1, 2, mode="cubic")


@DEVICE
@pytest.mark.parametrize("slicing", SLICINGS)
@pytest.mark.parametrize("channels", [(64, 128), (128, 64)])
def test_sliced_convolutions(slicing, channels, device):
    configuration = Conv2dConfiguration.with_random_weights(
        input_height=256,
        input_width=128,
        in_channels=channels[0],
        out_channels=channels[1],
        batch_size=1,
        kernel_size=(3, 3),
        padding=(1, 1),
        slice_strategy=SLICINGS[slicing](),
    )
    x = image(1, channels[0], 256, 128)
    layer = TtConv2d(configuration, device)
    given = nhwc(x)
    if slicing != "none":
        given = ttnn.to_device(given, device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    output = layer(given)
    assert len(layer.weight_slices) == (4 if slicing == "channel" else 0)
    same(convolved(configuration, x), output)


@DEVICE
@pytest.mark.parametrize("slicing", ["none", "channel"])
@pytest.mark.parametrize("kernel, ceil_mode", [(2, True), (4, False)])
def test_sliced_pools(slicing, kernel, ceil_mode, device):
    configuration = MaxPool2dConfiguration(
        input_height=256,
        input_width=128,
        channels=64,
        batch_size=1,
        kernel_size=(kernel, kernel),
        ceil_mode=ceil_mode,
        slice_strategy=SLICINGS[slicing](),
    )
    x = image(1, 64, 256, 128)
    layer = TtMaxPool2d(configuration, device)
    assert layer.use_channel_slicing is (slicing == "channel")
    assert (layer.num_slices, layer.channels_per_slice) == ((4, 16) if slicing == "channel" else (1, 64))
    reference = torch.nn.functional.max_pool2d(x, (kernel, kernel), configuration.stride, ceil_mode=ceil_mode)
    same(reference, layer(ttnn.to_device(flat(x), device, memory_config=ttnn.DRAM_MEMORY_CONFIG)))


@DEVICE
@pytest.mark.parametrize("slicing", ["none", "channel"])
@pytest.mark.parametrize("scale_factor, mode", [(2, "bilinear"), ((2, 3), "nearest"), (4, "nearest")])
def test_sliced_upsampling(slicing, scale_factor, mode, device):
    configuration = UpsampleConfiguration(
        64, 32, 128, 1, scale_factor=scale_factor, mode=mode, slice_strategy=SLICINGS[slicing]()
    )
    x = image(1, 128, 64, 32)
    layer = TtUpsample(configuration, device)
    assert layer.use_channel_slicing is (slicing == "channel")
    reference = torch.nn.functional.interpolate(x, scale_factor=configuration.scale_factor, mode=mode)
    same(reference, layer(ttnn.to_device(nhwc(x), device, memory_config=ttnn.DRAM_MEMORY_CONFIG)))


@DEVICE
def test_a_convolution_that_stays_in_l1(device):
    configuration = Conv2dConfiguration.with_random_weights(
        16, 16, 32, 32, 1, (3, 3), padding=(1, 1), slice_strategy=L1FullSliceStrategyConfiguration()
    )
    x = image(1, 32, 16, 16)
    output = TtConv2d(configuration, device)(nhwc(x, device=device))
    assert output.memory_config().buffer_type == ttnn.BufferType.L1
    same(convolved(configuration, x), output)
