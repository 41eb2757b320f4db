# SPDX-License-Identifier: Apache-2.0
"""Every distinct layer of the model, alone, with random inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import L1FullSliceStrategyConfiguration
from tt_cnn.models.resnet50.reference.model import BLOCKS, ResNet50
from tt_cnn.models.resnet50.tt.common import convert_parameters
from tt_cnn.models.resnet50.tt.config import Configurations
from tt_cnn.models.resnet50.tt.sharding import height_sharded, width_sharded
from tt_cnn.testing import (
    assert_with_pcc,
    verify_avgpool2d_from_config,
    verify_conv2d_from_config,
    verify_linear_from_config,
    verify_maxpool2d_from_config,
)

PCC = {"tuned": 0.998, "bfloat16": 0.9995}
"""LoFi drops bits of the weights."""
QUICK = ("layer1.1.conv2", "layer3.1.conv1", "layer4.0.downsample")


def _convolutions() -> list[Any]:
    """Those of the second bottleneck of a stage stand for all that follow."""
    names = ["conv1"]
    for number in range(1, len(BLOCKS) + 1):
        names += [f"layer{number}.0.{layer}" for layer in ("conv1", "conv2", "conv3", "downsample")]
        names += [f"layer{number}.1.{layer}" for layer in ("conv1", "conv2", "conv3")]
    quick = {(name, "tuned") for name in QUICK}
    return [pytest.param(*case, marks=() if case in quick else pytest.mark.long) for case in product(names, PCC)]


@pytest.fixture
def configured(resnet50: ResNet50, open_device: Callable[..., Any]) -> Callable[..., tuple[Configurations, Any]]:
    def get(precision: Any = "tuned", batch_size: int = 1) -> tuple[Configurations, Any]:
        torch.manual_seed(0)
        device = open_device()
        parameters = convert_parameters(resnet50, device)
        return Configurations(parameters, device, size=224, batch_size=batch_size, precision=precision), device

    return get


@pytest.mark.parametrize(("name", "precision"), _convolutions())
def test_convolutions(name: str, precision: str, configured: Callable[..., tuple[Configurations, Any]]) -> None:
    """All in L1, as in the model; an input that is not there already would be cut into slices."""
    configurations, device = configured(precision)
    configuration = replace(_convolution(name, configurations), slice_strategy=L1FullSliceStrategyConfiguration())
    verify_conv2d_from_config(configuration, device, PCC[precision])


def _convolution(name: str, configurations: Configurations) -> Any:
    if name == "conv1":
        return configurations.stem().conv1
    stage, index, layer = name.split(".")
    return getattr(configurations.stage(int(stage[-1])).blocks[int(index)], layer)


@pytest.mark.parametrize("precision", PCC)
def test_max_pool(precision: str, configured: Callable[..., tuple[Configurations, Any]]) -> None:
    configurations, device = configured(precision)
    verify_maxpool2d_from_config(configurations.stem().maxpool, device, 0.9998)


@pytest.mark.parametrize("precision", PCC)
def test_average_pool(precision: str, configured: Callable[..., tuple[Configurations, Any]]) -> None:
    configurations, device = configured(precision)
    verify_avgpool2d_from_config(configurations.head().avgpool, device, 0.999)


@pytest.mark.parametrize("precision", PCC)
def test_linear(precision: str, configured: Callable[..., tuple[Configurations, Any]]) -> None:
    configurations, device = configured(precision)
    verify_linear_from_config(configurations.head().fc, device, PCC[precision])


@pytest.mark.parametrize("batch_size", [1, pytest.param(16, marks=pytest.mark.long)])
def test_addition_with_relu(batch_size: int, open_device: Callable[..., Any]) -> None:
    """In place, on the shards of layer1."""
    torch.manual_seed(0)
    device = open_device()
    rows = batch_size * 56 * 56
    config = height_sharded(rows, 256, 56, device)
    values = [torch.randn(1, 1, rows, 256) for _ in range(2)]
    first, second = (
        ttnn.from_torch(v, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
        for v in values
    )
    address = first.buffer_address()
    ttnn.add_(first, second, activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)])
    assert first.buffer_address() == address
    assert_with_pcc(torch.relu(values[0] + values[1]), ttnn.to_torch(first).float(), 0.999)


def test_resharding_to_width_shards(open_device: Callable[..., Any]) -> None:
    """What the head does first: the same values in other shards."""
    device = open_device()
    grid = ttnn.CoreGrid(x=8, y=8)
    values = torch.randn(1, 1, 49, 2048).bfloat16().float()
    x = ttnn.from_torch(
        values,
        dtype=ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=device,
        memory_config=height_sharded(49, 2048, 2, device),
    )
    y = ttnn.to_memory_config(x, width_sharded(49, 2048, grid))
    assert torch.equal(ttnn.to_torch(y).float(), values)
