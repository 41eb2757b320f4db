# SPDX-License-Identifier: Apache-2.0
"""Memory configs of shards in L1, in whole tiles."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn

TILE = 32


def row_by_row(cores: int, device: Any) -> Any:
    """The first cores of the device's grid, row by row."""
    grid = device.compute_with_storage_grid_size()
    return ttnn.num_cores_to_corerangeset(cores, ttnn.CoreCoord(grid.x, grid.y), True)


def all_of(grid: Any) -> Any:
    """A ttnn.CoreGrid as the cores that it stands for."""
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid.x - 1, grid.y - 1))])


def height_sharded(rows: int, channels: int, cores: int, device: Any) -> Any:
    """Rows distributed evenly, all channels on every core."""
    shape = [in_tiles(div_up(rows, cores)), channels]
    return _in_l1(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, row_by_row(cores, device), shape)


def block_sharded(rows: int, channels: int, grid: Any) -> Any:
    """Rows distributed over the rows of the grid, channels over its columns."""
    shape = [in_tiles(div_up(rows, grid.y)), in_tiles(div_up(channels, grid.x))]
    return _in_l1(ttnn.TensorMemoryLayout.BLOCK_SHARDED, all_of(grid), shape)


def width_sharded(rows: int, channels: int, grid: Any) -> Any:
    """Channels distributed evenly, all rows on every core."""
    shape = [in_tiles(rows), in_tiles(div_up(channels, grid.x * grid.y))]
    return _in_l1(ttnn.TensorMemoryLayout.WIDTH_SHARDED, all_of(grid), shape)


def div_up(a: int, b: int) -> int:
    return -(-a // b)


def in_tiles(size: int) -> int:
    return div_up(size, TILE) * TILE


def _in_l1(layout: Any, cores: Any, shape: list[int]) -> Any:
    spec = ttnn.ShardSpec(cores, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, spec)
