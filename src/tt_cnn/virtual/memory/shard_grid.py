# SPDX-License-Identifier: Apache-2.0
"""Shard grids that a card does not have."""

from __future__ import annotations

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.types.enums import BufferType, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.tensor_spec import Spec


def check_shard_grid(card: Card, spec: Spec) -> None:
    """Every core of a shard grid must have a bank on this card; of block shards, every core that holds data."""
    shard = spec.memory_config.shard_spec
    if shard is None:
        return
    limit = (card.dram_banks, 1) if spec.memory_config.is_dram() else card.grid
    grid = shard.grid
    if _is_inside(grid, limit):
        return
    if spec.memory_config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED:
        grid = spec.cores_with_data
        if _is_inside(grid, limit):
            return
    check_cores(card, grid, spec.memory_config.buffer_type)


def check_cores(card: Card, grid: CoreRangeSet, buffer_type: BufferType) -> None:
    """Every core of the grid must have a bank of this memory."""
    limit = (card.dram_banks, 1) if buffer_type is BufferType.DRAM else card.grid
    outside = next((c for c in grid.cores() if c.x >= limit[0] or c.y >= limit[1]), None)
    if outside is None:
        return
    if buffer_type is BufferType.DRAM and outside.y:
        raise CardError(
            f"Invalid DRAM shard grid: shard core ({outside.x}, {outside.y}) is not on row 0. DRAM banks are 1D "
            "(bank_id == logical x-coordinate), so every shard core must have y == 0."
        )
    raise CardError(
        f"Invalid shard grid: shard core ({outside.x}, {outside.y}) has no {buffer_type.name} bank on this device, "
        f"which has {limit[0] * limit[1]} of them. Derive the shard grid from the device (dram_grid_size() for DRAM, "
        "compute_with_storage_grid_size() for L1) rather than assuming a fixed size -- a harvested device exposes "
        "fewer banks than an unharvested one of the same type. An L1 shard core outside the compute grid is legal only "
        "while it is claimed via ServiceCoreManager."
    )


def _is_inside(grid: CoreRangeSet, limit: tuple[int, int]) -> bool:
    end = grid.bounding_box().end
    return end.x < limit[0] and end.y < limit[1]
