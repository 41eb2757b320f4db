# SPDX-License-Identifier: Apache-2.0
"""tilize: rows to tiles, for tensors whose shape is a whole number of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.capacity import block_width_limit, half_limit, pending_output, row_fits
from tt_cnn.virtual.ops.layout.relayout import Relayout, extent, padded_as, scratchpad, staging
from tt_cnn.virtual.ops.layout.squeezing import back_to, to_four
from tt_cnn.virtual.ops.layout.tile_time import tilize_cycles
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.work_split import (
    SINGLE_CORE,
    block_sets,
    cores_and_share,
    grid_cores,
    split_blocks,
    square_blocks,
)
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, Arch, DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Tile, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_TILIZABLE = (
    DataType.BFLOAT16,
    DataType.FLOAT32,
    DataType.UINT32,
    DataType.INT32,
    DataType.UINT16,
    DataType.UINT8,
)
WIDE_ROW = 32
"""Rows of more tiles than this may be cut into square blocks, where that employs more cores."""


@dataclass(frozen=True)
class Manner:
    """How rows become tiles, or tiles rows: what L1 allows and what the call asks for."""

    fits: bool
    """A row of tiles fits into L1."""
    multicore: bool = True
    grid: CoreRangeSet | None = None
    """The cores that the call leaves to the op."""
    low_perf: bool = False


@dataclass(frozen=True, kw_only=True)
class TilizeProgram(Program):
    """Rows to tiles: within shards, a row of tiles at a time, or in blocks of a few tiles' width."""

    op: str = "Tilize"
    memory_config: MemoryConfig
    manner: Manner

    def time(self, step: Step, figures: Figures) -> Cycles:
        return tilize_cycles(self, step, figures)


def plan_tilize(
    planner: Planner,
    x: Slot,
    config: MemoryConfig | None,
    dtype: DataType | None,
    *,
    use_multicore: bool = True,
    use_low_perf: bool = False,
    grid: CoreRangeSet | None = None,
) -> Slot:
    spec = x.spec
    target, out_dtype = config or spec.memory_config, dtype or spec.dtype
    if 0 in spec.physical:
        return planner.allocate(Spec(spec.shape, out_dtype, Layout.TILE, target))
    pending = pending_output(planner, spec.padded_shape, target, out_dtype, Layout.TILE)
    tiles = spec.physical[1] // TILE_SIZE
    fits = row_fits(planner, spec.dtype, out_dtype, tiles, pending, stages_rows=True)
    manner = Manner(fits, use_multicore, grid, use_low_perf)
    four = to_four(planner, x)
    target = config or four.spec.memory_config
    way = _through_dram if spec.is_sharded and not fits else _dispatch
    return back_to(planner, way(planner, four, target, out_dtype, manner), spec.shape)


def _through_dram(planner: Planner, x: Slot, config: MemoryConfig, dtype: DataType, manner: Manner) -> Slot:
    """Rows of shards too wide for the L1 of a core are tilized in blocks, from DRAM to DRAM."""
    rows = plan_to_memory_config(planner, x, DRAM_MEMORY_CONFIG, None)
    tiles = _dispatch(planner, rows, DRAM_MEMORY_CONFIG, dtype, manner)
    result = plan_to_memory_config(planner, tiles, config, None)
    planner.free(*(slot for slot in (tiles, rows) if slot.buffer not in (x.buffer, result.buffer)))
    return result


def _validate(planner: Planner, spec: Spec, use_multicore: bool) -> None:
    width, height = extent(spec.padded_shape, 1), extent(spec.padded_shape, 2)
    fatal(spec.layout is Layout.ROW_MAJOR, "Can only tilize row major data")
    fatal(width % TILE_SIZE == 0, f"Input tensor width ({width}) must be divisible by tile width (32)")
    fatal(height % TILE_SIZE == 0, f"Input tensor height ({height}) must be divisible by tile height (32)")
    fatal(spec.dtype in _TILIZABLE, "data type must be bfloat16, float32, uint32, int32, uint16, uint8, or fp8_e4m3")
    if spec.is_sharded:
        fatal(use_multicore, "Multicore must be enabled for sharded input")
        alignment = planner.card.dram_alignment if spec.memory_config.is_dram() else planner.card.l1_alignment
        fatal(
            spec.page_bytes % alignment == 0,
            f"Input row-major shard width {spec.shard.shape[1]} bytes gives page size {spec.page_bytes} bytes, which "
            f"must be aligned to {planner.card.l1_alignment} bytes L1 SRAM buffer alignment requirement",
        )


