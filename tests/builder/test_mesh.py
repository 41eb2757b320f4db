"""Layers on several chips: each has the same weights and its own images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import (
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    LinearConfiguration,
    TtConv2d,
    TtLinear,
)


@pytest.fixture
def mesh() -> Iterator[Any]:
    torch.manual_seed(0)
    opened = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), l1_small_size=32768, numerics="device")
    yield opened
    ttnn.close_mesh_device(opened)


def on_each_chip(mesh: Any, values: torch.Tensor) -> Any:
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))


def gathered(mesh: Any, output: Any) -> torch.Tensor:
    return ttnn.to_torch(output, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)).double()


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.detach().double().flatten(), b.flatten())))[0, 1])


@pytest.mark.parametrize("slicing", [None, ChannelSliceStrategyConfiguration(2)], ids=str)
def test_a_convolution_runs_on_both_chips(slicing: Any, mesh: Any) -> None:
    torch_layer = torch.nn.Conv2d(32, 16, 3, padding=1)
    configuration = Conv2dConfiguration.from_torch(
        torch_layer, 8, 8, batch_size=1, mesh_mapper=ttnn.ReplicateTensorToMesh(mesh), slice_strategy=slicing
    )
    images = torch.randn(2, 8, 8, 32).bfloat16().float()
    output = gathered(mesh, TtConv2d(configuration, mesh)(on_each_chip(mesh, images)))
    assert output.shape == (2, 1, 64, 16)
    assert correlation(torch_layer(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1), output) > 0.999


def test_a_linear_layer_runs_on_both_chips(mesh: Any) -> None:
    torch_layer = torch.nn.Linear(64, 10)
    configuration = LinearConfiguration.from_torch(torch_layer, mesh_mapper=ttnn.ReplicateTensorToMesh(mesh))
    rows = torch.randn(2, 1, 32, 64).bfloat16().float()
    output = gathered(mesh, TtLinear(configuration, mesh)(on_each_chip(mesh, rows)))
    assert correlation(F.linear(rows, torch_layer.weight, torch_layer.bias), output) > 0.999
