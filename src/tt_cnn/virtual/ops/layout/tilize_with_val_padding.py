# SPDX-License-Identifier: Apache-2.0
"""tilize_with_val_padding and tilize_with_zero_padding: rows to tiles, with padding up to whole tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.capacity import pending_output, row_fits
from tt_cnn.virtual.ops.layout.relayout import Relayout, extent, padded_as, scratchpad, staging
from tt_cnn.virtual.ops.layout.squeezing import back_to, four_dims, to_four
from tt_cnn.virtual.ops.layout.tilize import (
    Manner,
    TilizeProgram,
    all_cores,
    block_buffers,
    blocks_employ_more,
    parts_of_rows,
    whole_rows,
)
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import HEIGHT, WIDTH, DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_TILIZABLE = (DataType.BFLOAT16, DataType.INT32, DataType.UINT32, DataType.FLOAT32, DataType.UINT16)


@dataclass(frozen=True, kw_only=True)
class TilizeWithValPaddingProgram(TilizeProgram):
    op: str = "TilizeWithValPadding"
    padded: Shape


def tiled_shape(shape: Shape) -> Shape:
    """The padded shape of a tensor in tiles."""
    dims = [1] * (2 - len(shape)) + list(shape)
    return Shape([*dims[:-2], round_up(dims[-2], TILE_SIZE), round_up(dims[-1], TILE_SIZE)])


def plan_tilize_with_padding(
    planner: Planner,
    x: Slot,
    padded: Shape,
    config: MemoryConfig | None,
    dtype: DataType | None = None,
    *,
    use_multicore: bool = True,
    grid: CoreRangeSet | None = None,
) -> Slot:
    spec = x.spec
    if spec.layout is Layout.TILE:
        return x
    target, out_dtype = config or spec.memory_config, dtype or spec.dtype
    if 0 in spec.physical:
        return planner.allocate(Spec(padded, out_dtype, Layout.TILE, target))
    pending = pending_output(planner, padded, target, out_dtype, Layout.TILE)
    tiles = extent(padded, 1) // TILE_SIZE
    fits = row_fits(planner, spec.dtype, out_dtype, tiles, pending, stages_rows=True)
    manner = Manner(fits, use_multicore, grid)
    four, four_padded = to_four(planner, x), four_dims(padded)
    target = config or four.spec.memory_config
    staged = spec.is_sharded and not fits and not _pads_in_shards(four.spec, four_padded, target, grid)
    way = _through_dram if staged else _dispatch
    return back_to(planner, way(planner, four, four_padded, target, out_dtype, manner), spec.shape)


def _through_dram(
    planner: Planner, x: Slot, padded: Shape, config: MemoryConfig, dtype: DataType, manner: Manner
) -> Slot:
    rows = plan_to_memory_config(planner, x, DRAM_MEMORY_CONFIG, None)
    tiles = _dispatch(planner, rows, padded, DRAM_MEMORY_CONFIG, dtype, manner)
    planner.free(*(s for s in [rows] if s.buffer != x.buffer))
    result = plan_to_memory_config(planner, tiles, config, None)
    planner.free(*(s for s in [tiles] if s.buffer != result.buffer))
    return result


def _pads_in_shards(spec: Spec, padded: Shape, config: MemoryConfig, grid: CoreRangeSet | None) -> bool:
    """Width shards get their missing rows on their own cores, where nothing but the height grows."""
    if not (spec.memory_config.is_l1() and config.is_l1()) or grid is not None:
        return False
    if spec.memory_config.memory_layout is not WIDTH or config.memory_layout is not WIDTH:
        return False
    have = tuple(spec.padded_shape)
    return all(i == len(have) - 2 or have[i] == padded[i] for i in range(len(have)))


def _validate(planner: Planner, spec: Spec, padded: Shape) -> None:
    fatal(spec.layout is Layout.ROW_MAJOR, "Can only tilize row major data")
    fatal(spec.dtype in _TILIZABLE, "Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors")
    pairs = (
        [(0, spec.shape[0], extent(padded, 1))]
        if len(spec.shape) == 1
        else [(i, have, padded[i] if i < len(padded) else 0) for i, have in enumerate(spec.shape)]
    )
    for i, have, want in pairs:
        fatal(
            have <= want,
            f"Output tensor shape {padded} must be greater than or equal to input shape {spec.shape} in each "
            f"dimension, but is smaller in dimension {i}",
        )
    fatal(
        extent(padded, 2) % TILE_SIZE == 0 and extent(padded, 1) % TILE_SIZE == 0,
        f"To be tilizable output tensor shape {padded} must be divisible by tile size (32, 32)",
    )
    layout = spec.memory_config.memory_layout
    if layout not in (HEIGHT, TensorMemoryLayout.INTERLEAVED):
        alignment = planner.card.dram_alignment if spec.memory_config.is_dram() else planner.card.l1_alignment
        fatal(
            spec.page_bytes % alignment == 0,
            f"Input row-major shard width {spec.shard.shape[1]} gives page size {spec.page_bytes} bytes, which must be "
            f"aligned to {planner.card.l1_alignment} bytes L1 SRAM buffer alignment requirement",
        )


def _output_spec(spec: Spec, padded: Shape, config: MemoryConfig, dtype: DataType, grid: CoreRangeSet | None) -> Spec:
    if _pads_in_shards(spec, padded, config, grid):
        shard = spec.shard
        rows = prod(tuple(padded)[:-1])
        config = MemoryConfig(
            WIDTH, config.buffer_type, ShardSpec(shard.grid, (rows, shard.shape[1]), shard.orientation)
        )
    return padded_as(spec.shape, dtype, Layout.TILE, config, padded)


def _dispatch(planner: Planner, x: Slot, padded: Shape, config: MemoryConfig, dtype: DataType, manner: Manner) -> Slot:
    spec = x.spec
    out = planner.allocate(_output_spec(spec, padded, config, dtype, manner.grid))
    _validate(planner, spec, padded)
    factory = _factory(planner, spec, padded, config, manner)
    buffers = _BUFFERS[factory](planner, x, out, manner.grid)
    program = TilizeWithValPaddingProgram(
        factory=f"TilizeWithValPadding{factory}Factory",
        cores=all_cores(buffers),
        buffers=tuple(buffers),
        padded=padded,
        memory_config=config,
        manner=manner,
    )
    planner.dispatch(program, [x], [out])
    return out


def _factory(planner: Planner, spec: Spec, padded: Shape, config: MemoryConfig, manner: Manner) -> str:
    grid = manner.grid
    if spec.is_sharded:
        return "MultiCoreSharded" if _pads_in_shards(spec, padded, config, grid) else "MultiCoreDefault"
    if not manner.fits:
        return "MultiCoreBlockInterleaved"
    if not manner.multicore:
        return "SingleCore"
    width, height = extent(padded, 1) // TILE_SIZE, extent(padded, 2) // TILE_SIZE
    area = grid.num_cores() if grid is not None else planner.card.cores
    rows = padded.volume() // extent(padded, 1) // TILE_SIZE
    tiles = extent(spec.padded_shape, 1) * extent(spec.padded_shape, 2) // (TILE_SIZE * TILE_SIZE)
    return "MultiCoreBlockInterleaved" if blocks_employ_more(area, rows, width, height, tiles) else "MultiCoreDefault"


def _in_shards(planner: Planner, x: Slot, out: Slot, grid: CoreRangeSet | None) -> list[CircularBuffer]:
    shard, cores = out.spec.shard, out.spec.shard.grid
    tiles = shard.shape[0] * shard.shape[1] // (TILE_SIZE * TILE_SIZE)
    padded = out.spec.padded_shape
    batches = out.spec.volume // (extent(padded, 2) * extent(padded, 1))
    return [
        staging(tiles // batches * 2 * x.spec.dtype.tile_bytes, cores, name="input"),
        staging(tiles * out.spec.dtype.tile_bytes, cores, out, "output"),
        scratchpad(x.spec.shard.shape[1] * x.spec.dtype.element_bytes, cores),
    ]


_BUFFERS = {
    "MultiCoreSharded": _in_shards,
    "MultiCoreDefault": whole_rows,
    "MultiCoreBlockInterleaved": block_buffers,
    "SingleCore": parts_of_rows,
}


@op("tilize_with_val_padding")
class TilizeWithValPadding(Relayout):
    def arguments(
        self,
        input_tensor: Tensor,
        output_tensor_shape: Sequence[int],
        pad_value: float,
        *,
        memory_config: MemoryConfig | None = None,
        dtype: DataType | None = None,
        use_multicore: bool = True,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        return Call(
            [input_tensor],
            padded=Shape(output_tensor_shape),
            pad_value=pad_value,
            memory_config=memory_config,
            dtype=dtype,
            use_multicore=use_multicore,
            grid=sub_core_grids,
        )

    def plan(
        self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, pad_value: float, **options: Any
    ) -> list[Slot]:
        return [plan_tilize_with_padding(planner, x, config=memory_config, **options)]


@op("tilize_with_zero_padding")
class TilizeWithZeroPadding(TilizeWithValPadding):
    def arguments(  # type: ignore[override]
        self,
        input_tensor: Tensor,
        *,
        memory_config: MemoryConfig | None = None,
        output_dtype: DataType | None = None,
        use_multicore: bool = True,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        return Call(
            [input_tensor],
            padded=tiled_shape(input_tensor.padded_shape),
            pad_value=0.0,
            memory_config=memory_config,
            dtype=output_dtype,
            use_multicore=use_multicore,
            grid=sub_core_grids,
        )
