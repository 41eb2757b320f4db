"""Distributing torch tensors over the chips of a mesh, and putting them together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tt_cnn.virtual.errors import fatal
from tt_cnn.virtual.types.geometry import MeshShape

if TYPE_CHECKING:
    from tt_cnn.virtual.device import MeshDevice


class TensorToMesh:
    """How one tensor becomes one for each chip."""

    def __init__(self, mesh_device: MeshDevice) -> None:
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
    """Equal parts along a dimension, one a chip."""

    def __init__(self, mesh_device: MeshDevice, dim: int) -> None:
        super().__init__(mesh_device)
        self.dim = dim

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        chips = self.mesh_device.chips
        fatal(
            tensor.shape[self.dim] % chips == 0,
            f"ShardTensorToMesh: dimension {self.dim} of {tuple(tensor.shape)} cannot be divided over {chips} devices.",
        )
        return list(tensor.chunk(chips, self.dim))


class ShardTensor2dMesh(TensorToMesh):
    """Parts along two dimensions over a mesh of rows and columns; None keeps a dimension whole."""

    def __init__(self, mesh_device: MeshDevice, mesh_shape: Sequence[int], dims: Sequence[int | None]) -> None:
        super().__init__(mesh_device)
        self.mesh_shape = MeshShape(*mesh_shape)
        self.dims = tuple(dims)

    def distribute(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        rows, columns = self.mesh_shape
        row_parts = [tensor] * rows if self.dims[0] is None else list(tensor.chunk(rows, self.dims[0]))
        return [
            part
            for row in row_parts
            for part in ([row] * columns if self.dims[1] is None else row.chunk(columns, self.dims[1]))
        ]


class MeshToTensor:
    """How the tensors of the chips become one."""

    def __init__(self, mesh_device: MeshDevice) -> None:
        self.mesh_device = mesh_device

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        raise NotImplementedError


class ConcatMeshToTensor(MeshToTensor):
    """The chips' tensors one after the other along a dimension."""

    def __init__(self, mesh_device: MeshDevice, dim: int) -> None:
        super().__init__(mesh_device)
        self.dim = dim

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat(parts, self.dim)


class ConcatMesh2dToTensor(MeshToTensor):
    """Columns joined along the second dimension given, then rows along the first."""

    def __init__(self, mesh_device: MeshDevice, mesh_shape: Sequence[int], dims: Sequence[int]) -> None:
        super().__init__(mesh_device)
        self.mesh_shape = MeshShape(*mesh_shape)
        self.dims = tuple(dims)

    def compose(self, parts: list[torch.Tensor]) -> torch.Tensor:
        rows, columns = self.mesh_shape
        lines = [torch.cat(parts[r * columns : (r + 1) * columns], self.dims[1]) for r in range(rows)]
        return torch.cat(lines, self.dims[0])
