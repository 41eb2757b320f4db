# SPDX-License-Identifier: Apache-2.0
"""Bad settings are refused when a configuration is made, by a sentence that names field, value and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    BlockShardedStrategyConfiguration,
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    GlobalAvgPool2dConfiguration,
    HeightShardedStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    ShardedStrategyConfiguration,
    TtConv2d,
    TtMaxPool2d,
    UpsampleConfiguration,
    WidthShardedStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)

GRID = ShardedStrategyConfiguration.get_core_grid_from_num_cores(4, 8, 8)
WEIGHT, BIAS = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(torch.randn(32, 16, 3, 3), torch.randn(32))


def conv(**settings: Any) -> Conv2dConfiguration:
    shape = {"input_height": 8, "input_width": 8, "in_channels": 16, "out_channels": 32, "batch_size": 1}
    return Conv2dConfiguration(**{**shape, "kernel_size": (3, 3), "weight": WEIGHT, "bias": BIAS, **settings})


def transposed(**settings: Any) -> ConvTranspose2dConfiguration:
    return ConvTranspose2dConfiguration.with_random_weights(8, 8, 16, 32, 1, (2, 2), **settings)


def pool(**settings: Any) -> MaxPool2dConfiguration:
    return MaxPool2dConfiguration(
        **{"input_height": 16, "input_width": 16, "channels": 16, "batch_size": 1, "kernel_size": (2, 2), **settings}
    )


def average(**settings: Any) -> AvgPool2dConfiguration:
    return AvgPool2dConfiguration(16, 16, **{"channels": 16, "batch_size": 1, "kernel_size": (2, 2), **settings})


def upsample(**settings: Any) -> UpsampleConfiguration:
    return UpsampleConfiguration(16, 16, **{"channels": 16, "batch_size": 1, "scale_factor": 2, **settings})


def linear(**settings: Any) -> LinearConfiguration:
    weight, bias = torch.randn(16, 8), torch.randn(8)
    tensors = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(weight, bias)
    return LinearConfiguration(
        **{"in_features": 16, "out_features": 8, "weight": tensors[0], "bias": tensors[1], **settings}
    )


def of(configure: Callable[..., Any], **settings: Any) -> Callable[[], Any]:
    return lambda: configure(**settings)


HEIGHT, WIDTH, BLOCK = (
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
)
REFUSED = {
    "act_block_h_override is 48; it must be a multiple of 32, or 0 to let TT-NN choose.": of(
        HEIGHT, act_block_h_override=48
    ),
    "act_block_h_override is -32; it must be a whole number, at least 0.": of(BLOCK, act_block_h_override=-32),
    "act_block_w_div is 0; it must be a whole number, at least 1.": of(WIDTH, act_block_w_div=0),
    "reshard_if_not_optimal is 1; it must be True or False.": of(HEIGHT, reshard_if_not_optimal=1),
    "override_core_grid is 8; it must be None or a ttnn.CoreRangeSet.": of(HEIGHT, override_core_grid=8),
    "override_output_sharding_config is True; it must be False without override_core_grid.": of(
        BLOCK, override_output_sharding_config=True
    ),
    "num_slices is 1; it must be a whole number, at least 2. Channel slicing requires num_slices > 1": of(
        ChannelSliceStrategyConfiguration, num_slices=1
    ),
    "num_slices is -1; it must be a whole number, at least 0.": of(HeightSliceStrategyConfiguration, num_slices=-1),
    "batch_size is 0; it must be a whole number, at least 1.": of(conv, batch_size=0),
    "batch_size is True; it must be a whole number, at least 1.": of(conv, batch_size=True),
    "in_channels is 16.0; it must be a whole number, at least 1.": of(conv, in_channels=16.0),
    "kernel_size is (3,); it must be (height, width), whole numbers of at least 1.": of(conv, kernel_size=(3,)),
    "kernel_size is '3x3'; it must be (height, width)": of(conv, kernel_size="3x3"),
    "kernel_size is (3, 3); it must be no larger than the padded input": of(conv, input_height=2),
    "stride is (0, 1); it must be (height, width)": of(conv, stride=(0, 1)),
    "padding is (1, 1, 1); it must be (height, width) or (top, bottom, left, right)": of(conv, padding=(1, 1, 1)),
    "dilation is (0, 0); it must be": of(conv, dilation=0),
    "groups is 3; it must be a divisor of in_channels (16).": of(conv, groups=3),
    "groups is 16; it must be a divisor of out_channels (24).": of(conv, groups=16, out_channels=24),
    "groups is 2; it must be 1 with channel slicing": of(
        conv, groups=2, slice_strategy=ChannelSliceStrategyConfiguration(2)
    ),
    "in_channels is 16; it must be divisible by number of slices (3).": of(
        conv, slice_strategy=ChannelSliceStrategyConfiguration(3)
    ),
    "weight is a torch.Tensor of shape (32, 16, 3, 3); it must be a ttnn.Tensor": of(
        conv, weight=torch.zeros(32, 16, 3, 3)
    ),
    "weight is a ttnn.Tensor of shape (32, 16, 3, 3); it must be of shape (32, 8, 3, 3)": of(conv, groups=2),
    "bias is a torch.Tensor of shape (32,); it must be None or a ttnn.Tensor": of(conv, bias=torch.zeros(32)),
    "bias is a ttnn.Tensor of shape (32, 16, 3, 3); it must be of shape (1, 1, 1, 32).": of(conv, bias=WEIGHT),
    "activation is 'relu'; it must be None or a ttnn.UnaryWithParam or a ttnn.UnaryOpType.": of(
        conv, activation="relu"
    ),
    "weights_dtype is torch.float32; it must be a ttnn.DataType.": of(conv, weights_dtype=torch.float32),
    "output_layout is Layout.ROW_MAJOR; it must be ttnn.TILE_LAYOUT with output_dtype DataType.BFLOAT8_B": of(
        conv, output_layout=ttnn.ROW_MAJOR_LAYOUT, output_dtype=ttnn.bfloat8_b
    ),
    "sharding_strategy is None; it must be ShardedStrategyConfiguration.": of(conv, sharding_strategy=None),
    "slice_strategy is 4; it must be None or SliceStrategyConfiguration.": of(conv, slice_strategy=4),
    "math_fidelity is 'LoFi'; it must be a ttnn.MathFidelity.": of(conv, math_fidelity="LoFi"),
    "deallocate_activation is None; it must be True or False.": of(conv, deallocate_activation=None),
    "activation is UnaryOpType.LEAKY_RELU; it must be a ttnn.UnaryWithParam with 1 number(s).": of(
        conv, activation=ttnn.UnaryOpType.LEAKY_RELU
    ),
    "activation is 'elu'; it must be a ttnn.UnaryWithParam(ttnn.UnaryOpType.ELU, ...) with 1 number(s).": of(
        linear, activation="elu"
    ),
    "activation is 'swoosh'; it must be the name of a ttnn.UnaryOpType in small letters, like 'relu', or a "
    "ttnn.UnaryWithParam.": of(linear, activation="swoosh"),
    "padding_mode is 'zeros'; it must be a ttnn.PaddingMode.": of(conv, padding_mode="zeros"),
    "output_padding is (1, 0); it must be smaller than stride or dilation.": of(transposed, output_padding=(1, 0)),
    "padding is (9, 9); it must be small enough to leave an output.": of(transposed, padding=9),
    "Height and Width slicing are not supported for MaxPool2d.": of(
        pool, slice_strategy=HeightSliceStrategyConfiguration(num_slices=2)
    ),
    "Height and Width slicing are not supported for AvgPool2d.": of(
        average, slice_strategy=WidthSliceStrategyConfiguration(num_slices=2)
    ),
    "Height and Width slicing are not supported for Upsample.": of(
        upsample, slice_strategy=WidthSliceStrategyConfiguration(num_slices=2)
    ),
    "channels is 15; it must be divisible by number of slices (4).": of(
        pool, channels=15, slice_strategy=ChannelSliceStrategyConfiguration(4)
    ),
    "channels is 18; it must be divisible by number of slices (4).": of(
        upsample, channels=18, slice_strategy=ChannelSliceStrategyConfiguration(4)
    ),
    "padding is (2, 2); it must be at most half of kernel_size (2, 2).": of(pool, padding=2),
    "kernel_size is (20, 20); it must be no larger than the padded input.": of(average, kernel_size=20),
    "output_layout is Layout.ROW_MAJOR; it must be ttnn.TILE_LAYOUT with dtype DataType.BFLOAT8_B": of(
        pool, dtype=ttnn.bfloat8_b
    ),
    "applied_shard_scheme is 'height'; it must be None or a ttnn.TensorMemoryLayout.": of(
        pool, applied_shard_scheme="height"
    ),
    "divisor_override is 0; it must be None or a whole number, at least 1.": of(average, divisor_override=0),
    "mode is 'cubic'; it must be 'nearest' or 'bilinear'. Mode must be one of nearest, bilinear.": of(
        upsample, mode="cubic"
    ),
    "scale_factor is (1.5, 1.5); it must be (height, width), whole numbers of at least 1.": of(
        upsample, scale_factor=1.5
    ),
    "scale_factor is None; it must be (height, width)": of(upsample, scale_factor=None),
    "scale_factor is (0.5, 2); it must be (height, width), whole numbers of at least 1. TT-NN enlarges images by whole "
    "factors alone; pools make them smaller.": of(upsample, scale_factor=(0.5, 2)),
    "output_dtype is DataType.BFLOAT8_B; it must be None or ttnn.bfloat16 with an output in rows.": of(
        upsample, output_dtype=ttnn.bfloat8_b
    ),
    "input_height is 0; it must be a whole number, at least 1.": lambda: GlobalAvgPool2dConfiguration(0, 1, 1, 1),
    "memory_config is 'L1'; it must be None or a ttnn.MemoryConfig.": lambda: GlobalAvgPool2dConfiguration(
        1, 1, 1, 1, memory_config="L1"
    ),
    "weight is a ttnn.Tensor of shape (16, 8); it must be of shape (8, 16): PyTorch's weight, transposed.": of(
        linear, in_features=8, out_features=16
    ),
    "weight is a torch.Tensor of shape (16, 8); it must be a ttnn.Tensor.": of(linear, weight=torch.zeros(16, 8)),
    "bias is a ttnn.Tensor of shape (32, 16, 3, 3); it must be of shape (1, 1, 1, 8) or (1, 8).": of(
        linear, bias=WEIGHT
    ),
    "torch_layer.return_indices is True; it must be False": lambda: MaxPool2dConfiguration.from_torch(
        torch.nn.MaxPool2d(2, return_indices=True), 8, 8, 1, 8
    ),
    "torch_layer.output_size is (2, 2); it must be 1 or (1, 1).": lambda: GlobalAvgPool2dConfiguration.from_torch(
        torch.nn.AdaptiveAvgPool2d((2, 2)), 8, 8, 1, 8
    ),
    "torch_layer.align_corners is True; it must be False or None": lambda: UpsampleConfiguration.from_torch(
        torch.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), 8, 8, 1, 32
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        REFUSED[sentence]()
    assert sentence in str(refusal.value)


def test_one_number_stands_for_both_directions() -> None:
    configuration = conv(kernel_size=3, stride=2, padding=[1, 1])
    assert (configuration.kernel_size, configuration.stride, configuration.padding) == ((3, 3), (2, 2), (1, 1))
    assert upsample(scale_factor=2.0).scale_factor == (2, 2)


@pytest.mark.parametrize("configuration", [conv(), pool(), upsample(), HEIGHT()], ids=lambda c: type(c).__name__)
def test_configurations_are_frozen(configuration: Any) -> None:
    with pytest.raises(AttributeError):
        configuration.batch_size = 2


def test_a_layer_takes_its_own_configuration_only(device: Any) -> None:
    with pytest.raises(ValueError, match="configuration is MaxPool2dConfiguration; it must be Conv2dConfiguration"):
        TtConv2d(pool(), device)


def test_a_layer_takes_ttnn_tensors_only(device: Any, images: Any) -> None:
    with pytest.raises(ValueError, match=r"the input of layer 'stem' is a torch.Tensor .*; it must be a ttnn.Tensor"):
        TtConv2d(conv(), device, name="stem")(torch.zeros(1, 8, 8, 16))
    with pytest.raises(ValueError, match=r"the input is a ttnn.Tensor .* on the host; it must be on the device"):
        TtMaxPool2d(pool(), device)(images.put(images.random(1, 16, 16, 16), flat=True, host=True))
