# SPDX-License-Identifier: Apache-2.0
"""Several chips: mappers, composers, and ops that run on all of them."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual import ttnn


@pytest.fixture(params=[("n300", (1, 2)), ("n150", (1, 4)), ("n300", (2, 2))], ids=str)
def mesh(request, open_card):
    name, shape = request.param
    return ttnn.open_mesh_device(ttnn.MeshShape(*shape), card=name, hazards="raise")


def _host(values, **options):
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, **options)


def test_what_a_mesh_says_of_itself(open_card):
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300")
    assert repr(mesh) == "MeshDevice(1x2 grid, 2 devices)"
    assert (mesh.get_num_devices(), mesh.get_device_ids(), mesh.shape) == (2, [0, 1], ttnn.MeshShape(1, 2))
    x, y = mesh.compute_with_storage_grid_size().x, mesh.compute_with_storage_grid_size().y
    assert (x, y) == (8, 8)
    with pytest.raises(RuntimeError, match=r"Device 0 is already open"):
        ttnn.open_device(device_id=0)
    ttnn.close_mesh_device(mesh)
    ttnn.close_device(ttnn.open_device(device_id=0))


def test_sharded_over_a_dimension_and_put_together(mesh, toys):
    chips = mesh.get_num_devices()
    values = torch.arange(chips * 2 * 32 * 32).reshape(chips * 2, 1, 32, 32).remainder(100).float()
    x = _host(values, device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
    assert x.shape == (2, 1, 32, 32)
    y = toys.plus(x)
    result = ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0))
    assert torch.equal(result.float(), values + 1)


def test_replicated(mesh, toys):
    values = torch.rand(1, 1, 32, 32).bfloat16().float()
    x = _host(values, device=mesh, mesh_mapper=ttnn.ReplicateTensorToMesh(mesh))
    assert x.shape == (1, 1, 32, 32)
    result = ttnn.to_torch(x, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0))
    assert torch.equal(result.float(), values.repeat(mesh.get_num_devices(), 1, 1, 1))


def test_a_tensor_without_a_mapper_goes_to_every_chip(mesh):
    values = torch.rand(1, 1, 32, 32).bfloat16()
    x = _host(values, device=mesh)
    parts = ttnn.to_torch(x, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)).chunk(mesh.get_num_devices())
    assert all(torch.equal(p, values) for p in parts)


def test_two_dimensions(open_card):
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(2, 2), card="n300")
    values = torch.arange(64 * 128).reshape(1, 1, 64, 128).remainder(200).float()
    mapper = ttnn.ShardTensor2dMesh(mesh, mesh_shape=(2, 2), dims=(2, 3))
    x = _host(values, device=mesh, mesh_mapper=mapper)
    assert x.shape == (1, 1, 32, 64)
    composer = ttnn.ConcatMesh2dToTensor(mesh, mesh_shape=(2, 2), dims=(2, 3))
    assert torch.equal(ttnn.to_torch(x, mesh_composer=composer).float(), values)
    rows = _host(values, mesh_mapper=ttnn.ShardTensor2dMesh(mesh, mesh_shape=(2, 2), dims=(2, None)))
    assert rows.shape == (1, 1, 32, 128)


def test_host_tensors_of_a_mesh_go_there_later(mesh, toys):
    chips = mesh.get_num_devices()
    values = torch.rand(chips, 1, 32, 32).bfloat16()
    host = _host(values, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
    x = ttnn.to_device(host, mesh)
    again = _host(torch.zeros(chips, 1, 32, 32), mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
    ttnn.copy_device_to_host_tensor(x, again)
    assert torch.equal(ttnn.to_torch(again, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)), values)


def test_traces_replay_on_every_chip(mesh, toys):
    chips = mesh.get_num_devices()
    x = _host(torch.zeros(chips, 1, 32, 32), device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, 0))
    toys.plus(x)
    trace = ttnn.begin_trace_capture(mesh)
    y = toys.plus(x)
    ttnn.end_trace_capture(mesh, trace)
    values = torch.arange(chips).reshape(chips, 1, 1, 1).expand(chips, 1, 32, 32).float()
    ttnn.copy_host_to_device_tensor(_host(values, mesh_mapper=ttnn.ShardTensorToMesh(mesh, 0)), x)
    ttnn.execute_trace(mesh, trace)
    assert torch.equal(ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, 0)).float(), values + 1)


def test_a_mesh_allocates_in_lock_step(open_card):
    alone = ttnn.open_device(device_id=0, card="n300")
    expected = _host(torch.zeros(1, 1, 64, 64), device=alone, memory_config=ttnn.L1_MEMORY_CONFIG).buffer_address()
    ttnn.close_device(alone)
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300")
    x = _host(torch.zeros(1, 1, 64, 64), device=mesh, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert x.buffer_address() == expected


def test_errors(open_card):
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300")
    x = _host(torch.zeros(2, 1, 32, 32), device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, 0))
    message = r"Can't convert a tensor distributed on MeshShape\(\[1, 2\]\) mesh to row-major logical tensor"
    with pytest.raises(RuntimeError, match=message):
        ttnn.to_torch(x)
    with pytest.raises(RuntimeError, match=r"cannot be divided over 2 devices"):
        _host(torch.zeros(3, 1, 32, 32), mesh_mapper=ttnn.ShardTensorToMesh(mesh, 0))
    with pytest.raises(RuntimeError, match=r"there is no dimension 7"):
        _host(torch.zeros(2, 1, 32, 32), mesh_mapper=ttnn.ShardTensorToMesh(mesh, 7))
    with pytest.raises(RuntimeError, match=r"there is no dimension 7"):
        ttnn.to_torch(x, mesh_composer=ttnn.ConcatMeshToTensor(mesh, 7))
    with pytest.raises(RuntimeError, match=r"does not fit a mesh of 2 devices"):
        ttnn.ShardTensor2dMesh(mesh, (2, 2), (0, 1))
    with pytest.raises(TypeError):
        ttnn.ShardTensorToMesh(mesh, "0")
    with pytest.raises(TypeError):
        ttnn.ReplicateTensorToMesh(None)
    ttnn.close_mesh_device(mesh)
    single = ttnn.open_device(device_id=0)
    three = ttnn.from_torch(torch.zeros(2, 1, 32, 32), mesh_mapper=ttnn.ShardTensorToMesh(mesh, 0))
    with pytest.raises(RuntimeError, match=r"A tensor of 2 shards cannot go to a mesh of 1 devices"):
        ttnn.to_device(three, single)
    assert single.memory_view(ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == 0


@pytest.mark.parametrize("shape", [(0, 2), (1, 2, 2), (1, 64)])
def test_meshes_that_cannot_be(shape, open_card):
    with pytest.raises(RuntimeError):
        ttnn.open_mesh_device(ttnn.MeshShape(*shape), card="n300")
