# SPDX-License-Identifier: Apache-2.0
"""Convolutions as families of networks have them: depthwise, grouped, dilated, one-sided, transposed, of odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import (
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    TtConv2d,
    TtConvTranspose2d,
)
from tt_cnn.builder.windows import taps_in_use

PRECISE = {"math_fidelity": ttnn.MathFidelity.HiFi4, "fp32_dest_acc_en": True, "packer_l1_acc": True}
LAYERS = {
    "ShuffleNet depthwise": (nn.Conv2d(58, 58, 3, padding=1, groups=58), 2, 28),
    "ShuffleNet depthwise, strided": (nn.Conv2d(116, 116, 3, stride=2, padding=1, groups=116), 1, 28),
    "MobileNetV3 depthwise 5x5": (nn.Conv2d(72, 72, 5, stride=2, padding=2, groups=72), 1, 56),
    "MobileNetV3 last stage": (nn.Conv2d(240, 240, 5, padding=2, groups=240), 1, 7),
    "ConvNeXt depthwise 7x7": (nn.Conv2d(96, 96, 7, padding=3, groups=96), 1, 56),
    "ConvNeXt stem": (nn.Conv2d(3, 96, 4, stride=4), 1, 56),
    "ConvNeXt downsampling": (nn.Conv2d(96, 192, 2, stride=2), 1, 28),
    "ResNeXt 32 groups": (nn.Conv2d(128, 128, 3, padding=1, groups=32), 1, 28),
    "ResNeXt 32 groups, strided": (nn.Conv2d(256, 256, 3, stride=2, padding=1, groups=32), 2, 14),
    "RegNet 2 groups": (nn.Conv2d(48, 48, 3, padding=1, groups=2), 1, 56),
    "DeepLab dilation 2": (nn.Conv2d(64, 64, 3, padding=2, dilation=2), 1, 33),
    "DeepLab dilation 12": (nn.Conv2d(64, 32, 3, padding=12, dilation=12), 1, 33),
    "DeepLab dilation 24": (nn.Conv2d(64, 32, 3, padding=24, dilation=24), 1, 33),
    "DeepLab dilation 36": (nn.Conv2d(64, 32, 3, padding=36, dilation=36), 1, 33),
    "Inception 1x7": (nn.Conv2d(192, 192, (1, 7), padding=(0, 3)), 1, 17),
    "Inception 7x1": (nn.Conv2d(128, 128, (7, 1), padding=(3, 0)), 2, 17),
    "Inception 1x3": (nn.Conv2d(384, 384, (1, 3), padding=(0, 1)), 1, 8),
    "pointwise, odd channels": (nn.Conv2d(40, 116, 1), 2, 7),
    "same padding of an even kernel": (nn.Conv2d(40, 80, 4, padding="same"), 1, 15),
    "replicated border": (nn.Conv2d(64, 64, 3, padding=1, padding_mode="replicate"), 1, 14),
    "transposed 2x2": (nn.ConvTranspose2d(64, 32, 2, stride=2), 1, 28),
    "transposed 3x3, output padding": (nn.ConvTranspose2d(40, 24, 3, 2, 1, output_padding=1), 2, 7),
    "transposed 4x4": (nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1), 1, 7),
    "transposed in groups": (nn.ConvTranspose2d(64, 32, 2, stride=2, groups=4), 1, 14),
    "transposed depthwise": (nn.ConvTranspose2d(21, 21, 4, stride=2, padding=1, groups=21, bias=False), 1, 14),
    "transposed, dilated": (nn.ConvTranspose2d(32, 32, 3, padding=2, dilation=2), 1, 14),
}


def configured(layer: Any, side: int, batch: int, **settings: Any) -> Any:
    kind = ConvTranspose2dConfiguration if isinstance(layer, nn.ConvTranspose2d) else Conv2dConfiguration
    return kind.from_torch(layer, side, side, batch, **PRECISE, **settings)


def made(configuration: Any, device: Any) -> Any:
    kind = TtConvTranspose2d if isinstance(configuration, ConvTranspose2dConfiguration) else TtConv2d
    return kind(configuration, device)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("place_of_input", ["host", "l1", "dram"])
def test_values_are_torchs(name: str, place_of_input: str, place: Callable[..., Any], device: Any) -> None:
    layer, batch, side = LAYERS[name]
    x = torch.randn(batch, layer.in_channels, side, side).bfloat16().float()
    nhwc = x.permute(0, 2, 3, 1).contiguous()
    if place_of_input == "host":
        given = ttnn.from_torch(nhwc, dtype=ttnn.bfloat16)
    else:
        given = place(nhwc.reshape(1, 1, -1, layer.in_channels), place_of_input)
    output, size = made(configured(layer, side, batch), device)(given, return_output_dim=True)
    expected = layer(x)
    assert size == tuple(expected.shape[2:])
    assert_rows(expected.permute(0, 2, 3, 1), output)


@pytest.mark.parametrize("name", [name for name, (layer, *_) in LAYERS.items() if layer.in_channels >= 40])
def test_shards_that_do_not_suit_a_layer_are_left(
    name: str, where: str, place: Callable[..., Any], device: Any, l1_in_use: Callable[[], int]
) -> None:
    layer, batch, side = LAYERS[name]
    x = torch.randn(batch, layer.in_channels, side, side).bfloat16().float()
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, layer.in_channels), where)
    in_l1 = where != "dram"
    settings = {"input_memory_config": ttnn.L1_MEMORY_CONFIG, "deallocate_activation": True}
    configuration = configured(layer, side, batch, output_memory_config=ttnn.DRAM_MEMORY_CONFIG, **settings)
    output = made(configuration, device)(given)
    assert given.is_allocated() == (not in_l1) and l1_in_use() == 0
    assert_rows(layer(x).permute(0, 2, 3, 1), output)


@pytest.mark.parametrize("kernel", [2, 4])
def test_strides_are_not_folded_in_height_shards(kernel: int, place: Callable[..., Any], device: Any) -> None:
    """TT-NN refuses some of them, and takes longer for the others."""
    layer = nn.Conv2d(384, 96, kernel, stride=kernel)
    x = torch.randn(1, 384, 8, 8).bfloat16().float()
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, 384), "height")
    output = made(configured(layer, 8, 1), device)(given)
    assert given.is_allocated()
    assert_rows(layer(x).permute(0, 2, 3, 1), output)


def test_a_picture_on_the_host_is_put_where_the_layer_wants_it(device: Any, l1_in_use: Callable[[], int]) -> None:
    layer = nn.Conv2d(3, 96, 4, stride=4)
    x = torch.randn(1, 3, 32, 32).bfloat16().float()
    given = ttnn.from_torch(x.permute(0, 2, 3, 1).contiguous(), dtype=ttnn.bfloat16)
    settings = {"input_memory_config": ttnn.L1_MEMORY_CONFIG, "output_memory_config": ttnn.DRAM_MEMORY_CONFIG}
    output = made(configured(layer, 32, 1, **settings), device)(given)
    assert l1_in_use() == 0
    assert_rows(layer(x).permute(0, 2, 3, 1), output)


def test_taps_that_see_only_the_border_are_left_out() -> None:
    layer = nn.Conv2d(64, 32, 3, padding=36, dilation=36)
    configuration = Conv2dConfiguration.from_torch(layer, 33, 33, 1)
    assert configuration.kernel_size == (1, 1) and configuration.padding == (0, 0)
    assert configuration.output_size == (33, 33)
    assert taps_in_use(33, 24, 24, 3, 1, 24) == range(3)
    assert taps_in_use(9, 12, 12, 3, 1, 12) == range(1, 2)
    assert taps_in_use(9, 12, 0, 2, 1, 12) == range(1, 2)
