# SPDX-License-Identifier: Apache-2.0
"""Layers on several chips: each has the same weights and its own images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import (
    AttentionConfiguration,
    BatchNorm2dConfiguration,
    ChannelShuffleConfiguration,
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    GroupNormConfiguration,
    LayerNormConfiguration,
    LinearConfiguration,
    PixelUnshuffleConfiguration,
    PReLUConfiguration,
    SqueezeExciteConfiguration,
    TtAttention,
    TtBatchNorm2d,
    TtChannelShuffle,
    TtConv2d,
    TtGroupNorm,
    TtLayerNorm,
    TtLinear,
    TtPixelUnshuffle,
    TtPReLU,
    TtSqueezeExcite,
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


CHANNELS = 64


def _norm() -> Any:
    norm = torch.nn.BatchNorm2d(CHANNELS).eval()
    norm.running_mean = torch.randn(CHANNELS)
    return norm


LAYERS: dict[str, Callable[[Any], Any]] = {
    "batch norm": lambda to: TtBatchNorm2d(BatchNorm2dConfiguration.from_torch(_norm(), to.mapper), to.mesh),
    "prelu": lambda to: TtPReLU(PReLUConfiguration.from_torch(torch.nn.PReLU(CHANNELS), to.mapper), to.mesh),
    "layer norm": lambda to: TtLayerNorm(
        LayerNormConfiguration.from_torch(torch.nn.LayerNorm(CHANNELS), to.mapper), to.mesh
    ),
    "group norm": lambda to: TtGroupNorm(
        GroupNormConfiguration.from_torch(torch.nn.GroupNorm(2, CHANNELS), 2, to.mapper), to.mesh
    ),
    "group norm by means": lambda to: TtGroupNorm(
        GroupNormConfiguration.from_torch(torch.nn.GroupNorm(32, CHANNELS), 2, to.mapper), to.mesh
    ),
    "squeeze and excitation": lambda to: TtSqueezeExcite(
        SqueezeExciteConfiguration.from_torch(
            torch.nn.Linear(CHANNELS, 8),
            torch.nn.Linear(8, CHANNELS),
            None,
            torch.nn.Sigmoid(),
            2,
            mesh_mapper=to.mapper,
        ),
        to.mesh,
    ),
    "channel shuffle": lambda to: TtChannelShuffle(ChannelShuffleConfiguration(CHANNELS, 2), to.mesh),
    "pixel unshuffle": lambda to: TtPixelUnshuffle(PixelUnshuffleConfiguration(8, 8, CHANNELS, 2, 2), to.mesh),
    "attention": lambda to: TtAttention(
        AttentionConfiguration.from_torch(1, 64, 2, torch.randn(1, 64, 64), mesh_mapper=to.mapper), to.mesh
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_do_the_same_on_every_chip(name: str, mesh: Any) -> None:
    """What a layer makes itself, masks and matrices, is on all chips."""
    layer = LAYERS[name](SimpleNamespace(mesh=mesh, mapper=ttnn.ReplicateTensorToMesh(mesh)))
    rows = torch.randn(1, 1, 128, (3 if name == "attention" else 1) * CHANNELS).bfloat16().float()
    outputs = gathered(mesh, layer(on_each_chip(mesh, rows.repeat(2, 1, 1, 1))))
    assert torch.equal(outputs[0], outputs[1]) and float(outputs.std()) > 0.1
