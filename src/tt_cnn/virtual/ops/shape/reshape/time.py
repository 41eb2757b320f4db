# SPDX-License-Identifier: Apache-2.0
"""Time of the reshape device operation: rows cut again, tiles put together from pieces."""

from __future__ import annotations

from math import hypot

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, crowded_cycles, reading_cycles, write_latency, writing_cycles
from tt_cnn.virtual.ops.layout.time import moving_parts
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_ALIGNED = 16
_BYTE_CYCLES = 6
"""A processor's own copy of a byte between addresses that are not aligned alike, two bytes at a time."""
_PIECE_CYCLES = 85
"""A piece looked up in the map and copied within L1."""


def cut_rows_cycles(step: Step, figures: Figures, processors: int, slots: int) -> Cycles:
    """A processor (or both of a core) reads a row, waits, and writes the rows or parts of rows that are in it.

    The rows of the input are distributed, however few they are. Rows that are not aligned are copied by the processor
    first; when `slots` of them are under way, all are waited for.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = min(step.cores.num_cores(), source.num_pages)
    rows = div_up(div_up(source.num_pages, cores), processors)
    share = rows * source.page_bytes
    parts = max(rows, share / output.page_bytes)
    part = share / parts
    aligned = source.page_bytes % _ALIGNED == 0 and output.page_bytes % _ALIGNED == 0
    written = parts if aligned else share / output.page_bytes
    size = part if aligned else output.page_bytes
    block = Block(
        [Pages(source, rows, source.page_bytes, 1)],
        [Pages(output, written, size, slots)],
        preparing=0.0 if aligned else share * _BYTE_CYCLES,
        waits_for_writes=not aligned,
    )
    alone = reading_cycles(figures, block) + writing_cycles(figures, block)
    return moving_parts(
        max(alone, *crowded_cycles(figures, block, processors * cores)) + write_latency(figures, output), output
    )


def gathered_tiles_cycles(step: Step, figures: Figures, mapping: Spec, pages: float, pieces: float) -> Cycles:
    """Of each output tile the map is read, then each input tile that has a piece of it, one at a time.

    Reader and writer take turns, as there is room for one input tile: what a crowded bank lets them wait adds to their
    work. The writer copies its pieces, waits for the copies, and in the end for the tile to be written.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = min(step.cores.num_cores(), output.num_pages)
    tiles = div_up(output.num_pages, cores)
    block = Block(
        [Pages(mapping, 1, mapping.page_bytes), Pages(source, pages, source.page_bytes, 1)],
        [Pages(output, 1, output.page_bytes)],
        preparing=pieces * _PIECE_CYCLES + (pages - 1) * figures.barrier_cycles,
        waits_for_writes=True,
    )
    lookup = reading_cycles(figures, Block(reads=[Pages(mapping, 1, 0)]))
    alone = lookup + reading_cycles(figures, block) + writing_cycles(figures, block)
    return moving_parts(tiles * hypot(alone, max(crowded_cycles(figures, block, cores))), output)
