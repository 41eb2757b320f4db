# SPDX-License-Identifier: Apache-2.0
"""untilize_with_unpadding: tiles to rows, cut off after the given last indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.capacity import pending_output, row_fits
from tt_cnn.virtual.ops.layout.relayout import Relayout, check_grid, extent, staging
from tt_cnn.virtual.ops.layout.squeezing import back_to, four_dims, to_four
from tt_cnn.virtual.ops.layout.tilize import (
    Manner,
    all_cores,
    block_buffers,
    blocks_employ_more,
    parts_of_rows,
    whole_rows,
)
from tt_cnn.virtual.ops.layout.unpadding_rules import validate_shards
from tt_cnn.virtual.ops.layout.untilize_codegen import untilized_dtype
from tt_cnn.virtual.ops.layout.untilize_program import UntilizeWithUnpaddingProgram
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_untilize_with_unpadding(
    planner: Planner,
    x: Slot,
    ends: Sequence[int],
    config: MemoryConfig | None = None,
    *,
    use_multicore: bool = True,
    grid: CoreRangeSet | None = None,
) -> Slot:
    spec = x.spec
    shape = Shape(end + 1 for end in tuple(ends)[: len(spec.shape)])
    target, dtype = config or spec.memory_config, untilized_dtype(spec.dtype)
    four, four_shape = to_four(planner, x), four_dims(shape)
    pending = pending_output(planner, four_shape, target, dtype, Layout.ROW_MAJOR)
    fits = row_fits(planner, spec.dtype, dtype, extent(spec.padded_shape, 1) // TILE_SIZE, pending)
    made = _dispatch(planner, four, four_shape, target, Manner(fits, use_multicore, grid))
    return back_to(planner, made, shape)


def _dispatch(planner: Planner, x: Slot, shape: Shape, config: MemoryConfig, manner: Manner) -> Slot:
    spec = x.spec
    out = planner.allocate(output_spec(spec, shape, config))
    fatal(spec.layout is Layout.TILE, "Can only untilize tile major data")
    if spec.is_sharded:
        validate_shards(spec, config, out.spec)
    elif config.is_sharded():
        fatal(config.shard_spec is not None, "Output memory config is sharded but no shard spec is provided")
    if not spec.shape.volume():
        return out
    factory = _factory(planner, spec, config, manner)
    buffers = _BUFFERS[factory](planner, x, out, manner.grid)
    program = UntilizeWithUnpaddingProgram(
        factory=f"UntilizeWithUnpadding{factory}ProgramFactory",
        cores=all_cores(buffers),
        buffers=tuple(buffers),
        memory_config=config,
        manner=manner,
    )
    planner.dispatch(program, [x], [out])
    return out


def _share(total: int, cores: int) -> int:
    return round_up(div_up(total, cores), TILE_SIZE)


def _grid_sides(shard: ShardSpec) -> tuple[int, int]:
    """Rows and columns of shards of a rectangular grid."""
    size = shard.grid.bounding_box().grid_size()
    return (size.y, size.x) if shard.row_wise else (size.x, size.y)


def output_spec(spec: Spec, shape: Shape, config: MemoryConfig) -> Spec:
    """Shards of the output follow from its shape and the grid; only their way of sharding is the caller's."""
    dtype = untilized_dtype(spec.dtype)
    source = spec.memory_config
    base = config.shard_spec if not source.is_sharded() else source.shard_spec
    crosses = source.is_sharded() and config.memory_layout is not source.memory_layout
    if not config.is_sharded() or crosses or base is None:
        return Spec(shape, dtype, Layout.ROW_MAJOR, config)
    height, width = prod(tuple(shape)[:-1]), shape[-1]
    layout = config.memory_layout if not source.is_sharded() else source.memory_layout
    sides = _shard_sides(spec, shape, base, layout, height, width)
    made = MemoryConfig(layout, config.buffer_type, ShardSpec(base.grid, sides, base.orientation))
    return Spec(shape, dtype, Layout.ROW_MAJOR, made)


