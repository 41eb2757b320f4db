"""Moving tensors between shards, and joining those that lie on the same cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn import ttnn

TILE = 32


def side_by_side(parts: Sequence[Any]) -> Any:
    """The channels of all parts in one tensor, each core its own rows; the parts are freed."""
    widths = (part.memory_config().shard_spec.shape[1] for part in parts)
    joined = ttnn.concat(list(parts), dim=3, memory_config=_with_width(parts[0].memory_config(), sum(widths)))
    for part in parts:
        ttnn.deallocate(part)
    if joined.dtype == ttnn.bfloat16:  # too large to leave it below the hole where the parts were
        return ttnn.reallocate(joined)
    return joined


def like(x: Any, other: Any) -> Any:
    """x on the cores of the other tensor, which has as many rows; where it moves, what it held is freed."""
    config = other.memory_config()
    wanted = _with_width(config, config.shard_spec.shape[1] * x.shape[3] // other.shape[3])
    if x.memory_config() == wanted:
        return x
    moved = ttnn.to_memory_config(x, wanted)
    ttnn.deallocate(x)
    return moved


def in_blocks(x: Any, grid: Any) -> Any:
    """A copy of x in blocks on a rectangle of cores, or x itself where it is there."""
    columns, lines = grid.bounding_box().grid_size().x, grid.bounding_box().grid_size().y
    rows = -(-x.shape[2] // (TILE * lines)) * TILE
    spec = ttnn.ShardSpec(grid, [rows, x.shape[3] // columns], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, spec)
    return x if x.memory_config() == config else ttnn.to_memory_config(x, config)


def _with_width(config: Any, width: int) -> Any:
    shard = config.shard_spec
    spec = ttnn.ShardSpec(shard.grid, [shard.shape[0], width], shard.orientation)
    return ttnn.MemoryConfig(config.memory_layout, config.buffer_type, spec)
