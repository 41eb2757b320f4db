# SPDX-License-Identifier: Apache-2.0
"""Mappers and composers made from placements: tensors over the chips of a mesh and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice


@pytest.fixture
def mesh() -> Iterator[MeshDevice]:
    opened = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    yield opened
    ttnn.close_mesh_device(opened)


def test_configs_print_as_those_of_the_real_library() -> None:
    both = ttnn.MeshMapperConfig([ttnn.PlacementReplicate(), ttnn.PlacementShard(3)])
    assert repr(both) == repr(ttnn.MeshMapperConfig(row_dim=None, col_dim=3))
    assert repr(both) == "MeshMapperConfig(placements: [PlacementReplicate(), PlacementShard(3)])"
    assert repr(ttnn.MeshComposerConfig([0, 1])) == "MeshComposerConfig(dims: [0, 1])"


def test_a_tensor_is_spread_and_joined_again(mesh: MeshDevice) -> None:
    value = torch.randn(2, 1, 32, 64).bfloat16()
    mapper = ttnn.create_mesh_mapper(mesh, ttnn.MeshMapperConfig(row_dim=None, col_dim=3))
    composer = ttnn.create_mesh_composer(mesh, ttnn.MeshComposerConfig([0, 3]))
    spread = ttnn.from_torch(value, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=mapper)
    assert tuple(spread.shape) == (2, 1, 32, 32)
    assert torch.equal(ttnn.to_torch(spread, mesh_composer=composer), value)
    host = ttnn.from_torch(value, layout=ttnn.TILE_LAYOUT)
    again = ttnn.aggregate_tensor(ttnn.distribute_tensor(host, mapper, mesh), composer)
    assert torch.equal(ttnn.to_torch(again), value)


def test_what_does_not_fit_the_mesh_is_refused(mesh: MeshDevice) -> None:
    with pytest.raises(RuntimeError, match="does not match the number of placements in the config"):
        ttnn.create_mesh_mapper(mesh, ttnn.MeshMapperConfig([ttnn.PlacementShard(0)] * 3))
    twice = ttnn.create_mesh_mapper(mesh, ttnn.MeshMapperConfig([ttnn.PlacementShard(1), ttnn.PlacementShard(1)]))
    with pytest.raises(RuntimeError, match="dims must be unique"):
        ttnn.from_torch(torch.zeros(1, 2, 32, 32), mesh_mapper=twice)


def test_a_compute_config_of_any_device_is_only_a_name() -> None:
    with pytest.raises(TypeError, match="no constructor defined!"):
        ttnn.DeviceComputeKernelConfig()
