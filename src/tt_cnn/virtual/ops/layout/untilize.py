# SPDX-License-Identifier: Apache-2.0
"""untilize: tiles to rows. Padding of interleaved tensors goes away; shards keep theirs."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.capacity import half_limit, pending_output, row_fits
from tt_cnn.virtual.ops.layout.relayout import Relayout, extent, padded_as, staging
from tt_cnn.virtual.ops.layout.squeezing import to_four, viewed_as
from tt_cnn.virtual.ops.layout.tilize import (
    Manner,
    all_cores,
    block_buffers,
    blocks_employ_more,
    tile_pair,
    tiles_a_block,
)
from tt_cnn.virtual.ops.layout.untilize_codegen import is_generated, plan_generated, untilized_dtype
from tt_cnn.virtual.ops.layout.untilize_program import UntilizeProgram
from tt_cnn.virtual.ops.layout.untilize_with_unpadding import plan_untilize_with_unpadding
from tt_cnn.virtual.ops.layout.work_split import SINGLE_CORE, cores_and_share, largest_divisor, split_blocks
from tt_cnn.virtual.ops.layout.workers import workers_of
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, WIDTH, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRangeSet,
    first_cores,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_ROW_CUTTING = (WIDTH, BLOCK)


def plan_untilize(
    planner: Planner,
    x: Slot,
    config: MemoryConfig | None,
    *,
    use_multicore: bool = True,
    grid: CoreRangeSet | None = None,
) -> Slot:
    four = to_four(planner, x)
    target = config or x.spec.memory_config
    if use_multicore and grid is None and x.spec.shape.volume() and is_generated(planner, four.spec, target):
        made = plan_generated(planner, four, target)
    else:
        made = _native(planner, four, config, use_multicore, grid)
    return viewed_as(planner, made, x.spec)


def _native(
    planner: Planner, x: Slot, config: MemoryConfig | None, use_multicore: bool, grid: CoreRangeSet | None
) -> Slot:
    spec = x.spec
    if not spec.is_sharded and spec.shape != spec.padded_shape:
        ends = tuple(d - 1 for d in spec.shape)
        return plan_untilize_with_unpadding(planner, x, ends, config, use_multicore=use_multicore, grid=grid)
    target, dtype = config or spec.memory_config, untilized_dtype(spec.dtype)
    pending = pending_output(planner, spec.padded_shape, target, dtype, Layout.ROW_MAJOR)
    fits = row_fits(planner, spec.dtype, dtype, spec.physical[1] // TILE_SIZE, pending)
    out = planner.allocate(padded_as(spec.shape, dtype, Layout.ROW_MAJOR, target, spec.padded_shape))
    manner = Manner(fits, use_multicore, grid)
    _validate(planner, spec, target, manner)
    if not spec.shape.volume():
        return out
    factory = _factory(planner, spec, target, manner)
    buffers = _BUFFERS[factory](planner, x, out, grid)
    program = UntilizeProgram(
        factory=f"Untilize{factory}ProgramFactory",
        cores=all_cores(buffers),
        buffers=tuple(buffers),
        manner=manner,
    )
    planner.dispatch(program, [x], [out])
    return out


def _validate(planner: Planner, spec: Spec, config: MemoryConfig, manner: Manner) -> None:
    height, width = spec.physical
    fatal(spec.layout is Layout.TILE, "Can only untilize tile major data")
    if manner.grid is not None:
        _validate_sub_grid(spec, config, manner.multicore)
    out_shard = config.shard_spec
    if config.is_sharded():
        fatal(out_shard is not None, "Output memory config is sharded but no shard spec or nd shard spec is provided")
        assert out_shard is not None
        row = out_shard.shape[1] * untilized_dtype(spec.dtype).element_bytes
        alignment = planner.card.dram_alignment if config.is_dram() else planner.card.l1_alignment
        fatal(
            row % alignment == 0,
            f"Output shard row size {row} bytes must be aligned to {alignment} bytes buffer alignment requirement",
        )
    if not manner.multicore:
        if out_shard is not None:
            fatal(
                out_shard.shape[1] % TILE_SIZE == 0,
                f"Output shard width {out_shard.shape[1]} must be a multiple of tile width 32 for single core "
                "implementation",
            )
        for side, shard in (("input", spec.memory_config.shard_spec), ("output", out_shard)):
            if shard is None:
                continue
            for name, size, total in (("width", shard.shape[1], width), ("height", shard.shape[0], height)):
                fatal(
                    total % size == 0,
                    f"Uneven {side} shard {name} {size} for tensor {name} {total} not supported for single core "
                    "implementation",
                )
    fatal(config.memory_layout is not BLOCK or config.is_l1(), "We don't support DRAM block sharding")


def _validate_sub_grid(spec: Spec, config: MemoryConfig, use_multicore: bool) -> None:
    for side, memory in (("Input", spec.memory_config), ("Output", config)):
        fatal(not memory.is_sharded(), f"{side} memory layout must be interleaved when sub_core_grid argument provided")
    fatal(use_multicore, "sub_core_grid implementation only supported when use_multicore flag argument is set to true")
    height = spec.physical[0]
    fatal(
        height in (0, TILE_SIZE),
        f"sub_core_grid untilize only supports tensors one tile row tall, got height {height} with tile height 32",
    )


def _factory(planner: Planner, spec: Spec, config: MemoryConfig, manner: Manner) -> str:
    if not manner.multicore:
        return "SingleCore"
    if manner.grid is not None:
        return "MultiCoreSubCoreGrids"
    interleaved = not spec.is_sharded and not config.is_sharded()
    if interleaved and not manner.fits:
        return "MultiCoreBlock"
    source = spec.memory_config
    if (
        source.is_sharded()
        and source.is_l1()
        and config.is_l1()
        and source.memory_layout is config.memory_layout
        and source.shard_spec == config.shard_spec
    ):
        return "MultiCoreInputAndOutputShardTypeAndShardSpecIdentical"
    height, width = (side // TILE_SIZE for side in spec.physical)
    tiles = extent(spec.padded_shape, 1) * extent(spec.padded_shape, 2) // (TILE_SIZE * TILE_SIZE)
    if interleaved and blocks_employ_more(planner.card.cores, height, width, height, tiles):
        return "MultiCoreBlock"
    if not spec.is_sharded and width > half_limit(planner) // (2 * spec.dtype.tile_bytes):
        return "MultiCoreParallelizeColumn" if not config.is_sharded() and height == 1 else "SingleCore"
    return "MultiCore"


def _identical(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    shard = x.spec.shard
    tiles = (shard.shape[1] // TILE_SIZE) * (shard.shape[0] // TILE_SIZE)
    return [
        staging(tiles * slot.spec.dtype.tile_bytes, shard.grid, slot, name)
        for name, slot in (("input", x), ("output", out))
    ]


def _blocks(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    return block_buffers(planner, x, out, None, row_wise=True)


def _columns(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    tiles = x.spec.volume // (TILE_SIZE * TILE_SIZE)
    x_cores = largest_divisor(tiles, planner.card.grid[0])
    y_cores = largest_divisor(tiles, planner.card.grid[1], x_cores)
    count, _ = cores_and_share(x_cores * y_cores, tiles)
    return tile_pair(x, out, 2, num_cores_to_corerangeset(count, CoreCoord(x_cores, y_cores), row_wise=True))


def _sub_grid(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    assert grid is not None
    tiles = x.spec.volume // (TILE_SIZE * TILE_SIZE)
    return tile_pair(x, out, 2, first_cores(grid, largest_divisor(tiles, grid.num_cores())))


def _single(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    width = x.spec.physical[1]
    config = out.spec.memory_config
    if config.memory_layout in _ROW_CUTTING:
        width //= width // out.spec.shard.shape[1]
    limit = half_limit(planner) // (x.spec.dtype.tile_bytes + out.spec.dtype.tile_bytes)
    return tile_pair(x, out, tiles_a_block(width // TILE_SIZE, limit), SINGLE_CORE)


def _rows(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    spec = x.spec
    height, width = spec.physical
    if not spec.is_sharded:
        cores, share = split_blocks(planner.card, height // TILE_SIZE, None, row_wise=True)
        depth = (width // TILE_SIZE) * (1 if share == 1 else 2)
        return tile_pair(x, out, depth, cores)
    shard = spec.shard
    cores = workers_of(planner.card, spec)
    row, rows = shard.shape[1] // TILE_SIZE, shard.shape[0] // TILE_SIZE
    depth = row if rows == 1 else 2 * row
    streams = height % shard.shape[0] or width % shard.shape[1] or spec.memory_config.is_dram()
    source = (
        staging(depth * spec.dtype.tile_bytes, cores, name="input")
        if streams
        else staging(row * rows * spec.dtype.tile_bytes, cores, x, "input")
    )
    return [source, staging(depth * out.spec.dtype.tile_bytes, cores, name="output")]


_BUFFERS = {
    "MultiCoreInputAndOutputShardTypeAndShardSpecIdentical": _identical,
    "MultiCoreBlock": _blocks,
    "MultiCoreParallelizeColumn": _columns,
    "MultiCoreSubCoreGrids": _sub_grid,
    "SingleCore": _single,
    "MultiCore": _rows,
}


@op("untilize")
class Untilize(Relayout):
    def arguments(
        self,
        input_tensor: Tensor,
        *,
        memory_config: MemoryConfig | None = None,
        use_multicore: bool = True,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        return Call([input_tensor], memory_config=memory_config, use_multicore=use_multicore, grid=sub_core_grids)

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, **options: Any) -> list[Slot]:
        return [plan_untilize(planner, x, config=memory_config, **options)]
