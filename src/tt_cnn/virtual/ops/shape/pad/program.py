# SPDX-License-Identifier: Apache-2.0
"""The pad device operation: a tensor in a larger one, the rest filled with a value."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.capacity import half_limit
from tt_cnn.virtual.ops.layout.moving import MovingPagesProgram
from tt_cnn.virtual.ops.layout.relayout import scratchpad, staging
from tt_cnn.virtual.ops.layout.work_split import SINGLE_CORE
from tt_cnn.virtual.ops.shape.gather_time import boxed_rows, gathering_cycles
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, aligned_page, alignment, borrowed, workers_for
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import HEIGHT, BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_READ = 2048
_ROWS_IN_FLIGHT = 16
"""Reads of about 2 KB that reader and writer may be apart."""
_HIGHER_SHARDS = "PadRmShardedHeightOnlyProgramFactory"
_DTYPES = (DataType.FLOAT32, DataType.BFLOAT16, DataType.INT32, DataType.UINT32, DataType.UINT16)


@dataclass(frozen=True, kw_only=True)
class PadProgram(MovingPagesProgram):
    op: str = "Pad"
    start: tuple[int, ...]
    """Where the tensor begins in the padded one."""
    value: float

    def time(self, step: Step, figures: Figures) -> Cycles:
        """Page after page; rows in shards that get more of them from core to core."""
        if self.factory != _HIGHER_SHARDS:
            return super().time(step, figures)
        source, output = step.inputs[0].spec, step.outputs[0].spec
        before = tuple(-begin for begin in self.start)
        heights = source.shard.shape[0], output.shard.shape[0]
        rows = boxed_rows(tuple(source.shape), tuple(output.shape), before, (1,) * len(before), heights)
        return gathering_cycles(figures, step, rows, joined=True, processors=1)


def plan_pad_device(
    planner: Planner,
    x: Slot,
    shape: Shape,
    start: tuple[int, ...],
    value: float,
    config: MemoryConfig,
    multicore: bool = True,
) -> Slot:
    spec = x.spec
    output = planner.allocate(Spec(shape, spec.dtype, spec.layout, config))
    _validate(planner, spec, shape, start, config)
    factory, (cores, buffers) = _program(planner, x, output, shape, start, config, multicore)
    program = PadProgram(factory=factory, cores=cores, buffers=tuple(buffers), start=start, value=value)
    constants = [planner.allocate(_VALUES)] if factory == _ONE_CORE_ROWS else []
    planner.dispatch(program, [x], [output])
    planner.free(*constants)
    return output


_ONE_CORE_ROWS = "PadRmReaderWriterProgramFactory"
_VALUES = Spec(Shape([1, 1, 1, 32]), DataType.BFLOAT16, Layout.ROW_MAJOR, MemoryConfig(buffer_type=BufferType.L1))
"""The value to pad with, for the program on one core; the real library keeps it while the program is cached."""


def _validate(planner: Planner, spec: Spec, shape: Shape, start: tuple[int, ...], config: MemoryConfig) -> None:
    if spec.layout is Layout.TILE:
        fatal(not any(start), "On device padding only supports padding at end of dims")
    for extent, begin, end in zip(spec.shape, start, shape, strict=True):
        fatal(extent + begin <= end, "Output size cannot fit input with offset")
    if spec.layout is Layout.TILE:
        for back in (2, 1):
            fatal(shape[-back] % TILE_SIZE == 0, "Can only pad tilized tensor with full tiles")
        fatal(
            spec.dtype in (*_DTYPES, DataType.BFLOAT8_B),
            "Cannot pad tilized tensor with specified format",
        )
    else:
        fatal(spec.dtype in _DTYPES, "Cannot pad RM tensor with specified format")
    word = planner.card.l1_alignment
    if spec.is_sharded:
        fatal(
            spec.page_bytes == aligned_page(planner.card, spec),
            f"Input row-major shard width {spec.shard.shape[1]} gives page size {spec.page_bytes} bytes, which must be "
            f"aligned to {word} bytes",
        )
    if config.shard_spec is not None:
        width = config.shard_spec.shape[1]
        page = width * (1 if spec.dtype.is_block_float else spec.dtype.element_bytes)
        fatal(
            page % word == 0,
            f"Output row-major shard width {width} gives page size {page} bytes, which must be aligned to {word} bytes",
        )


def _program(
    planner: Planner,
    x: Slot,
    output: Slot,
    shape: Shape,
    start: tuple[int, ...],
    config: MemoryConfig,
    multicore: bool,
) -> tuple[str, CoresAndBuffers]:
    spec = x.spec
    if spec.layout is Layout.TILE:
        if multicore:
            return "PadTileMulticoreProgramFactory", _tiles(planner, output.spec)
        return "PadTileCoreProgramFactory", _one_core_tiles(output.spec)
    if _stays_on_cores(spec, shape, config):
        same_rows = prod(tuple(spec.shape)[:-1]) == prod(tuple(shape)[:-1])
        if spec.shape[-1] != shape[-1] and same_rows:
            return "PadRmShardedWidthOnlyProgramFactory", _wider_shards(planner, x, output)
        if spec.shape[-1] == shape[-1]:
            return _HIGHER_SHARDS, _higher_shards(planner, x, output)
    if spec.is_sharded or multicore:
        return "PadRmReaderWriterMultiCoreDefaultProgramFactory", _rows(planner, spec, shape, start)
    return _ONE_CORE_ROWS, _one_core_rows(planner, spec, shape)


def _stays_on_cores(spec: Spec, shape: Shape, config: MemoryConfig) -> bool:
    shard = config.shard_spec
    return (
        spec.memory_config.memory_layout is HEIGHT
        and spec.memory_config.is_l1()
        and config.memory_layout is HEIGHT
        and shard is not None
        and shape[-1] == shard.shape[1]
        and shard.shape[0] >= spec.shard.shape[0]
    )


def _tiles(planner: Planner, out: Spec) -> CoresAndBuffers:
    cores = workers_for(planner, out.volume // TILE_SIZE**2)
    return cores, [staging(2 * out.page_bytes, cores, name="tiles"), scratchpad(out.page_bytes, cores)]


def _one_core_tiles(out: Spec) -> CoresAndBuffers:
    tile = out.dtype.tile_bytes
    return SINGLE_CORE, [staging(2 * tile, SINGLE_CORE, name="tiles"), scratchpad(tile, SINGLE_CORE)]


def _rows(planner: Planner, spec: Spec, shape: Shape, start: tuple[int, ...]) -> CoresAndBuffers:
    """Row by row on all cores; rows that do not start or end on memory words go through a second scratchpad."""
    card = planner.card
    row = shape[-1] * spec.dtype.element_bytes
    stick, wide = round_up(row, card.l1_alignment), round_up(row, card.dram_alignment)
    cores = workers_for(planner, prod(tuple(shape)[:-1]))
    count = max(div_up(_READ, stick), 1)
    room = half_limit(planner)
    fatal(
        count * stick <= room,
        f"ttnn.pad: padded row of {stick} B does not fit in the per-core L1 budget ({room} B)",
    )
    pads = ["scratch", "unaligned row"] if start[-1] != 0 or stick % card.dram_alignment else ["scratch"]
    rows = staging(_ROWS_IN_FLIGHT * count * stick, cores, name="rows")
    return cores, [rows, *(scratchpad(wide, cores, name) for name in pads)]


def _one_core_rows(planner: Planner, spec: Spec, shape: Shape) -> CoresAndBuffers:
    """One core writes all rows."""
    element = spec.dtype.element_bytes
    page = round_up(shape[-1] * element, max(alignment(planner.card, spec), TILE_SIZE))
    room = half_limit(planner)
    fatal(page <= room, f"ttnn.pad: padded row of {page} B does not fit in the per-core L1 budget ({room} B)")
    return SINGLE_CORE, [staging(min(max(room // page, 1), 16) * page, SINGLE_CORE, name="rows")]


def _wider_shards(planner: Planner, x: Slot, output: Slot) -> CoresAndBuffers:
    spec, out = x.spec, output.spec
    element = spec.dtype.element_bytes
    rows = prod(tuple(spec.shape)[:-1])
    cores = out.cores_with_data
    held = min(spec.shard.shape[0], rows)
    return cores, [
        borrowed(planner, "in_shard", spec.shape[-1] * element, held, cores, x, "input"),
        borrowed(planner, "out_shard", out.shape[-1] * element, out.shard.shape[0], cores, output, "output"),
        scratchpad(out.shape[-1] * element, cores),
    ]


def _higher_shards(planner: Planner, x: Slot, output: Slot) -> CoresAndBuffers:
    spec, out = x.spec, output.spec
    stick = spec.shape[-1] * spec.dtype.element_bytes
    cores = out.shard.grid
    held = min(spec.shard.shape[0], prod(tuple(spec.shape)[:-1]))
    return cores, [
        borrowed(planner, "in_shard", stick, held, cores, x, "input"),
        borrowed(planner, "out_shard", stick, out.shard.shape[0], cores, output, "output"),
        staging(stick, cores, name="padded row"),
    ]
