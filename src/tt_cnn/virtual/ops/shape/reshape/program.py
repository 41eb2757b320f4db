# SPDX-License-Identifier: Apache-2.0
"""The reshape device operation, for shapes that are no view: rows cut again, or tiles put together from pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import padded_as, scratchpad, staging
from tt_cnn.virtual.ops.shape.programs import workers_for
from tt_cnn.virtual.ops.shape.reshape.time import cut_rows_cycles, gathered_tiles_cycles
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_DTYPES = (DataType.BFLOAT16, DataType.UINT32, DataType.FLOAT32, DataType.INT32)
_NOC_WORD = 16
_WRITE_SLOTS = 8
_WORDS_A_SEGMENT = 4
"""A piece of a tile in the map: page, offset there, offset here, length."""
_SAMPLES = 64
"""Kinds of output tiles that are looked at for the number of pieces."""


@dataclass(frozen=True, kw_only=True)
class ReshapeRowsProgram(Program):
    """Rows are cut again."""

    op: str = "ReshapeView"
    factory: str = "ReshapeViewRMProgramFactory"
    processors: int
    """That share a core's rows."""
    slots: int
    """Rows of the output under way before the kernel waits, where rows are not whole words."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        return cut_rows_cycles(step, figures, self.processors, self.slots)


@dataclass(frozen=True, kw_only=True)
class ReshapeTilesProgram(Program):
    """Tiles are put together from pieces of others, as a map says."""

    op: str = "ReshapeView"
    factory: str = "ReshapeViewTiledProgramFactory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        before, after = (tuple(slot.spec.shape) for slot in (step.inputs[0], step.outputs[0]))
        pages, pieces = mean_pieces(before, after)
        words = self.buffers[0].bytes // 4
        tiles = step.outputs[0].spec.num_pages
        return gathered_tiles_cycles(step, figures, map_spec(tiles, words), pages, pieces)


def map_spec(tiles: int, words: int) -> Spec:
    """The map is a tensor in DRAM, a row for each output tile."""
    return Spec(Shape([tiles, words]), DataType.UINT32, Layout.ROW_MAJOR, DRAM_MEMORY_CONFIG)


def plan_reshape_device(planner: Planner, x: Slot, logical: Shape, padded: Shape, config: MemoryConfig) -> Slot:
    spec = x.spec
    if config.shard_spec is not None:
        output_spec = Spec(logical, spec.dtype, spec.layout, config)
    else:
        output_spec = padded_as(logical, spec.dtype, spec.layout, config, padded)
    output = planner.allocate(output_spec)
    fatal(spec.dtype in _DTYPES, "Can only work with bfloat16/float32 or int32/uint32 tensors")
    if spec.layout is Layout.ROW_MAJOR:
        planner.dispatch(_rows(planner, spec, output.spec), [x], [output])
        return output
    segments = map_segments(planner.card, tuple(spec.shape), tuple(logical))
    tiles = output.spec.volume // TILE_SIZE**2
    words = _WORDS_A_SEGMENT * segments
    cores = workers_for(planner, tiles)
    tile = spec.dtype.tile_bytes
    buffers = (staging(words * 4, cores, name="map"), staging(tile, cores, name="input"), scratchpad(tile, cores))
    tiles_program = ReshapeTilesProgram(cores=cores, buffers=buffers)
    planner.dispatch(tiles_program, [x], [output], [planner.table_in_dram(map_spec(tiles, words))])
    return output


def _rows(planner: Planner, spec: Spec, out: Spec) -> ReshapeRowsProgram:
    element = spec.dtype.element_bytes
    source, target = spec.shape[-1] * element, out.shape[-1] * element
    read = (source - 1) // 64 * 64 + 128
    slot = (target - 1) // 64 * 64 + 80
    divisible = source % target == 0 or target % source == 0
    two_kernels = divisible and (target % _NOC_WORD == 0 or not out.memory_config.is_dram())
    aligned = source % _NOC_WORD == 0 and target % _NOC_WORD == 0
    slots = 1 if aligned else _write_slots(planner.program_l1(), 2 if two_kernels else 1, read, slot)
    cores = planner.workers or planner.grid
    buffers = []
    for kernel in ("", " 2") if two_kernels else ("",):
        buffers += [
            scratchpad(2 * read, cores, "input rows" + kernel),
            scratchpad(slots * slot, cores, "output rows" + kernel),
        ]
    return ReshapeRowsProgram(cores=cores, buffers=tuple(buffers), processors=2 if two_kernels else 1, slots=slots)


def _write_slots(room: int, kernels: int, read: int, slot: int) -> int:
    """Rows that are not whole words are gathered in as many slots as fit, up to 8."""
    fatal(
        room >= 2 * read * kernels + slot * kernels,
        f"RM reshape dest staging does not fit in L1: need at least {slot * kernels} B dest + {2 * read * kernels} B "
        f"source, have {room} B",
    )
    return max(1, min(_WRITE_SLOTS, (room - 2 * read * kernels) // (slot * kernels)))


@lru_cache(maxsize=256)
def map_segments(card: Card, before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """Entries of the map that says, for each output tile, which pieces of which input tiles it is made of.

    A piece is a run that is contiguous in both tiles (their elements lie face by face). All tiles have room for as
    many pieces of an input tile as the one with most, times the input tiles it has; over all output tiles the largest
    number counts, enlarged by its rest modulo the L1 alignment.
    """
    counts = (_pieces(before, after[-1], *tile) for tile in _kinds_of_tiles(before, after))
    most = max(int(pieces.size * pieces.max()) for pieces in counts)
    return most + most % card.l1_alignment


@lru_cache(maxsize=256)
def mean_pieces(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[float, float]:
    """Input tiles of an output tile, and pieces that it is made of, on average over the kinds of output tiles."""
    kinds = _kinds_of_tiles(before, after)
    chosen = kinds[:: max(1, len(kinds) // _SAMPLES)]
    counts = [_pieces(before, after[-1], *tile) for tile in chosen]
    return sum(c.size for c in counts) / len(counts), sum(float(c.sum()) for c in counts) / len(counts)


def _kinds_of_tiles(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Output tiles that begin alike in the input have alike pieces."""
    period = before[2] * (TILE_SIZE if before[1] % TILE_SIZE == 0 else before[1])
    seen: dict[tuple[int, int, int], None] = {}
    for start, rows, columns in _tiles(after, columns_alike=after[-1] == before[2]):
        seen.setdefault((start % period, rows, columns))
    return list(seen)