def tilizes_in_shards(planner: Planner, spec: Spec, config: MemoryConfig, grid: CoreRangeSet | None) -> bool:
    """Whether each core can tilize its own shard in place of a program that reads rows from anywhere."""
    layout = spec.memory_config.memory_layout
    if not (spec.is_sharded and spec.memory_config.is_l1() and config.is_l1()) or grid is not None:
        return False
    shard = spec.shard
    to = config.memory_layout
    if layout is HEIGHT:
        whole_tiles = shard.shape[0] % TILE_SIZE == 0 and shard.shape[1] % TILE_SIZE == 0
        allowed = shard.row_wise if to is TensorMemoryLayout.INTERLEAVED else to is HEIGHT
    elif layout in (WIDTH, BLOCK):
        allowed = to is layout
        out = config.shard_spec
        whole_tiles = allowed and out is not None and not (out.shape[0] % TILE_SIZE or out.shape[1] % TILE_SIZE)
    else:
        return False
    x, y = planner.card.grid
    end = shard.grid.bounding_box().end
    return whole_tiles and allowed and end.x < x and end.y < y


def _output_spec(
    planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType, grid: CoreRangeSet | None
) -> Spec:
    if config.is_sharded() and tilizes_in_shards(planner, spec, config, grid):
        own = MemoryConfig(spec.memory_config.memory_layout, config.buffer_type, spec.memory_config.shard_spec)
        return padded_as(spec.shape, dtype, Layout.TILE, own, spec.padded_shape)
    return Spec(spec.shape, dtype, Layout.TILE, config)


def _dispatch(planner: Planner, x: Slot, config: MemoryConfig, dtype: DataType, manner: Manner) -> Slot:
    spec = x.spec
    out = planner.allocate(_output_spec(planner, spec, config, dtype, manner.grid))
    _validate(planner, spec, manner.multicore)
    factory = _factory(planner, spec, config, manner)
    buffers = _BUFFERS[factory](planner, x, out, manner)
    program = TilizeProgram(
        factory=f"Tilize{factory}ProgramFactory",
        cores=all_cores(buffers),
        buffers=tuple(buffers),
        memory_config=config,
        manner=manner,
    )
    planner.dispatch(program, [x], [out])
    return out


def all_cores(buffers: list[CircularBuffer]) -> CoreRangeSet:
    first = buffers[0].cores
    rest = [b.cores for b in buffers if b.cores != first]
    for cores in rest:
        first = first.merge(cores)
    return first


def _factory(planner: Planner, spec: Spec, config: MemoryConfig, manner: Manner) -> str:
    grid = manner.grid
    if planner.card.arch is Arch.BLACKHOLE and spec.dtype is DataType.UINT8 and not spec.is_sharded:
        return "MultiCoreBlock"
    if manner.low_perf or not manner.multicore or (grid is not None and grid.num_cores() < 2):
        return "SingleCore"
    if spec.is_sharded:
        return "MultiCoreSharded" if tilizes_in_shards(planner, spec, config, grid) else "MultiCoreDefault"
    if not manner.fits:
        return "MultiCoreBlock"
    width, height = extent(spec.padded_shape, 1) // TILE_SIZE, extent(spec.padded_shape, 2) // TILE_SIZE
    area = grid.num_cores() if grid is not None else planner.card.cores
    rows = spec.volume // (TILE_SIZE * TILE_SIZE) // width
    return "MultiCoreBlock" if blocks_employ_more(area, rows, width, height) else "MultiCoreDefault"


def blocks_employ_more(area: int, rows: int, width: int, height: int, tiles: int | None = None) -> bool:
    """Wide matrices employ more cores when they are cut into squares than when distributed in rows of tiles."""
    if width <= WIDE_ROW or not (height > WIDE_ROW or width > height):
        return False
    return cores_and_share(area, rows)[0] < square_blocks(area, width, height, tiles).cores


def _sharded(planner: Planner, x: Slot, out: Slot, manner: Manner) -> list[CircularBuffer]:
    shard = x.spec.shard
    tiles = shard.shape[0] * shard.shape[1] // (TILE_SIZE * TILE_SIZE)
    source = staging(tiles * x.spec.dtype.tile_bytes, shard.grid, x, "input")
    if out.spec.is_sharded:
        return [source, staging(tiles * out.spec.dtype.tile_bytes, shard.grid, out, "output")]
    row = shard.shape[1] // TILE_SIZE
    return [source, staging(row * out.spec.dtype.tile_bytes, shard.grid, name="output")]


