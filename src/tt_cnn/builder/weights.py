# SPDX-License-Identifier: Apache-2.0
"""Weights of a layer as TT-NN tensors on the host, as its convolutions take them."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn


def to_host_tensors(weight: torch.Tensor, bias: torch.Tensor | None, mesh_mapper: Any = None) -> tuple[Any, Any]:
    """Float32 on the host, so that nothing is lost before the layer rounds to its own dtype; bias as (1, 1, 1, n)."""
    weight_tensor = ttnn.from_torch(weight.detach(), dtype=ttnn.float32, mesh_mapper=mesh_mapper)
    if bias is None:
        return weight_tensor, None
    return weight_tensor, ttnn.from_torch(
        bias.detach().reshape(1, 1, 1, -1), dtype=ttnn.float32, mesh_mapper=mesh_mapper
    )


def random_values(shape: tuple[int, ...]) -> torch.Tensor:
    """Normal values that bfloat16 represents exactly."""
    return torch.randn(shape, dtype=torch.bfloat16).float()


def to_one_torch(tensor: Any) -> torch.Tensor:
    """The values of a tensor, from one chip where it is the same on several."""
    host = ttnn.from_device(tensor) if ttnn.is_tensor_storage_on_device(tensor) else tensor
    return ttnn.to_torch(ttnn.get_device_tensors(host)[0])


def replicated(device: Any) -> Any:
    """A mapper that gives each chip of a mesh the same tensor; none is needed for one chip."""
    return ttnn.ReplicateTensorToMesh(device) if device.get_num_devices() > 1 else None