def _shard_sides(
    spec: Spec, shape: Shape, base: ShardSpec, layout: TensorMemoryLayout, height: int, width: int
) -> tuple[int, int]:
    if layout is BLOCK:
        rows, columns = _grid_sides(base)
        return _share(height, rows), _share(width, columns)
    if layout is WIDTH:
        return height, base.shape[1] if spec.is_sharded else _share(width, base.num_cores())
    if not spec.is_sharded:
        return _share(height, base.num_cores()), base.shape[1]
    matrices = matrices_a_shard(spec)
    rows = matrices * extent(shape, 2) if matrices > 1 else _share(height, base.num_cores())
    return rows, width


def matrices_a_shard(spec: Spec) -> int:
    """Whole padded matrices in one shard of a batch."""
    shard, padded = spec.shard, spec.padded_shape
    return max(1, shard.shape[0] * shard.shape[1] // max(1, extent(padded, 2) * extent(padded, 1)))


def _factory(planner: Planner, spec: Spec, config: MemoryConfig, manner: Manner) -> str:
    grid = manner.grid
    if spec.is_sharded:
        fatal(grid is None, "Sharded untilize does not support sub core grid specification")
        return "MultiCoreSharded"
    if config.is_sharded():
        return "MultiCoreInterleaved"
    if not manner.multicore:
        return "SingleCore"
    if not manner.fits:
        return "MultiCoreBlockInterleaved"
    padded = spec.padded_shape
    width, height = extent(padded, 1) // TILE_SIZE, extent(padded, 2) // TILE_SIZE
    area = grid.num_cores() if grid is not None else planner.card.cores
    more = blocks_employ_more(area, spec.physical[0] // TILE_SIZE, width, height)
    return "MultiCoreBlockInterleaved" if more else "MultiCoreInterleaved"


def _shards(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    spec, shard = x.spec, x.spec.shard
    check_grid(planner.card, shard.grid)
    fatal(
        spec.memory_config.is_l1(),
        "DFB 'sh_in' borrows memory from TensorParameter 'sh_input', but its TensorSpec is not L1-resident (L1 is "
        "required). Both L1 and L1_SMALL are accepted.",
    )
    cores, layout = shard.grid, spec.memory_config.memory_layout
    row, rows = shard.shape[1] // TILE_SIZE, shard.shape[0] // TILE_SIZE
    padded = spec.padded_shape
    batches = spec.volume // (extent(padded, 2) * extent(padded, 1))
    matrices = matrices_a_shard(spec) if layout is HEIGHT else batches
    tile = out.spec.dtype.tile_bytes
    buffers = [staging(row * rows * spec.dtype.tile_bytes, cores, x, "input")]
    if not out.spec.is_sharded:
        return [*buffers, staging(2 * row * tile, cores, name="rows")]
    stays = out.spec.memory_config.memory_layout is layout
    faces_only = stays and out.spec.physical[1] == 16 and extent(out.spec.padded_shape, 2) % TILE_SIZE == 0
    buffers.append(staging((16 if faces_only else row * rows // matrices * 2) * tile, cores, name="rows"))
    if stays:
        alignment = planner.card.dram_alignment if out.spec.memory_config.is_dram() else planner.card.l1_alignment
        height = out.spec.shard.shape[0]
        last = height - (round_up(out.spec.physical[0], height) - out.spec.physical[0])
        buffers.append(staging(last * round_up(out.spec.page_bytes, alignment), cores, out, "output"))
    return buffers


_BUFFERS = {
    "MultiCoreSharded": _shards,
    "MultiCoreInterleaved": whole_rows,
    "MultiCoreBlockInterleaved": block_buffers,
    "SingleCore": parts_of_rows,
}


@op("untilize_with_unpadding")
class UntilizeWithUnpadding(Relayout):
    def arguments(
        self,
        input_tensor: Tensor,
        output_tensor_end: Sequence[int],
        *,
        memory_config: MemoryConfig | None = None,
        use_multicore: bool = True,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        rank = len(input_tensor.shape)
        fatal(
            len(output_tensor_end) == rank and all(end >= 0 for end in output_tensor_end),
            f"ttnn.untilize_with_unpadding: output_tensor_end is {tuple(output_tensor_end)}; it must have the last "
            f"index of each of the {rank} dimensions",
        )
        return Call(
            [input_tensor],
            ends=tuple(output_tensor_end),
            memory_config=memory_config,
            use_multicore=use_multicore,
            grid=sub_core_grids,
        )

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, **options: Any) -> list[Slot]:
        return [plan_untilize_with_unpadding(planner, x, config=memory_config, **options)]
