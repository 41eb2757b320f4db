# SPDX-License-Identifier: Apache-2.0
"""The time of `padded_slice` and `slice_write`: rows or tiles of a part of a DRAM tensor, to shards and back.

Their kernels keep the place in the tensor as four indices in L1 and move them on after each page, which takes longer
than the transaction.
"""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles
from tt_cnn.virtual.cost.streams import crowd_cycles
from tt_cnn.virtual.ops.layout.time import moving_parts
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

LARGEST_READ = 4096
"""Bytes that are under way before a kernel waits."""


def padded_slice_cycles(step: Step, figures: Figures, through_scratch: int) -> Cycles:
    """`through_scratch`: rows under way that are copied once more because they are no whole memory words; 0: none."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    if source.layout is Layout.TILE:
        return _from_tiles(source, output, step.cores.num_cores(), figures)
    rows, row = output.shard.shape[0], min(source.page_bytes, output.page_bytes)
    each = transaction_cycles(figures, Way.DRAM, row, figures.page_cycles) + figures.index_cycles
    if through_scratch:
        each = max(each, (figures.dram_latency_cycles + figures.local_latency_cycles) / through_scratch)
    crowd = crowd_cycles(figures, source, output.num_pages, row, read=True)
    return moving_parts(max(rows * each, crowd) + figures.dram_latency_cycles, source)


def _from_tiles(source: Spec, output: Spec, cores: int, figures: Figures) -> Cycles:
    """A row of tiles is read and untilized; its rows go to the shard together where all of them belong there, else one
    by one, and so does the padding behind each."""
    height, width = output.shard.shape
    tiles = div_up(width, TILE_SIZE)
    stick = width * output.dtype.element_bytes
    untilized = tiles * TILE_SIZE * output.dtype.element_bytes
    copying = transaction_cycles(figures, Way.LOCAL, TILE_SIZE * untilized)
    if stick != untilized:
        copying = TILE_SIZE * transaction_cycles(figures, Way.LOCAL, stick)
    if source.shape[3] < width:
        copying += TILE_SIZE * transaction_cycles(figures, Way.LOCAL, stick - source.shape[3] * 2)
    copying += figures.local_latency_cycles
    untilizing = tiles * figures.untilize_cycles * output.dtype.element_bytes / 2
    block = Block(
        reads=[Pages(source, tiles, source.page_bytes)],
        compute=max(untilizing, copying),
        preparing=tiles * figures.index_cycles,
    )
    return pipeline_cycles(figures, Share.each(div_up(height, TILE_SIZE), cores), block, unpack_pack=untilizing)


def slice_write_cycles(step: Step, figures: Figures) -> Cycles:
    """Tiles are written and waited for one by one, rows up to 4 KB together."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    size = min(source.page_bytes, output.page_bytes)
    at_once = 1 if source.layout is Layout.TILE else max(1, LARGEST_READ // max(1, size))
    if not source.is_sharded:
        block = Block(
            reads=[Pages(source, at_once, size)],
            writes=[Pages(output, at_once, size)],
            preparing=at_once * figures.index_cycles,
            waits_for_writes=True,
        )
        return pipeline_cycles(figures, Share.of(div_up(source.num_pages, at_once), cores), block)
    pages = source.shard_pages
    each = transaction_cycles(figures, Way.DRAM, size, figures.page_cycles) + figures.index_cycles
    writing = pages * each + div_up(pages, at_once) * figures.dram_write_latency_cycles
    return moving_parts(max(writing, crowd_cycles(figures, output, source.num_pages, size, read=False)), output)
