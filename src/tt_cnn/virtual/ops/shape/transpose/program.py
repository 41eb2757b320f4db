# SPDX-License-Identifier: Apache-2.0
"""The transpose device operation: two of the dimensions N, C, H, W of a tensor exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import padded_as, staging
from tt_cnn.virtual.ops.layout.tile_time import copy_cycles
from tt_cnn.virtual.ops.layout.time import PROCESSORS
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.shape.gather_time import exchanged_rows, gathering_cycles
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, aligned_page, borrowed, circular, cores_for
from tt_cnn.virtual.ops.shape.shards import lacks_shards, shards_after
from tt_cnn.virtual.ops.shape.time import (
    all_rows_cycles,
    blocks_cycles,
    rows_of_faces_cycles,
    turned_tiles_cycles,
)
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import BLOCK, BufferType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

FACE_ELEMENTS = 256
_ROW_SHARDS = "TransposeHCShardedProgramFactory"
EXCHANGED = {"CN": (0, 1), "HC": (1, 2), "WH": (2, 3)}


@dataclass(frozen=True, kw_only=True)
class TransposeProgram(MovingProgram):
    op: str = "Transpose"
    dim: str
    """The dimensions that are exchanged: CN, HC or WH."""
    pad_value: float

    def time(self, step: Step, figures: Figures) -> Cycles:
        spec = step.inputs[0].spec
        rows = spec.layout is Layout.ROW_MAJOR
        n, c, h, w = spec.shape
        if self.dim == "CN":
            return copy_cycles(step, figures)
        if self.factory == _ROW_SHARDS:
            height = spec.shard.shape[0]
            gathered = exchanged_rows((n, c, h, w), (height, step.outputs[0].spec.shard.shape[0]))
            processors = PROCESSORS if _shares_reading(height, h, c) else 1
            return gathering_cycles(figures, step, gathered, joined=False, processors=processors)
        if self.dim == "HC":
            return all_rows_cycles(step, figures) if rows else rows_of_faces_cycles(step, figures, h, c)
        if not rows:
            return turned_tiles_cycles(step, figures)
        return blocks_cycles(step, figures, n * c * div_up(h, TILE_SIZE) * div_up(w, TILE_SIZE), h, w)


def _shares_reading(shard_height: int, height: int, channels: int) -> bool:
    """Whether rows lie so regularly that reader and writer walk through them together, half of them each."""

    def fits(a: int, b: int) -> bool:
        return a % b == 0 or b % a == 0

    regular = fits(shard_height, height) and fits(shard_height, channels) and fits(channels, height)
    return regular and shard_height <= channels * height


def _native_side(config: MemoryConfig, layout: Layout) -> bool:
    """One side of a transpose that stays on its cores: L1 shards that are not blocks, row-major ones of whole tiles."""
    if not config.is_sharded() or config.buffer_type is BufferType.DRAM or config.memory_layout is BLOCK:
        return False
    shard = config.shard_spec
    return not (layout is Layout.ROW_MAJOR and shard is not None and prod(shard.shape) % TILE_SIZE**2)


def _evenly_sharded(spec: Spec) -> bool:
    shard = spec.memory_config.shard_spec
    if shard is None or len(spec.padded_shape) < 2:
        return False
    rows = prod(tuple(spec.padded_shape)[:-1])
    return rows % shard.shape[0] == 0 and spec.padded_shape[-1] % shard.shape[1] == 0


def stays_on_cores(spec: Spec, output: MemoryConfig | None = None) -> bool:
    """TT-NN: `is_native_transpose_sharding`."""
    if not _native_side(spec.memory_config, spec.layout) or not _evenly_sharded(spec):
        return False
    if output is None:
        return True
    if not _native_side(output, spec.layout):
        return False
    return output.shard_spec is None or output.shard_spec.grid == spec.shard.grid


def plan_transpose_device(planner: Planner, x: Slot, dim: str, config: MemoryConfig, pad_value: float = 0.0) -> Slot:
    spec = x.spec
    logical, padded = _shapes(spec, dim)
    if lacks_shards(config):
        config = config.with_shard_spec(shards_after(planner.card, spec, padded, config.memory_layout))
    if config.shard_spec is not None:
        out_spec = Spec(logical, spec.dtype, spec.layout, config)
    else:
        out_spec = padded_as(logical, spec.dtype, spec.layout, config, padded)
    output = planner.allocate(out_spec)
    fatal(
        dim == "HC" or pad_value == 0.0,
        f"Non-zero padding {pad_value:g} is not supported for any transpose other than HC.",
    )
    factory, (cores, buffers) = _program(planner, x, output, dim, config, padded)
    program = TransposeProgram(factory=factory, cores=cores, buffers=tuple(buffers), dim=dim, pad_value=pad_value)
    planner.dispatch(program, [x], [output])
    return output


def _shapes(spec: Spec, dim: str) -> tuple[Shape, Shape]:
    logical, padded = list(spec.shape), list(spec.padded_shape)
    a, b = EXCHANGED[dim]
    logical[a], logical[b] = logical[b], logical[a]
    if dim == "HC" and spec.layout is Layout.TILE:
        padded[1], padded[2] = logical[1], round_up(logical[2], TILE_SIZE)
    else:
        padded[a], padded[b] = padded[b], padded[a]
    return Shape(logical), Shape(padded)


def _program(
    planner: Planner, x: Slot, output: Slot, dim: str, config: MemoryConfig, padded: Shape
) -> tuple[str, CoresAndBuffers]:
    spec = x.spec
    row_major = spec.layout is Layout.ROW_MAJOR
    native = stays_on_cores(spec, config)
    whole_rows_in = native and spec.shard.shape[1] == spec.padded_shape[-1]
    matrices_in = whole_rows_in and spec.shard.shape[0] % spec.padded_shape[-2] == 0
    out_shard = config.shard_spec
    whole_rows_out = native and out_shard is not None and out_shard.shape[1] == padded[-1]
    columns_out = native and out_shard is not None and out_shard.shape[0] == padded[-2]
    matrices_out = whole_rows_out and out_shard is not None and out_shard.shape[0] % padded[-2] == 0
    if dim == "WH":
        if row_major:
            if matrices_in and matrices_out:
                return "TransposeWHShardedRMProgramFactory", _matrices_row_major(x, output)
        elif (matrices_in and matrices_out) or (
            spec.padded_shape[0] == spec.padded_shape[1] == 1 and whole_rows_in and columns_out
        ):
            return "TransposeWHShardedProgramFactory", _tiled_shards(planner, x, output)
        return "TransposeWHProgramFactory", _matrices(planner, spec)
    if dim == "HC":
        if whole_rows_in and whole_rows_out and row_major:
            return _ROW_SHARDS, _row_shards(x, output)
        if row_major:
            return "TransposeHCRMProgramFactory", _rows(planner, spec, output.spec)
        return "TransposeHCTiledInterleavedProgramFactory", _tiled_rows(planner, spec, output.spec)
    return "TransposeCNProgramFactory", _pages(planner, spec)


def _pages(planner: Planner, spec: Spec) -> CoresAndBuffers:
    if spec.layout is Layout.ROW_MAJOR:
        pages, page = spec.physical[0], spec.padded_shape[-1] * spec.dtype.element_bytes
    else:
        pages, page = spec.volume // TILE_SIZE**2, spec.dtype.tile_bytes
    cores = cores_for(planner.card, pages)
    return cores, [staging(2 * page, cores, name="pages")]


def _rows(planner: Planner, spec: Spec, out: Spec) -> CoresAndBuffers:
    """A core holds all of its rows at once."""
    card = planner.card
    cores, share = split_work(card, spec.logical_2d[0])
    page = max(aligned_page(card, spec), aligned_page(card, out))
    return cores, [staging(share * max(spec.shape[-1] * spec.dtype.element_bytes, page), cores, name="rows")]


def _tiled_rows(planner: Planner, spec: Spec, out: Spec) -> CoresAndBuffers:
    tiles, made = spec.volume // TILE_SIZE**2, out.volume // TILE_SIZE**2
    moving = cores_for(planner.card, tiles)
    padding = cores_for(planner.card, made // (out.padded_shape[-2] // TILE_SIZE))
    cores = moving if moving.num_cores() > padding.num_cores() else padding
    buffers = [staging(2 * spec.dtype.tile_bytes, cores, name="tiles")]
    if spec.shape[1] % TILE_SIZE:
        element = 1 if spec.dtype.is_block_float else spec.dtype.element_bytes
        buffers.append(staging(FACE_ELEMENTS * element, cores, name="padding"))
    return cores, buffers


def _row_shards(x: Slot, output: Slot) -> CoresAndBuffers:
    shard = x.spec.shard
    stick = x.spec.shape[-1] * x.spec.dtype.element_bytes
    slots = (("input", 0, x), ("output", 16, output))
    return shard.grid, [circular(name, i, stick, shard.shape[0], shard.grid, slot) for name, i, slot in slots]


def _matrices(planner: Planner, spec: Spec) -> CoresAndBuffers:
    tile = spec.dtype.tile_bytes
    if spec.layout is Layout.TILE:
        cores = cores_for(planner.card, spec.volume // TILE_SIZE**2)
        return cores, [staging(2 * tile, cores, name=name) for name in ("input", "output")]
    n, c, h, w = spec.shape
    cores = cores_for(planner.card, n * c)
    high, wide = div_up(h, TILE_SIZE), div_up(w, TILE_SIZE)
    sizes = {"input": 2 * wide, "output": 2 * high, "tiles": high * wide}
    return cores, [staging(count * tile, cores, name=name) for name, count in sizes.items()]


def _tiled_shards(planner: Planner, x: Slot, output: Slot) -> CoresAndBuffers:
    tiles = prod(x.spec.shard.shape) // TILE_SIZE**2
    tile = x.spec.dtype.tile_bytes
    return planner.grid, [
        borrowed(planner, "in0", tile, tiles, planner.grid, x, "input"),
        borrowed(planner, "out", tile, tiles, planner.grid, output, "output"),
    ]


def _matrices_row_major(x: Slot, output: Slot) -> CoresAndBuffers:
    spec = x.spec
    h, w = spec.shape[-2], spec.shape[-1]
    rows, cores = spec.shard.shape[0], spec.shard.grid
    tile = spec.dtype.tile_bytes
    stick = w * spec.dtype.element_bytes
    high, wide = div_up(h, TILE_SIZE), div_up(w, TILE_SIZE)
    buffers = [
        circular("input", 0, stick, rows, cores, x),
        CircularBuffer(stick * rows, cores, alias=output, name="output"),
        CircularBuffer(2 * wide * tile, cores, name="input rows"),
        CircularBuffer(high * wide * tile, cores, name="tiles"),
    ]
    if high > 8:
        buffers += [
            CircularBuffer(high * tile, cores, name="turned tiles"),
            CircularBuffer(2 * high * tile, cores, name="output rows"),
        ]
    return cores, buffers
