# SPDX-License-Identifier: Apache-2.0
"""`ttnn.distributed`: meshes of devices, and tensors spread over them."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.devices.opening import close_mesh_device as close_mesh_device
from tt_cnn.virtual.devices.opening import get_device_ids as get_device_ids
from tt_cnn.virtual.devices.opening import get_num_devices as get_num_devices
from tt_cnn.virtual.devices.opening import open_mesh_device as open_mesh_device
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.tensors.mesh import ConcatMesh2dToTensor as ConcatMesh2dToTensor
from tt_cnn.virtual.tensors.mesh import ConcatMeshToTensor as ConcatMeshToTensor
from tt_cnn.virtual.tensors.mesh import MeshToTensor as MeshToTensor
from tt_cnn.virtual.tensors.mesh import ReplicateTensorToMesh as ReplicateTensorToMesh
from tt_cnn.virtual.tensors.mesh import ShardTensor2dMesh as ShardTensor2dMesh
from tt_cnn.virtual.tensors.mesh import ShardTensorToMesh as ShardTensorToMesh
from tt_cnn.virtual.tensors.mesh import TensorToMesh as TensorToMesh
from tt_cnn.virtual.tensors.placements import MeshComposerConfig as MeshComposerConfig
from tt_cnn.virtual.tensors.placements import MeshMapperConfig as MeshMapperConfig
from tt_cnn.virtual.tensors.placements import PlacementReplicate as PlacementReplicate
from tt_cnn.virtual.tensors.placements import PlacementShard as PlacementShard
from tt_cnn.virtual.tensors.placements import aggregate_tensor as aggregate_tensor
from tt_cnn.virtual.tensors.placements import create_mesh_composer as create_mesh_composer
from tt_cnn.virtual.tensors.placements import create_mesh_mapper as create_mesh_mapper
from tt_cnn.virtual.tensors.placements import distribute_tensor as distribute_tensor
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.ttnn.missing import resolver
from tt_cnn.virtual.types import MeshShape


def using_distributed_env() -> bool:
    """Whether several hosts work together; the virtual card has one."""
    return False


def shard_tensor_to_mesh_mapper(mesh_device: MeshDevice, dim: int) -> TensorToMesh:
    return ShardTensorToMesh(mesh_device, dim)


def replicate_tensor_to_mesh_mapper(mesh_device: MeshDevice) -> TensorToMesh:
    return ReplicateTensorToMesh(mesh_device)


def concat_mesh_to_tensor_composer(mesh_device: MeshDevice, dim: int) -> MeshToTensor:
    return ConcatMeshToTensor(mesh_device, dim)


def from_host_shards(tensors: Sequence[Tensor], mesh_shape: MeshShape) -> Tensor:
    """One host tensor for a mesh out of one for each of its devices."""
    fatal(
        len(tensors) == mesh_shape.mesh_size(),
        f"from_host_shards was given {len(tensors)} tensors for a mesh of {mesh_shape.mesh_size()} devices.",
    )
    fatal(all(t.spec == tensors[0].spec for t in tensors), "All tensor shards must have the same tensor spec.")
    shards = [value for tensor in tensors for value in tensor.host_values("from_host_shards")]
    return Tensor.on_host(tensors[0].spec, HostStorage(shards))


__getattr__ = resolver("distributed.")