def _tiles(shape: tuple[int, ...], columns_alike: bool) -> Iterator[tuple[int, int, int]]:
    """Each tile's first element, counted through the whole tensor, and its valid rows and columns.

    Where rows stay whole (`columns_alike`), the tiles beside each other are made alike; the last may be narrower.
    """
    channels, height, width = shape
    firsts = range(0, width, TILE_SIZE)
    if columns_alike:
        firsts = range(0, width, firsts[-1] or TILE_SIZE)
    for channel in range(channels):
        for h in range(0, height, TILE_SIZE):
            for w in firsts:
                yield (channel * height + h) * width + w, min(TILE_SIZE, height - h), min(TILE_SIZE, width - w)


def _face_offset(h: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Where an element of a tile lies: faces of 16 x 16, two beside each other, two below."""
    h, w = h % TILE_SIZE, w % TILE_SIZE
    return (h // 16 * 2 + w // 16) * 256 + h % 16 * 16 + w % 16


def _pieces(before: tuple[int, ...], width: int, start: int, rows: int, columns: int) -> np.ndarray:
    """Of each input tile that an output tile has pieces of, their number."""
    h, w = np.arange(rows)[:, None], np.arange(columns)[None, :]
    flat = (start + h * width + w).ravel()
    ci, rest = np.divmod(flat, before[1] * before[2])
    hi, wi = np.divmod(rest, before[2])
    wide, high = div_up(before[2], TILE_SIZE), div_up(before[1], TILE_SIZE)
    page = (ci * high + hi // TILE_SIZE) * wide + wi // TILE_SIZE
    here, there = _face_offset(h, w).ravel(), _face_offset(hi, wi)
    breaks = (np.diff(page) != 0) | (np.diff(here) != 1) | (np.diff(there) != 1)
    pieces = np.bincount(page[np.concatenate(([True], breaks))] - page.min())
    return pieces[pieces > 0]
