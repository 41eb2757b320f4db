# SPDX-License-Identifier: Apache-2.0
"""One layer from its configuration, of every kind; and a wrong one is caught."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    GlobalAvgPool2dConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    UpsampleConfiguration,
)
from tt_cnn.testing import (
    verify_avgpool2d_from_config,
    verify_conv2d_from_config,
    verify_conv_transpose2d_from_config,
    verify_global_avgpool2d_from_config,
    verify_linear_from_config,
    verify_maxpool2d_from_config,
    verify_upsample_from_config,
)
from tt_cnn.testing.activations import apply

IMAGE = {"input_height": 8, "input_width": 10, "batch_size": 2}
POOL = {**IMAGE, "channels": 32}
CONV = {**IMAGE, "in_channels": 16, "out_channels": 32, "kernel_size": (3, 3)}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": (1, 1)},
        {"padding": (0, 1, 2, 0), "stride": (2, 1), "activation": ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)},
        {"padding": (1, 1), "groups": 2, "dilation": (1, 1)},
        {"padding": (1, 1), "activation_dtype": ttnn.bfloat8_b, "weights_dtype": ttnn.bfloat8_b},
        {"padding": (1, 1), "in_channels": 64, "slice_strategy": ChannelSliceStrategyConfiguration(num_slices=2)},
    ],
)
def test_convolutions(card: Any, settings: dict[str, Any]) -> None:
    configuration = Conv2dConfiguration.with_random_weights(**{**CONV, **settings})
    assert verify_conv2d_from_config(configuration, card, 0.99) >= 0.99


def test_a_convolution_without_bias(card: Any) -> None:
    layer = torch.nn.Conv2d(16, 32, 1, bias=False)
    configuration = Conv2dConfiguration.from_torch(layer, **IMAGE)
    assert verify_conv2d_from_config(configuration, card) >= 0.999


def test_a_wrong_layer_is_caught(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = Conv2dConfiguration.with_random_weights(**CONV)
    with pytest.raises(AssertionError, match="PCC is"):
        verify_conv2d_from_config(configuration, card, pcc_threshold=1.0)
    monkeypatch.setattr("tt_cnn.builder.TtConv2d", lambda *_: lambda x: x)
    with pytest.raises(AssertionError, match="torch's has"):
        verify_conv2d_from_config(configuration, card)


@pytest.mark.parametrize("mirror", [True, False])
def test_transposed_convolutions(card: Any, mirror: bool) -> None:
    settings = {**CONV, "kernel_size": (2, 2), "stride": (2, 2)}
    configuration = ConvTranspose2dConfiguration.with_random_weights(**settings, mirror_kernel=mirror)
    assert verify_conv_transpose2d_from_config(configuration, card, 0.99) >= 0.99


def test_max_pools(card: Any) -> None:
    settings = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil_mode": True}
    assert verify_maxpool2d_from_config(MaxPool2dConfiguration(**POOL, **settings), card) == 1.0
    uneven = MaxPool2dConfiguration(**POOL, kernel_size=(3, 3), padding=(1, 0, 1, 0))
    with pytest.raises(ValueError, match="torch's pools, which it is compared with, have only"):
        verify_maxpool2d_from_config(uneven, card)


def test_average_pools(card: Any) -> None:
    settings = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "count_include_pad": False}
    assert verify_avgpool2d_from_config(AvgPool2dConfiguration(**POOL, **settings), card) >= 0.999
    assert verify_global_avgpool2d_from_config(GlobalAvgPool2dConfiguration(**POOL), card, 0.99) >= 0.99


@pytest.mark.parametrize(("mode", "scale"), [("nearest", (2, 3)), ("bilinear", (2, 2))])
def test_upsampling(card: Any, mode: str, scale: tuple[int, int]) -> None:
    configuration = UpsampleConfiguration(**POOL, scale_factor=scale, mode=mode)
    assert verify_upsample_from_config(configuration, card) >= 0.999


def test_linear(card: Any) -> None:
    configuration = LinearConfiguration.with_random_weights(64, 96, activation="relu")
    assert verify_linear_from_config(configuration, card, 0.99) >= 0.99
    plain = LinearConfiguration.from_torch(torch.nn.Linear(64, 32, bias=False))
    assert verify_linear_from_config(plain, card, 0.99, rows=64) >= 0.99


def test_activations_are_torchs() -> None:
    x = torch.linspace(-4, 4, 9)
    assert apply(None, x) is x
    assert torch.equal(apply(ttnn.UnaryOpType.RELU6, x), torch.nn.functional.relu6(x))
    leaky = apply(ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.5), x)
    assert torch.equal(leaky, torch.where(x > 0, x, x / 2))
    assert torch.equal(apply("silu", x), torch.nn.functional.silu(x))
    assert torch.equal(apply(ttnn.UnaryOpType.HARDMISH, torch.tensor([-3.0, 0.0, 3.0])), torch.tensor([0.0, 0.0, 3.0]))
    with pytest.raises(ValueError, match="the activation is cosine; torch's side is known for"):
        apply("cosine", x)
