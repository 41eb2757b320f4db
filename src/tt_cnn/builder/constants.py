# SPDX-License-Identifier: Apache-2.0
"""Tensors that a layer keeps on the device: rows of one value per channel, and matrices that it makes itself."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.rules import Rule
from tt_cnn.builder.weights import replicated


def host_row(values: torch.Tensor, mesh_mapper: Any = None) -> Any:
    """(n) values as (1, 1, 1, n) on the host, in float32."""
    row = values.detach().float().reshape(1, 1, 1, -1)
    return ttnn.from_torch(row, dtype=ttnn.float32, mesh_mapper=mesh_mapper)


def tiles_on_device(tensor: Any, device: Any, dtype: Any = ttnn.bfloat16) -> Any:
    """In tiles on the device; a tensor that is there already is taken as it is."""
    if ttnn.is_tensor_storage_on_device(tensor):
        return tensor
    tiles = ttnn.to_layout(tensor, ttnn.TILE_LAYOUT)
    return ttnn.to_device(ttnn.to_dtype(tiles, dtype), device)


def matrix_on_device(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16) -> Any:
    """(rows, columns) as (1, 1, rows, columns), the same on all chips."""
    shape = (1, 1, *values.shape)
    return ttnn.from_torch(
        values.reshape(shape), dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, mesh_mapper=replicated(device)
    )


def row_rule(field: str, size: str, optional: bool = False) -> Rule:
    """The field holds a row of as many values as the field `size` says."""
    return Rule(
        field,
        lambda c: (optional and getattr(c, field) is None) or _is_row(getattr(c, field), getattr(c, size)),
        lambda c: f"{'None or ' if optional else ''}a ttnn.Tensor of shape {(1, 1, 1, getattr(c, size))}",
    )


def _is_row(tensor: Any, size: int) -> bool:
    return isinstance(tensor, ttnn.Tensor) and tuple(tensor.shape) == (1, 1, 1, size)
