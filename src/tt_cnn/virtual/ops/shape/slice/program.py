# SPDX-License-Identifier: Apache-2.0
"""The slice device operation: a box of a tensor, with steps or without."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal_moves import IdealMove
from tt_cnn.virtual.cost.network import in_l1_shards
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingPagesProgram
from tt_cnn.virtual.ops.layout.relayout import scratchpad, staging
from tt_cnn.virtual.ops.layout.time import one_by_one_cycles
from tt_cnn.virtual.ops.shape.gather_time import boxed_rows, gathering_cycles
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, aligned_page, alignment, borrowed, workers_for
from tt_cnn.virtual.ops.shape.shards import derived, lacks_shards, rescaled, tile_sized
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

MAX_READ = 4096
CHUNK = 8192
"""Bytes of a part of a row, where whole rows do not fit."""
_SHARDED_ROWS = "SliceRmShardedProgramFactory"


@dataclass(frozen=True)
class Box:
    """Where a slice begins and ends, and its steps, in each dimension."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def stepped(self) -> bool:
        return any(s != 1 for s in self.steps)

    @property
    def shape(self) -> Shape:
        return Shape([max(-((b - e) // s), 0) for b, e, s in zip(self.begins, self.ends, self.steps, strict=True)])


@lru_cache(maxsize=1024)
def unevenness(box: Box, padded: tuple[int, ...], banks: int) -> float:
    """Tiles of the box in the fullest bank, over those of a bank on average.

    Tiles follow one another from bank to bank, and a box takes the same part of every row.
    """
    *outer, rows, columns = padded
    begins, ends = box.begins, box.ends
    places = np.zeros(1, dtype=np.int64)
    extents = [*outer, rows // TILE_SIZE]
    spans = [*zip(begins[:-2], ends[:-2], strict=True), (begins[-2] // TILE_SIZE, div_up(ends[-2], TILE_SIZE))]
    for extent, (begin, end) in zip(extents, spans, strict=True):
        places = (places[:, None] * extent + np.arange(begin, end)).reshape(-1)
    first, width = begins[-1] // TILE_SIZE, div_up(ends[-1], TILE_SIZE) - begins[-1] // TILE_SIZE
    starts = np.bincount((places * (columns // TILE_SIZE) + first) % banks, minlength=banks)
    counts = width // banks * places.size + sum(np.roll(starts, i) for i in range(width % banks))
    return float(np.max(counts) * banks / (places.size * width)) if places.size * width > banks else 1.0


@dataclass(frozen=True, kw_only=True)
class SliceProgram(MovingPagesProgram):
    op: str = "Slice"
    box: Box
    memory_config: MemoryConfig

    def time(self, step: Step, figures: Figures) -> Cycles:
        """Page by page, with a step of the indices of all dimensions after each; rows of shards from core to core."""
        source, output = step.inputs[0].spec, step.outputs[0].spec
        if self.factory == _SHARDED_ROWS:
            heights = source.shard.shape[0], output.shard.shape[0]
            box = self.box
            rows = boxed_rows(tuple(source.shape), tuple(output.shape), box.begins, box.steps, heights)
            whole = source.page_bytes == output.page_bytes
            return gathering_cycles(figures, step, rows, joined=whole, processors=1)
        if in_l1_shards(output):
            return super().time(step, figures)
        page = min(source.page_bytes, output.page_bytes)
        pages = output.num_pages * output.page_bytes / page
        uneven = 1.0
        if source.layout is Layout.TILE and source.memory_config.is_dram():
            uneven = unevenness(self.box, tuple(source.padded_shape), figures.dram_banks)
        cores = self.cores.num_cores()
        return one_by_one_cycles(figures, source, output, pages, page, cores, figures.index_cycles, uneven)

    def ideal_move(self, step: Step) -> IdealMove:
        """What is read of the input is not what the tensor holds."""
        return super().ideal_move(step)._replace(writes_only=True)


def plan_slice_device(planner: Planner, x: Slot, box: Box, config: MemoryConfig, out: Slot | None = None) -> Slot:
    spec = x.spec
    made = _output_spec(planner, spec, box.shape, config)
    output = out if out is not None else planner.allocate(made)
    _validate(spec, box, made, None if out is None else out.spec)
    factory, (cores, buffers) = _program(planner, x, output, box, config)
    program = SliceProgram(factory=factory, cores=cores, buffers=tuple(buffers), box=box, memory_config=config)
    planner.dispatch(program, [x], [output])
    return output


def _output_spec(planner: Planner, spec: Spec, shape: Shape, config: MemoryConfig) -> Spec:
    if lacks_shards(config):
        scaled = None
        shard = spec.memory_config.shard_spec
        if shard is not None and spec.memory_config.memory_layout is config.memory_layout:
            scaled = rescaled(shard, spec.shape, shape)
            if scaled is not None and spec.layout is Layout.TILE and not tile_sized(scaled):
                scaled = None
        config = config.with_shard_spec(scaled or derived(planner.card, spec, shape, config.memory_layout))
    return Spec(shape, spec.dtype, spec.layout, config)


def _validate(spec: Spec, box: Box, made: Spec, out: Spec | None) -> None:
    padded = spec.padded_shape
    fatal(
        len(padded) == len(box.begins) == len(box.ends),
        f"Input tensor rank ({len(padded)}), slice start rank ({len(box.begins)}), and slice end rank "
        f"({len(box.ends)}) "
        "must all be equal",
    )
    for i, (begin, end, extent) in enumerate(zip(box.begins, box.ends, padded, strict=True)):
        fatal(begin < extent, f"Slice start[{i}] ({begin}) must be less than input tensor shape[{i}] ({extent})")
        fatal(end <= extent, f"Ends {end} must be less than or equal to the shape of the tensor {extent}")
        fatal(begin <= end, f"Slice start[{i}] ({begin}) must be <= slice end[{i}] ({end})")
    if out is not None:
        fatal(
            out.padded_shape == made.padded_shape,
            f"The preallocated output tensor needs a padded shape of {made.padded_shape}, however it is "
            f"{out.padded_shape}",
        )
        if spec.layout is Layout.ROW_MAJOR:
            fatal(
                out.shape == made.shape,
                f"The preallocated output tensor needs a logical shape of {made.shape}, however it is {out.shape}",
            )
    if box.stepped:
        fatal(spec.layout is Layout.ROW_MAJOR, "Strided slice is only supported for row major layout")
    if spec.layout is Layout.TILE:
        for back, side in ((2, "height"), (1, "width")):
            fatal(
                made.shape[-back] % TILE_SIZE == 0 and box.begins[-back] % TILE_SIZE == 0,
                f"Can only slice tilized tensor with {side} begin index aligned to tiles",
            )
    elif box.stepped:
        for i, step in enumerate(box.steps):
            fatal(step > 0, f"Step({i}) = {step} should be positive")


def _program(planner: Planner, x: Slot, output: Slot, box: Box, config: MemoryConfig) -> tuple[str, CoresAndBuffers]:
    spec = x.spec
    if spec.layout is Layout.TILE:
        return "SliceTileProgramFactory", _tiles(planner, spec, output.spec)
    on_cores = (
        spec.memory_config.memory_layout is HEIGHT
        and config.memory_layout is HEIGHT
        and not box.stepped
        and box.begins[-1] * spec.dtype.element_bytes % planner.card.l1_alignment == 0
    )
    if on_cores:
        return _SHARDED_ROWS, _row_shards(planner, x, output)
    if box.stepped:
        return "SliceRmStrideProgramFactory", _stepped_rows(planner, spec, output.spec)
    return "SliceRmProgramFactory", _rows(planner, spec, output.spec, box)


def _tiles(planner: Planner, spec: Spec, out: Spec) -> CoresAndBuffers:
    cores = workers_for(planner, out.volume // TILE_SIZE**2)
    indices = scratchpad(4 * len(spec.padded_shape), cores, "indices")
    return cores, [staging(2 * spec.dtype.tile_bytes, cores, name="tiles"), indices]


def _row_shards(planner: Planner, x: Slot, output: Slot) -> CoresAndBuffers:
    cores = output.spec.shard.grid
    card = planner.card
    rows = prod(tuple(x.spec.padded_shape)[:-1])
    held, height = x.spec.shard.num_cores(), x.spec.shard.shape[0]
    fatal(
        height * held >= rows,
        f"SliceRmShardedProgramFactory: the input's {held} shards of {height} rows cannot hold its {rows} rows.",
    )
    return cores, [
        borrowed(planner, "in", aligned_page(card, x.spec), height, cores, x, "input"),
        borrowed(planner, "out", aligned_page(card, output.spec), output.spec.shard.shape[0], cores, output, "output"),
    ]


def _stepped_rows(planner: Planner, spec: Spec, out: Spec) -> CoresAndBuffers:
    card = planner.card
    cores = workers_for(planner, prod(tuple(out.padded_shape)[:-1]))
    word = max(alignment(card, spec), alignment(card, out))
    row = round_up(spec.padded_shape[-1] * spec.dtype.element_bytes, word)
    return cores, [staging(2 * row, cores, name="rows")]


def _rows(planner: Planner, spec: Spec, out: Spec, box: Box) -> CoresAndBuffers:
    card = planner.card
    element = spec.dtype.element_bytes
    _check_pages(planner, spec, spec.padded_shape[-1] * element, "input")
    _check_pages(planner, out, out.padded_shape[-1] * element, "output")
    count = prod(tuple(out.padded_shape)[:-1])
    cores = workers_for(planner, count)
    share = div_up(count, cores.num_cores()) if count else 0
    word = max(alignment(card, spec), alignment(card, out))
    offset = box.begins[-1] * element % alignment(card, spec)
    row = out.padded_shape[-1] * element
    entry = round_up(row, 2 * word if offset else word)
    room = planner.program_l1()
    depth = _rows_a_read(round_up(share, TILE_SIZE), round_up(row, word))
    if not offset and 2 * entry > room and entry > word:
        entry, parts = _row_parts(row, word, room)
        depth = 2 if parts % 2 == 0 else 1
    fatal(
        2 * entry <= room,
        f"ttnn::slice: required DFB size {2 * entry} B exceeds per-core L1 budget {room} B (row_bytes={row}, "
        f"misalignment={offset}); consider slicing along a non-width dim",
    )
    indices = scratchpad(4 * len(spec.padded_shape), cores, "indices")
    return cores, [staging(2 * depth * entry, cores, name="rows"), indices]


def _rows_a_read(rows: int, stick: int) -> int:
    """Rows that are read at a time: up to 4 KB, and a divisor of the core's rows (counted in 32s)."""
    return next((n for n in range(min(rows, MAX_READ // stick), 0, -1) if rows % n == 0), 1)


def _row_parts(row: int, word: int, room: int) -> tuple[int, int]:
    """Rows too long for L1 are moved in parts, an even number of them where possible."""
    part = min(CHUNK, room // 8) // word * word
    fatal(
        part >= word,
        f"ttnn::slice: L1 budget {room} B too small for sub-row chunking (alignment {word} B)",
    )
    parts = div_up(row, part)
    if parts % 2:
        smaller = row // (parts + 1) // word * word
        if smaller >= word and div_up(row, smaller) % 2 == 0:
            part, parts = smaller, div_up(row, smaller)
    return part, parts


def _check_pages(planner: Planner, spec: Spec, row: int, role: str) -> None:
    """Rows of width and block shards must be whole memory words."""
    config = spec.memory_config
    word = alignment(planner.card, spec)
    real = aligned_page(planner.card, spec)
    page = row
    if config.memory_layout in (BLOCK, WIDTH):
        page = spec.shard.shape[1] * spec.dtype.element_bytes
    elif config.is_sharded():
        page = real
    effective = page if config.is_sharded() else round_up(page, word)
    fatal(
        effective == real,
        f"ttnn::slice: {role} per-shard page size {page} B disagrees with the accessor's aligned page size {real} B "
        f"({page} B is not a multiple of the {word} B buffer alignment). Reach this op through ttnn::slice, which "
        "reshards such tensors, rather than building the program factory directly.",
    )
