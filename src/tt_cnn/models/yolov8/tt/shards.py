# SPDX-License-Identifier: Apache-2.0
"""Blocks of a tensor on a rectangle of cores."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn

TILE = 32


def blocks_on(grid: Any, rows: int, channels: int) -> Any:
    """Whole tiles of rows over the lines of a rectangle of cores, channels over its columns."""
    size = grid.bounding_box().grid_size()
    height = -(-rows // (TILE * size.y)) * TILE
    spec = ttnn.ShardSpec(grid, [height, channels // size.x], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, spec)
