# SPDX-License-Identifier: Apache-2.0
"""The time of upsampling."""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles
from tt_cnn.virtual.ops.sliding_window.time import PROCESSORS, TABLE_CYCLES
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up


def nearest_cycles(step: Step, figures: Figures) -> Cycles:
    """In shards every stick is read once for each copy in a row, and rows are copied. An interleaved stick is read and
    waited for; its copies are written and waited for together."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    if not output.is_sharded and source.layout is Layout.ROW_MAJOR:
        cores = step.cores.num_cores()
        block = Block(
            reads=[Pages(source, 1, source.page_bytes)],
            writes=[Pages(output, output.num_pages / source.num_pages, output.page_bytes)],
            waits_for_writes=True,
        )
        return pipeline_cycles(figures, Share.of(source.num_pages, cores), block)
    moving = _reading(step, figures)
    return Cycles(moving, noc=moving)


def bilinear_cycles(neighbours: int, step: Step, figures: Figures) -> Cycles:
    """The neighbours of every result are read, and mixed on the matrix unit."""
    output = step.outputs[0].spec
    moving = neighbours * _reading(step, figures)
    tiles = div_up(output.page_shape[1], TILE_SIZE)
    a_tile = figures.pool_tile_cycles + neighbours * figures.pool_row_cycles
    reducing = output.shard.shape[0] * (figures.pool_stick_cycles + tiles * a_tile)
    return Cycles(max(moving, reducing), matrix=reducing, noc=moving)


def _reading(step: Step, figures: Figures) -> float:
    """A stick for each one of the output."""
    output = step.outputs[0].spec
    sticks = output.shard.shape[0] if output.is_sharded else div_up(output.num_pages, step.cores.num_cores())
    extra = 0.0 if output.is_sharded else figures.page_cycles
    return sticks * transaction_cycles(figures, Way.L1_READ, output.page_bytes, extra + TABLE_CYCLES / 2) / PROCESSORS
