# SPDX-License-Identifier: Apache-2.0
"""Shard specs of element-wise ops: which outputs get one, which one, and when programs work on shards in place."""

from __future__ import annotations

from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.enums import HEIGHT, WIDTH, Layout, ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    Shape,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def is_uneven(spec: Spec) -> bool:
    """The shards do not divide the padded tensor (eltwise's `is_uneven`, one rule for unary and binary ops)."""
    if not spec.is_sharded or spec.memory_config.shard_spec is None:
        return False
    fatal(len(spec.padded_shape) >= 2, "Rank must be at least 2")
    height, width = spec.shard.shape
    return spec.physical[0] % height != 0 or spec.physical[1] % width != 0


def adjust_to_shape(shard: ShardSpec, from_shape: Shape, to_shape: Shape) -> ShardSpec:
    """A shard spec scaled with the tensor's height and width, never below a tile (`adjust_to_shape`)."""
    from_height, to_height = prod(list(from_shape)[:-1]), prod(list(to_shape)[:-1])
    fatal(from_height > 0, "Invalid from_shape: volume is zero")
    fatal(from_shape[-1] > 0, "Invalid from_shape: width dimension is zero")
    height = max(shard.shape[0] * to_height // from_height, TILE_SIZE)
    width = max(shard.shape[1] * to_shape[-1] // from_shape[-1], TILE_SIZE)
    return ShardSpec(shard.grid, [height, width], shard.orientation)


def synthesize_shard_spec(
    grid: tuple[int, int],
    padded_shape: Shape,
    layout: TensorMemoryLayout,
    tile: bool,
    pad_row_major_width: bool = False,
    op: str = "BinaryNg",
) -> ShardSpec:
    """Shards for a sharded memory config without a shard spec: as even as whole tiles allow, over the cores needed.

    After `synthesize_output_shard_spec`. Unary ops round the width of row-major shards up to 32
    (`pad_row_major_width`), binary ops do not: recorded for one width that no core count divides.
    """
    height, width = prod(list(padded_shape)[:-1]), padded_shape[-1]
    fatal(
        (height and width) or (layout is HEIGHT and width) or (layout is WIDTH and height),
        f"{op}: zero-volume specless-sharded is only representable for HEIGHT_SHARDED + non-zero width or "
        f"WIDTH_SHARDED + non-zero height; got layout={layout.value}, h={height}, w={width}.",
    )
    height, width = max(height, 1), max(width, 1)  # of nothing one core holds a shard
    x, y = grid
    align = TILE_SIZE if tile else 1
    if layout is HEIGHT:
        shard = [round_up(div_up(round_up(height, x * y * align), x * y), align), round_up(width, align)]
        cores = _first_cores(div_up(height, shard[0]), grid)
    elif layout is WIDTH:
        unit = TILE_SIZE if pad_row_major_width and not tile else align
        shard = [round_up(height, align), round_up(div_up(width, x * y), unit)]
        cores = _first_cores(div_up(width, shard[1]), grid)
    else:
        shard = [round_up(div_up(round_up(height, y * align), y), align), round_up(div_up(width, x), align)]
        rows, columns = div_up(height, shard[0]), div_up(width, shard[1])
        cores = CoreRangeSet([CoreRange((0, 0), (max(columns, 1) - 1, max(rows, 1) - 1))])
    return ShardSpec(cores, shard, ShardOrientation.ROW_MAJOR)


def _first_cores(count: int, grid: tuple[int, int]) -> CoreRangeSet:
    count = min(max(count, 1), grid[0] * grid[1])
    return num_cores_to_corerangeset(count, CoreCoord(*grid), row_wise=True)


def broadcast_shape(a: Shape, b: Shape) -> Shape:
    """The common shape; where two sizes clash that of `a` is taken, the checks come elsewhere."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)
    return Shape(x if x != 1 and y != 1 else x + y - 1 for x, y in pairs)


def padded(spec: Spec, shape: Shape) -> Shape:
    """Another shape padded as a tensor of this layout is."""
    if spec.layout is Layout.TILE:
        return Spec(shape, spec.dtype, Layout.TILE).padded_shape
    return shape


def scaled_memory_config(spec: Spec, other_shape: Shape) -> MemoryConfig:
    """A sharded operand's memory config for the broadcast result (`compute_mem_config_actual`)."""
    out = padded(spec, broadcast_shape(spec.shape, other_shape))
    shard = adjust_to_shape(spec.shard, spec.padded_shape, out)
    return MemoryConfig(spec.memory_config.memory_layout, spec.memory_config.buffer_type, shard)
