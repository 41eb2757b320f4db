# SPDX-License-Identifier: Apache-2.0
"""Distributing torch tensors over the chips of a mesh, and putting them together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.geometry import MeshShape


class Mesh(Protocol):
    """A device, as the number and the arrangement of its chips."""

    shape: MeshShape

    @property
    def chips(self) -> int: ...


def _split(tensor: torch.Tensor, parts: int, dim: int, who: str) -> list[torch.Tensor]:
    _check_dim(tensor, dim, who)
    fatal(
        tensor.shape[dim] % parts == 0,
        f"{who}: dimension {dim} of {tuple(tensor.shape)} cannot be divided over {parts} devices.",
    )
    return list(tensor.chunk(parts, dim))


def _check_dim(tensor: torch.Tensor, dim: int, who: str) -> None:
    fatal(
        -tensor.dim() <= dim < tensor.dim(),
        f"{who}: there is no dimension {dim} in a tensor of shape {tuple(tensor.shape)}.",
    )


def _check_device(mesh_device: object, who: str) -> None:
    if not hasattr(mesh_device, "chips"):
        raise TypeError(f"{who} takes a mesh device; it was given a {type(mesh_device).__name__}")


def _whole(value: object, name: str, who: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{who}: {name} is {value!r}; it must be a whole number")
    return value


def _mesh_shape(mesh_device: Mesh, mesh_shape: Sequence[int] | None, who: str) -> MeshShape:
    shape = mesh_device.shape if mesh_shape is None else MeshShape(*mesh_shape)
    fatal(
        shape.dims() == 2 and shape.mesh_size() == mesh_device.chips,
        f"{who}: mesh_shape {shape} does not fit a mesh of {mesh_device.chips} devices.",
    )
    return shape


class TensorToMesh:
    """How one tensor becomes one for each chip."""

    def __init__(self, mesh_device: Mesh) -> None:
        _check_device(mesh_device, type(self).__name__)
        self.mesh_device = mesh_device

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        raise NotImplementedError

    def unwrap(self) -> TensorToMesh:
        return self


class ReplicateTensorToMesh(TensorToMesh):
    """The whole tensor on every chip."""

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor] * self.mesh_device.chips


class ShardTensorToMesh(TensorToMesh):
    """Equal parts along a dimension, one per chip."""

    def __init__(self, mesh_device: Mesh, dim: int) -> None:
        super().__init__(mesh_device)
        self.dim = _whole(dim, "dim", "ShardTensorToMesh")

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return _split(tensor, self.mesh_device.chips, self.dim, "ShardTensorToMesh")


class ShardTensor2dMesh(TensorToMesh):
    """Parts along two dimensions over a mesh of rows and columns; None keeps a dimension whole."""

    def __init__(self, mesh_device: Mesh, mesh_shape: Sequence[int], dims: Sequence[int | None]) -> None:
        super().__init__(mesh_device)
        self.mesh_shape = _mesh_shape(mesh_device, mesh_shape, "ShardTensor2dMesh")
        fatal(
            len(dims) == 2, f"ShardTensor2dMesh: dims is {tuple(dims)}; it takes two, one for rows and one for columns."
        )
        self.dims = tuple(dims)

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        rows, columns = self.mesh_shape
        return [part for row in self._along(tensor, rows, 0) for part in self._along(row, columns, 1)]

    def _along(self, tensor: torch.Tensor, parts: int, axis: int) -> list[torch.Tensor]:
        dim = self.dims[axis]
        return [tensor] * parts if dim is None else _split(tensor, parts, dim, "ShardTensor2dMesh")


class MeshToTensor:
    """How the tensors of the chips become one."""

    def __init__(self, mesh_device: Mesh) -> None:
        _check_device(mesh_device, type(self).__name__)
        self.mesh_device = mesh_device

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        raise NotImplementedError


class ConcatMeshToTensor(MeshToTensor):
    """The chips' tensors one after the other along a dimension."""

    def __init__(self, mesh_device: Mesh, dim: int) -> None:
        super().__init__(mesh_device)
        self.dim = _whole(dim, "dim", "ConcatMeshToTensor")

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        _check_dim(parts[0], self.dim, "ConcatMeshToTensor")
        return torch.cat(parts, self.dim)


class ConcatMesh2dToTensor(MeshToTensor):
    """Columns joined along the second dimension given, then rows along the first."""

    def __init__(self, mesh_device: Mesh, mesh_shape: Sequence[int], dims: Sequence[int]) -> None:
        super().__init__(mesh_device)
        self.mesh_shape = _mesh_shape(mesh_device, mesh_shape, "ConcatMesh2dToTensor")
        fatal(len(dims) == 2, f"ConcatMesh2dToTensor: dims is {tuple(dims)}; it takes two, of rows and of columns.")
        self.dims = tuple(dims)

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        rows, columns = self.mesh_shape
        for dim in self.dims:
            _check_dim(parts[0], dim, "ConcatMesh2dToTensor")
        fatal(
            len(parts) == rows * columns,
            f"ConcatMesh2dToTensor: a tensor of {len(parts)} shards does not fit a mesh of {rows * columns} devices.",
        )
        lines = [torch.cat(parts[r * columns : (r + 1) * columns], self.dims[1]) for r in range(rows)]
        return torch.cat(lines, self.dims[0])
