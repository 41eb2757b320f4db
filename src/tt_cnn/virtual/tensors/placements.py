# SPDX-License-Identifier: Apache-2.0
"""Mappers and composers of any mesh, made from a placement for each of its dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.tensors.conversion import pad_to, unpad
from tt_cnn.virtual.tensors.mesh import Mesh, MeshToTensor, TensorToMesh
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import OPERATORS, Tensor
from tt_cnn.virtual.types.geometry import MeshShape, Shape
from tt_cnn.virtual.types.tensor_spec import Spec


class PlacementReplicate:
    """The whole tensor along a dimension of the mesh."""

    def __repr__(self) -> str:
        return "PlacementReplicate()"


class PlacementShard:
    """Parts of a dimension of the tensor along a dimension of the mesh."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __repr__(self) -> str:
        return f"PlacementShard({self.dim})"


Placement = PlacementReplicate | PlacementShard


def _override(shape: MeshShape | None) -> str:
    return "" if shape is None else f", mesh_shape_override={shape}"


class MeshMapperConfig:
    """`MeshMapperConfig(placements)`, or of a mesh of rows and columns `MeshMapperConfig(row_dim=, col_dim=)`."""

    def __init__(
        self,
        placements: Sequence[Placement] | int | None = None,
        *rest: int | None,
        row_dim: int | None = None,
        col_dim: int | None = None,
        mesh_shape_override: MeshShape | None = None,
    ) -> None:
        if placements is None or isinstance(placements, int):
            dims = [placements if row_dim is None else row_dim, rest[0] if rest else col_dim]
            self.placements: list[Placement] = [
                PlacementReplicate() if dim is None else PlacementShard(dim) for dim in dims
            ]
        else:
            self.placements = list(placements)
        self.mesh_shape_override = mesh_shape_override

    def __repr__(self) -> str:
        return f"MeshMapperConfig(placements: {self.placements}{_override(self.mesh_shape_override)})"


class MeshComposerConfig:
    """The dimension of the tensor along which the chips of each dimension of the mesh are joined."""

    def __init__(
        self,
        dims: Sequence[int] | int | None = None,
        *rest: int,
        row_dim: int | None = None,
        col_dim: int | None = None,
        mesh_shape_override: MeshShape | None = None,
    ) -> None:
        both = [dims if row_dim is None else row_dim, rest[0] if rest else col_dim]
        chosen = both if dims is None or isinstance(dims, int) else list(dims)
        if not all(isinstance(dim, int) for dim in chosen):
            raise TypeError(f"MeshComposerConfig takes the dimensions to join, or row_dim and col_dim; got {chosen}")
        self.dims: list[int] = [dim for dim in chosen if isinstance(dim, int)]
        self.mesh_shape_override = mesh_shape_override

    def __repr__(self) -> str:
        return f"MeshComposerConfig(dims: {self.dims}{_override(self.mesh_shape_override)})"


def _shape(mesh_device: Mesh, override: MeshShape | None, count: int, config: object, what: str) -> MeshShape:
    shape = override or mesh_device.shape
    fatal(
        shape.dims() == count,
        f"The number of dimensions in the mesh shape {shape} does not match the number of {what} in the config "
        f"{config}",
    )
    fatal(
        shape.mesh_size() == mesh_device.chips,
        f"The mesh shape {shape} of {config} does not fit a mesh of {mesh_device.chips} devices.",
    )
    return shape


class _PlacedToMesh(TensorToMesh):
    def __init__(self, mesh_device: Mesh, config: MeshMapperConfig) -> None:
        super().__init__(mesh_device)
        count = len(config.placements)
        self.mesh_shape = _shape(mesh_device, config.mesh_shape_override, count, config, "placements")
        self.placements = tuple(config.placements)

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Row by row of the mesh."""
        dims = [placement.dim for placement in self.placements if isinstance(placement, PlacementShard)]
        rank = tensor.dim()
        fatal(
            all(-rank <= dim < rank for dim in dims),
            f"Invalid dimension index; got dims: {{{', '.join(map(str, dims))}}}, tensor dimension: {rank}",
        )
        fatal(len({dim % rank for dim in dims}) == len(dims), "dims must be unique")
        parts = [tensor]
        for size, placement in zip(self.mesh_shape, self.placements, strict=True):
            if isinstance(placement, PlacementReplicate):
                parts = [part for part in parts for _ in range(size)]
                continue
            fatal(
                tensor.shape[placement.dim] % size == 0,
                f"dimension {placement.dim} of {tuple(tensor.shape)} cannot be divided over {size} devices.",
            )
            parts = [piece for part in parts for piece in part.chunk(size, placement.dim)]
        return parts


class _PlacedToTensor(MeshToTensor):
    def __init__(self, mesh_device: Mesh, config: MeshComposerConfig) -> None:
        super().__init__(mesh_device)
        count = len(config.dims)
        self.mesh_shape = _shape(mesh_device, config.mesh_shape_override, count, config, "dimensions")
        self.dims = tuple(config.dims)

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        for size, dim in reversed(list(zip(self.mesh_shape, self.dims, strict=True))):
            parts = [torch.cat(parts[at : at + size], dim) for at in range(0, len(parts), size)]
        (whole,) = parts
        return whole


def create_mesh_mapper(mesh_device: Any, config: MeshMapperConfig) -> TensorToMesh:
    return _PlacedToMesh(mesh_device, config)


def create_mesh_composer(mesh_device: Any, config: MeshComposerConfig) -> MeshToTensor:
    return _PlacedToTensor(mesh_device, config)


def distribute_tensor(tensor: Tensor, mapper: TensorToMesh, mesh_device: Any = None) -> Tensor:
    """A host tensor spread over a mesh, on its chips where a mesh is given."""
    (whole,) = tensor.host_values("distribute_tensor")
    spread = _on_host(tensor, mapper.distribute(unpad(whole, tensor.shape)))
    return spread if mesh_device is None else OPERATORS["to_device"](spread, mesh_device, tensor.memory_config())


def aggregate_tensor(tensor: Tensor, composer: MeshToTensor) -> Tensor:
    """One host tensor of those of the chips."""
    host = tensor.cpu()
    parts = [unpad(value, host.shape) for value in host.host_values("aggregate_tensor")]
    return _on_host(host, [composer.compose(parts)])


def _on_host(like: Tensor, values: list[torch.Tensor]) -> Tensor:
    """Values without padding as a host tensor of another one's kind."""
    spec = like.spec
    made = Spec(Shape(values[0].shape), spec.dtype, spec.layout, spec.memory_config)
    return Tensor.on_host(made, HostStorage([pad_to(value, made.padded_shape) for value in values]))
