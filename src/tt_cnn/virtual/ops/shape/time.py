# SPDX-License-Identifier: Apache-2.0
"""Time of transposes and permutes: tiles moved or turned, rows of faces that find another tile, blocks of rows."""

from __future__ import annotations

from math import prod

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import in_l1_shards
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import (
    Block,
    Pages,
    Share,
    crowded_cycles,
    pipeline_cycles,
    write_latency,
    writing_cycles,
)
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

FACE = 16
_FACES = 2
"""Beside each other in a tile."""
_LINE_CYCLES = 75
"""To find the tile of a row of a face, and the row's place in it, by divisions."""


def _element(spec: Spec) -> float:
    return spec.page_bytes / prod(spec.page_shape)


def turned_tiles_cycles(step: Step, figures: Figures) -> Cycles:
    """Tiles one by one: read, turned by the unpacker, and written, the last of them waited for."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    if in_l1_shards(source) and in_l1_shards(output):
        return pipeline_cycles(figures, Share.each(source.shard_pages, 1), Block(compute=figures.transpose_cycles))
    block = Block(
        [Pages(source, 1, source.page_bytes)], [Pages(output, 1, output.page_bytes)], compute=figures.transpose_cycles
    )
    return pipeline_cycles(figures, Share.of(source.num_pages, cores), block)


def rows_of_faces_cycles(step: Step, figures: Figures, height: int, new_height: int, turned: bool = False) -> Cycles:
    """Tiles are read whole, and each row of a face is written to where it belongs; a tile's writes are waited for.

    `height`: the logical rows of a matrix; `new_height`: those of a matrix of the output. Where that is no whole number
    of tiles, padding is written into the last ones afterwards.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores, element = step.cores.num_cores(), _element(source)
    rows = height / div_up(height, TILE_SIZE)
    block = Block(
        [Pages(source, 1, source.page_bytes)],
        [Pages(output, _FACES * rows, FACE * element)],
        compute=figures.transpose_cycles if turned else 0.0,
        waits_for_writes=True,
    )
    moving = pipeline_cycles(figures, Share.of(source.num_pages, cores), block)
    empty = -new_height % TILE_SIZE
    if not empty:
        return moving
    units = output.num_pages // div_up(new_height, TILE_SIZE)
    faces = _FACES * div_up(empty, FACE)
    pad = Block(writes=[Pages(output, faces, empty * TILE_SIZE * element / faces)])
    crowd = max(crowded_cycles(figures, pad, units))
    padding = max(div_up(units, cores) * writing_cycles(figures, pad), crowd) + write_latency(figures, output)
    dram = output.memory_config.is_dram()
    return moving._replace(
        total=moving.total + padding,
        dram=moving.dram + (padding if dram else 0.0),
        noc=moving.noc + (0.0 if dram else padding),
    )


def blocks_cycles(step: Step, figures: Figures, blocks: int, across: int, along: int) -> Cycles:
    """Blocks of up to 32 x 32 elements: rows are read, turned as a tile and written as rows the other way round.

    `across`: the rows of a block; `along`: their elements. Rows of tensors in tiles are those of faces, each waited for
    since it may have to be aligned.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores, element = step.cores.num_cores(), _element(source)
    across, along = min(across, TILE_SIZE), min(along, TILE_SIZE)
    compute = (
        figures.transpose_cycles + figures.tilize(source.dtype, DataType.BFLOAT16, False) + figures.untilize_cycles
    )
    if source.layout is Layout.TILE:
        reads = Pages(source, across * div_up(along, FACE), FACE * element, 1)
        writes = Pages(output, along * div_up(across, FACE), FACE * element, lookup=_LINE_CYCLES)
    else:
        reads, writes = Pages(source, across, along * element), Pages(output, along, across * element)
    block = Block(
        [] if in_l1_shards(source) else [reads],
        [] if in_l1_shards(output) else [writes],
        compute=compute,
        waits_for_writes=True,
    )
    return pipeline_cycles(figures, Share.of(blocks, cores), block)


def all_rows_cycles(step: Step, figures: Figures) -> Cycles:
    """A core reads all of its rows, waits, and writes them; rows of its own shard are read into their place."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    rows = div_up(source.num_pages, cores)
    writes = [] if in_l1_shards(output) else [Pages(output, rows, source.page_bytes)]
    block = Block([Pages(source, rows, source.page_bytes)], writes)
    return pipeline_cycles(figures, Share.each(1, min(cores, source.num_pages)), block)
