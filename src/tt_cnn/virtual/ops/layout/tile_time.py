# SPDX-License-Identifier: Apache-2.0
"""Time of copies page by page, and of programs that make tiles of rows and rows of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import in_l1_shards
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles, read_latency
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_TILE = TILE_SIZE * TILE_SIZE
_WORD = 4
_WIDE = (DataType.FLOAT32, DataType.INT32, DataType.UINT32)


def copy_cycles(step: Step, figures: Figures) -> Cycles:
    """A page is read and waited for, then written and waited for by the other processor."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    small = source if source.page_bytes <= output.page_bytes else output
    if in_l1_shards(small) and cores >= small.shard.num_cores():
        share = Share.each(small.shard_pages, small.shard.num_cores())
    else:
        share = Share.of(small.num_pages, cores)
    converts = source.dtype is not output.dtype
    whole = source.layout is Layout.TILE
    block = Block(
        [Pages(source, 1, source.page_bytes if whole else small.page_bytes)],
        [Pages(output, 1, output.page_bytes if whole else small.page_bytes)],
        compute=figures.unary_cycles if converts else 0.0,
        waits_for_writes=True,
    )
    return pipeline_cycles(figures, share, block)


def tilize_cycles(program: Program, step: Step, figures: Figures, row_by_row: bool = False) -> Cycles:
    """32 rows are read, or what a block's width takes of them, and written as tiles, the last of which is waited for.

    Programs that go by whole rows of tiles wait once for the 32 rows, unless `row_by_row`; those that go by blocks wait
    for each row, since it may have to be aligned. Padding is filled in by the reader.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    a_tile = _tilize_cycles_per_tile(figures, source, output)
    if in_l1_shards(source) and in_l1_shards(output):
        tiles = _shard_tiles(output)
        return pipeline_cycles(figures, Share.each(1, 1), Block(compute=tiles * a_tile), unpack_pack=tiles * a_tile)
    work = _Work.of(program, step, output)
    rows, columns = _logical(source)
    data = min(TILE_SIZE, rows)
    wanted = work.width * TILE_SIZE
    element = source.dtype.element_bytes
    filled = figures.fill_word_cycles * element / _WORD
    padding = 0.0
    if columns % TILE_SIZE:
        padding += data * (figures.fill_row_cycles + (TILE_SIZE - columns % TILE_SIZE) * filled)
    if row_by_row:  # a row is waited for when its padding is filled
        padding = max(padding, (data - 1) * read_latency(figures, source))
    if rows % TILE_SIZE:  # one row of tiles of each matrix is not full
        mixed = 1.0 if rows < TILE_SIZE else max(1 / work.share.blocks, 1 / div_up(rows, TILE_SIZE))
        padding += mixed * (TILE_SIZE - rows % TILE_SIZE) * wanted * filled
    reads = [Pages(source, data, min(wanted, columns) * element, 1 if work.in_parts else inf)]
    block = Block(
        [] if in_l1_shards(source) else reads,
        [] if in_l1_shards(output) else [Pages(output, work.width, output.page_bytes)],
        compute=work.width * a_tile,
        preparing=padding,
    )
    return pipeline_cycles(figures, work.share, block, unpack_pack=work.width * a_tile)


def untilize_cycles(program: Program, step: Step, figures: Figures, row_by_row: bool) -> Cycles:
    """Tiles are read and waited for one by one, untilized a row of tiles at a time, and written as rows.

    `row_by_row`: the writer waits for each row, as those do that cut padding off; others wait for the 32 rows of a row
    of tiles. The generated program reads a row of tiles before it waits.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    a_tile = figures.untilize_cycles * output.dtype.element_bytes / 2
    if in_l1_shards(source) and in_l1_shards(output):
        width = div_up(source.shard.shape[1], TILE_SIZE)
        compute = width * a_tile + figures.untilize_row_cycles
        return pipeline_cycles(
            figures, Share.each(_shard_tiles(source) / width, 1), Block(compute=compute), unpack_pack=compute
        )
    work = _Work.of(program, step, source)
    rows, columns = _logical(output)
    data = min(TILE_SIZE, rows)
    compute = work.width * a_tile + figures.untilize_row_cycles
    tiles = Pages(source, work.width, source.page_bytes, inf if "Codegen" in program.factory else 1)
    wanted = min(work.width * TILE_SIZE, columns) * output.dtype.element_bytes
    block = Block(
        [] if in_l1_shards(source) else [tiles],
        [] if in_l1_shards(output) else [Pages(output, data, wanted, 1 if row_by_row else inf)],
        compute=compute,
        waits_for_writes=True,
    )
    return pipeline_cycles(figures, work.share, block, unpack_pack=compute)


def _tilize_cycles_per_tile(figures: Figures, source: Spec, output: Spec) -> float:
    if source.dtype is output.dtype and source.dtype in _WIDE:
        return figures.tilize_float32_cycles
    return figures.tilize(source.dtype, output.dtype, False)


def _shard_tiles(spec: Spec) -> int:
    return div_up(spec.shard.shape[0] * spec.shard.shape[1], _TILE)


def _logical(spec: Spec) -> tuple[int, int]:
    """Rows of a matrix, and its columns."""
    shape = tuple(spec.shape)
    return (shape[-2] if len(shape) > 1 else 1), shape[-1]


@dataclass(frozen=True)
class _Work:
    """Blocks of a row of tiles each, so many tiles wide."""

    share: Share
    width: int
    in_parts: bool
    """Rows are wider than a block."""

    @classmethod
    def of(cls, program: Program, step: Step, tiled: Spec) -> _Work:
        """`tiled`: the side in tiles. A circular buffer holds a block; rows of tiles are distributed unless in parts.

        Shards are worked on where they are.
        """
        for spec in (step.inputs[0].spec, step.outputs[0].spec):
            if in_l1_shards(spec):
                height, wide = (div_up(side, TILE_SIZE) for side in spec.shard.shape)
                return cls(Share.each(height, spec.shard.num_cores()), wide, False)
        row = max(1, tiled.physical[1] // TILE_SIZE)
        tiles, cores = tiled.num_pages, step.cores.num_cores()
        if "Block" not in program.factory:
            lines = tiles // row
            columns = max(1, cores // max(1, lines)) if "Codegen" in program.factory else 1
            return cls(Share.of(lines * columns, cores), div_up(row, columns), False)
        width = max(1, program.buffers[0].bytes // step.inputs[0].spec.dtype.tile_bytes)
        matrices = tiles // (row * max(1, tiled.padded_shape[-2] // TILE_SIZE))
        height = min(width, tiles // matrices // row)
        return cls(Share.each(max(height * matrices, div_up(tiles, cores * width)), cores), width, True)