def _rows(planner: Planner, x: Slot, out: Slot, manner: Manner) -> list[CircularBuffer]:
    row = div_up(extent(x.spec.shape, 1), TILE_SIZE)
    cores, _ = split_blocks(planner.card, div_up(out.spec.num_pages, row), manner.grid)
    return tile_pair(x, out, row, cores)


def tile_pair(x: Slot, out: Slot, tiles: int, cores: CoreRangeSet, suffix: str = "") -> list[CircularBuffer]:
    """As many tiles of the input as of the output."""
    return [
        staging(tiles * slot.spec.dtype.tile_bytes, cores, name=name + suffix)
        for name, slot in (("input", x), ("output", out))
    ]


def whole_rows(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    """The buffers of programs that pad or unpad a row of tiles at a time."""
    rows, width = (out if out.spec.layout is Layout.TILE else x).spec.physical
    cores, _ = split_blocks(planner.card, rows // TILE_SIZE, grid)
    return tile_pair(x, out, width // TILE_SIZE, cores)


def parts_of_rows(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    """The buffers of those that do so on one core, as much of a row at a time as fits."""
    tiles, rows = (out.spec, x.spec) if out.spec.layout is Layout.TILE else (x.spec, out.spec)
    element = rows.dtype.element_bytes
    limit = (half_limit(planner) - 32) // (element * TILE_SIZE * 2 + element) // TILE_SIZE
    return tile_pair(x, out, tiles_a_block(tiles.physical[1] // TILE_SIZE, limit), one_core(planner, grid))


def block_buffers(
    planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None, row_wise: bool = False
) -> list[CircularBuffer]:
    """The buffers of programs that work in square blocks: a pair (and a staged row) for each width of blocks."""
    tilizes = out.spec.layout is Layout.TILE
    shape = (out if tilizes else x).spec.padded_shape
    limit = block_width_limit(planner, x.spec.dtype, out.spec.dtype, stages_rows=tilizes)
    width, height = extent(shape, 1) // TILE_SIZE, extent(shape, 2) // TILE_SIZE
    buffers = []
    for i, blocks in enumerate(block_sets(planner.card, width, height, limit, grid, row_wise)):
        suffix = f" {i + 1}" if i else ""
        buffers += tile_pair(x, out, blocks.tiles, blocks.cores, suffix)
        if tilizes:
            row = x.spec.dtype.tile_bytes // TILE_SIZE * blocks.tiles
            buffers.append(scratchpad(row + 2 * planner.card.dram_alignment, blocks.cores, "staged row" + suffix))
    return buffers


def _blocks(planner: Planner, x: Slot, out: Slot, manner: Manner) -> list[CircularBuffer]:
    return block_buffers(planner, x, out, manner.grid)


def one_core(planner: Planner, grid: CoreRangeSet | None) -> CoreRangeSet:
    if grid is None:
        return SINGLE_CORE
    first = grid_cores(planner.card, grid)[0]
    return CoreRangeSet([CoreRange(first, first)])


def tiles_a_block(tiles: int, limit: int) -> int:
    """The whole row if it fits, else the largest part that divides it."""
    if tiles <= limit:
        return tiles
    return next((n for n in range(limit, 0, -1) if tiles % n == 0), 1)


def _single(planner: Planner, x: Slot, out: Slot, manner: Manner) -> list[CircularBuffer]:
    tiles = 1
    if not manner.low_perf:
        limit = half_limit(planner) // (x.spec.dtype.tile_bytes + out.spec.dtype.tile_bytes)
        tiles = tiles_a_block(x.spec.physical[1] // TILE_SIZE, limit)
    return tile_pair(x, out, tiles, one_core(planner, manner.grid))


_BUFFERS = {"MultiCoreSharded": _sharded, "MultiCoreDefault": _rows, "MultiCoreBlock": _blocks, "SingleCore": _single}


@op("tilize")
class Tilize(Relayout):
    def arguments(
        self,
        input_tensor: Tensor,
        *,
        memory_config: MemoryConfig | None = None,
        dtype: DataType | None = None,
        use_multicore: bool = True,
        use_low_perf: bool = False,
        tile: Tile | None = None,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        if not (tile is None or isinstance(tile, Tile)):  # there are no others than those of 32x32
            raise TypeError(f"tile is {tile!r}; it must be a ttnn.Tile or None")
        return Call(
            [input_tensor],
            memory_config=memory_config,
            dtype=dtype,
            use_multicore=use_multicore,
            use_low_perf=use_low_perf,
            grid=sub_core_grids,
        )

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, **options: Any) -> list[Slot]:
        return [plan_tilize(planner, x, config=memory_config, **options)]
