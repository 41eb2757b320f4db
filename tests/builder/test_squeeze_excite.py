# SPDX-License-Identifier: Apache-2.0
"""Squeeze and excitation against torch, wherever the pixels are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import (
    SqueezeExciteConfiguration,
    TtSqueezeExcite,
    configuration_from_dict,
    overriding,
)

HIFI4 = {"math_fidelity": ttnn.MathFidelity.HiFi4}


class Block(nn.Module):
    """As torchvision has it, or with linear layers."""

    def __init__(self, channels: int, squeezed: int, activation: nn.Module, gate: nn.Module, linear: bool) -> None:
        super().__init__()
        make = nn.Linear if linear else lambda a, b: nn.Conv2d(a, b, 1)
        self.reduce, self.expand = make(channels, squeezed), make(squeezed, channels)
        self.activation, self.gate = activation, gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((2, 3), keepdim=True)
        if isinstance(self.reduce, nn.Linear):
            mean = mean[:, :, 0, 0]
        gate = self.gate(self.expand(self.activation(self.reduce(mean))))
        return x * gate.reshape(*x.shape[:2], 1, 1)

    def configuration(self, batch: int, **settings: Any) -> SqueezeExciteConfiguration:
        return SqueezeExciteConfiguration.from_torch(
            self.reduce, self.expand, self.activation, self.gate, batch, HIFI4, **settings
        )


def images(batch: int, channels: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """NCHW, and flattened."""
    x = (torch.randn(batch, channels, side, side) + torch.randn(batch, channels, 1, 1)).bfloat16().float()
    return x, x.permute(0, 2, 3, 1).reshape(1, 1, -1, channels)


@pytest.mark.parametrize(
    "batch, channels, squeezed, side",
    [(1, 72, 24, 56), (2, 72, 24, 28), (1, 480, 120, 14), (2, 40, 8, 14), (2, 116, 16, 7), (3, 96, 8, 8)],
)
@pytest.mark.parametrize("gate", [nn.Sigmoid(), nn.Hardsigmoid()], ids=str)
def test_values_are_torchs(
    batch: int,
    channels: int,
    squeezed: int,
    side: int,
    gate: nn.Module,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    block = Block(channels, squeezed, nn.ReLU() if side % 2 else nn.SiLU(), gate, linear=side == 14)
    x, flat = images(batch, channels, side)
    layer = TtSqueezeExcite(block.configuration(batch, deallocate_input=True), device)
    given = place(flat, where)
    before, memory = l1_in_use(), given.memory_config()
    output = layer(given)
    assert not given.is_allocated() and output.memory_config() == memory and l1_in_use() == before
    assert_rows(block(x).permute(0, 2, 3, 1), output)


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=str)
def test_in_place_and_in_another_memory(dtype: Any, place: Callable[..., Any], device: Any) -> None:
    block = Block(64, 16, nn.Hardswish(), nn.Sigmoid(), linear=False)
    x, flat = images(1, 64, 14)
    given = place(flat, "height", dtype)
    settings = {"memory_config": ttnn.DRAM_MEMORY_CONFIG, "output_dtype": ttnn.bfloat16}
    output = TtSqueezeExcite(block.configuration(1, **settings), device)(given)
    assert output.memory_config() == ttnn.DRAM_MEMORY_CONFIG and output.dtype == ttnn.bfloat16
    assert_rows(block(x).permute(0, 2, 3, 1), output)
    again = TtSqueezeExcite(block.configuration(1, in_place=True), device)(given)
    assert again.buffer_address() == given.buffer_address()
    assert_rows(block(x).permute(0, 2, 3, 1), again)


def test_rows_of_a_pool_are_taken_too(place: Callable[..., Any], device: Any) -> None:
    block = Block(40, 8, nn.ReLU(), nn.Sigmoid(), linear=False)
    x, flat = images(2, 40, 7)
    rows = ttnn.from_torch(flat, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    output = TtSqueezeExcite(block.configuration(2, deallocate_input=True), device)(rows)
    assert not rows.is_allocated()
    assert_rows(block(x).permute(0, 2, 3, 1), output)


def test_its_products_are_layers_of_their_own(device: Any) -> None:
    configuration = Block(64, 16, nn.ReLU(), nn.Sigmoid(), linear=False).configuration(1)
    with overriding({"se.reduce": {"weights_dtype": ttnn.bfloat8_b}}) as building:
        layer = TtSqueezeExcite(configuration, device, name="se")
    assert {"se", "se.reduce", "se.expand"} <= {one.name for one in building.layers} and not building.unused
    layer.configure(layer.configuration)
    assert layer.reduce.configuration.weights_dtype == ttnn.bfloat8_b, "its own settings stay"
    assert layer.expand.configuration.weights_dtype == ttnn.bfloat16


def test_it_goes_to_json_and_back() -> None:
    configuration = Block(64, 16, nn.ReLU(), nn.Sigmoid(), linear=False).configuration(2, in_place=True)
    tensors = {
        part: {"weight": getattr(configuration, part).weight, "bias": getattr(configuration, part).bias}
        for part in ("reduce", "expand")
    }
    assert configuration_from_dict(json.loads(json.dumps(configuration.to_dict())), **tensors) == configuration
    other = Block(64, 16, nn.ReLU(), nn.Sigmoid(), linear=False).configuration(2, in_place=True)
    assert other != configuration and other.to_dict() == configuration.to_dict()


def test_products_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expand is .*; it must be for 8 features, which reduce gives"):
        SqueezeExciteConfiguration.from_torch(nn.Linear(32, 8), nn.Linear(16, 32), None, None)
    with pytest.raises(ValueError, match=r"it must be a nn.Linear, or a nn.Conv2d of 1x1 in one group"):
        SqueezeExciteConfiguration.from_torch(nn.Conv2d(32, 8, 3), nn.Linear(8, 32), None, None)
