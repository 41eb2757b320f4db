# SPDX-License-Identifier: Apache-2.0
"""An activation that passes a configuration's validation runs: in a kernel where it can, and as an op where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    BatchNorm2dConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    LinearConfiguration,
    MultiplyConfiguration,
    TtAdd,
    TtBatchNorm2d,
    TtConv2d,
    TtConvTranspose2d,
    TtLinear,
    TtMultiply,
)

SIDE, CHANNELS = 8, 32
SIZE = {"input_height": SIDE, "input_width": SIDE, "batch_size": 1}
TYPES = ttnn.UnaryOpType
ACTIVATIONS = {
    "hardswish": (TYPES.HARDSWISH, nn.functional.hardswish),
    "hardsigmoid": (TYPES.HARDSIGMOID, nn.functional.hardsigmoid),
    "silu": (TYPES.SILU, nn.functional.silu),
    "mish": (ttnn.UnaryWithParam(TYPES.MISH, 0.0), nn.functional.mish),
}
Pair = tuple[Callable[..., Any], Callable[[torch.Tensor], torch.Tensor]]


def over_images(layer: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Rows of pixels through a layer of images, and back."""

    def run(rows: torch.Tensor) -> torch.Tensor:
        found = layer(rows.reshape(1, SIDE, SIDE, CHANNELS).permute(0, 3, 1, 2))
        return found.permute(0, 2, 3, 1).reshape(1, 1, -1, found.shape[1])

    return run


def convolution(kernel: int, activation: Any, device: Any) -> Pair:
    layer = nn.Conv2d(CHANNELS, CHANNELS, kernel, padding=kernel // 2)
    made = TtConv2d(Conv2dConfiguration.from_torch(layer, activation=activation, **SIZE), device)
    return made, over_images(layer)


def transposed(activation: Any, device: Any) -> Pair:
    layer = nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, stride=2)
    configuration = ConvTranspose2dConfiguration.from_torch(layer, activation=activation, **SIZE)
    return TtConvTranspose2d(configuration, device), over_images(layer)


def with_numbers(activation: Any) -> Any:
    return activation if isinstance(activation, ttnn.UnaryWithParam) else ttnn.UnaryWithParam(activation)


def linear(activation: Any, device: Any) -> Pair:
    layer = nn.Linear(CHANNELS, 64)
    configuration = LinearConfiguration.from_torch(layer, activation=with_numbers(activation))
    return TtLinear(configuration, device), layer


def norm(activation: Any, device: Any) -> Pair:
    layer = nn.BatchNorm2d(CHANNELS).eval()
    return TtBatchNorm2d(BatchNorm2dConfiguration.from_torch(layer, activation=activation), device), over_images(layer)


def total(activation: Any, device: Any, fused: bool) -> Pair:
    layer = TtAdd(AddConfiguration(activation=activation, fuse_activation=fused, in_place=False), device)
    return (lambda x: layer(x, x)), (lambda x: x + x)


def product(activation: Any, device: Any) -> Pair:
    layer = TtMultiply(MultiplyConfiguration(2, activation=activation), device)
    return (lambda x: layer(x, x)), (lambda x: x * x)


LAYERS: dict[str, Callable[[Any, Any], Pair]] = {
    "conv 1x1": lambda activation, device: convolution(1, activation, device),
    "conv 3x3": lambda activation, device: convolution(3, activation, device),
    "conv transpose": transposed,
    "linear": linear,
    "batch norm": norm,
    "add": lambda activation, device: total(activation, device, True),
    "add, apart": lambda activation, device: total(activation, device, False),
    "multiply": product,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("layer", LAYERS)
def test_it_gives_torchs_values(layer: str, activation: str, device: Any) -> None:
    torch.manual_seed(0)
    op_type, reference = ACTIVATIONS[activation]
    run, before = LAYERS[layer](op_type, device)
    x = torch.randn(1, 1, SIDE * SIDE, CHANNELS)
    given = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    found = ttnn.to_torch(run(given)).float()
    with torch.no_grad():
        expected = reference(before(x))
    assert found.shape[-1] == expected.shape[-1]
    assert torch.allclose(found.flatten(), expected.flatten(), atol=0.06, rtol=0.03)
