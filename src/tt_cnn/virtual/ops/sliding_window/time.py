# SPDX-License-Identifier: Apache-2.0
"""The time of a halo: runs of sticks copied to where windows need them."""

from __future__ import annotations

import numpy as np

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.sliding_window.parallel import ParallelConfig
from tt_cnn.virtual.ops.sliding_window.tables import Gathering, gathering
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

PROCESSORS = 2
"""A core's two data movement processors share the sticks."""
TABLE_CYCLES = 30
"""Reading source, destination and length of a transfer from the table in L1 (halo_gather.cpp: six 16-bit loads)."""
ZEROS_BYTES = 512
"""Of the block of zeros that zero padding is copied from (MEM_ZEROS_SIZE)."""


def halo_cycles(window: SlidingWindow, step: Step, figures: Figures, piece: int, untilize_tile: float) -> Cycles:
    """Padding is filled, then runs of sticks are written to the cores that need them.

    Tiles are untilized a row of tiles at a time, for both processors in turn; each waits for its writes before it takes
    its next row. All cores send to their neighbours at the same time. `piece`: bytes that padding is copied from;
    `untilize_tile`: cycles of a tile.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    parallel = ParallelConfig.of(source.memory_config)
    tiled = source.layout is Layout.TILE
    halo_sticks, stick = output.shard.shape[0], output.shard.shape[1] * output.dtype.element_bytes
    work = gathering(window, parallel.cores_nhw, halo_sticks, source.shard.shape[0], tiled)
    issued = work.transfers * (figures.l1_write_issue_cycles + TABLE_CYCLES)
    writing = np.maximum(issued, work.sticks * stick / figures.l1_write_bytes_per_cycle)
    filling = filling_cycles(work, stick, piece, figures)
    crowd = work.remote_sticks * stick * parallel.cores_c / figures.neighbours_bytes_per_cycle
    # Who fills the rows above or below the image has less to send than the cores in its midst.
    moving = float(max(writing.max() + filling.mean() + crowd, (writing + filling).max())) + figures.barrier_cycles
    if not tiled:
        return Cycles(moving + figures.l1_latency_cycles, noc=moving)
    rows = div_up(source.shard.shape[0], TILE_SIZE)
    moving += div_up(rows, PROCESSORS) * figures.loopback_latency_cycles
    tiles = source.shard_pages
    untilize = tiles * untilize_tile * output.dtype.element_bytes / 2 + rows * figures.untilize_row_cycles
    total = figures.compute_start_cycles + max(untilize / rows + moving, untilize + crowd)
    return Cycles(total, unpack_pack=untilize, noc=moving)


def filling_cycles(work: Gathering, stick: int, piece: int, figures: Figures) -> np.ndarray:
    """Of each processor: runs of padding are copied from a piece of L1, several sticks or a part of one at a time."""
    processor, length = work.pads
    together = max(1, piece // stick)
    reads = length // together + length % together if together > 1 else length * div_up(stick, piece)
    cycles = np.maximum(reads * figures.local_issue_cycles, length * stick / figures.local_bytes_per_cycle)
    return np.bincount(processor, weights=cycles, minlength=work.transfers.size)
