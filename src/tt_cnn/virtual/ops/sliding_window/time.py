"""The time of a halo: runs of sticks copied to where windows need them."""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.sliding_window.parallel import ParallelConfig
from tt_cnn.virtual.ops.sliding_window.tables import gathering
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

PROCESSORS = 2
"""A core's two data movement processors share the sticks."""
TABLE_CYCLES = 30
"""Reading source, destination and length of a transfer from the table in L1 (halo_gather.cpp: six 16-bit loads)."""
_ZEROS_BYTES = 512
"""Padding is copied from a block of zeros of this size."""


def halo_cycles(window: SlidingWindow, step: Step, figures: Figures) -> Cycles:
    """Padding is filled, then runs of sticks are written to the cores that need them.

    Tiles are untilized a row of tiles at a time, for both processors in turn; each waits for its writes before it takes
    its next row. All cores send to their neighbours at the same time.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    parallel = ParallelConfig.of(source.memory_config)
    tiled = source.layout is Layout.TILE
    halo_sticks, stick = output.shard.shape[0], output.shard.shape[1] * output.dtype.element_bytes
    work = gathering(window, parallel.cores_nhw, halo_sticks, source.shard.shape[0], tiled)
    run = work.sticks * stick / max(1, work.transfers)
    writing = work.transfers * transaction_cycles(figures, Way.L1_WRITE, run, TABLE_CYCLES)
    padded_height, padded_width = window.padded_hw
    pixels = min(1.0, window.input_pixels / (window.batch * padded_height * padded_width))
    empty = halo_sticks * (1 - pixels)
    fills = max(work.pad_runs, empty * stick / _ZEROS_BYTES) / PROCESSORS
    filling = fills * transaction_cycles(figures, Way.LOCAL, min(_ZEROS_BYTES, stick * run))
    crowd = work.remote_sticks * stick * parallel.cores_c / figures.neighbours_bytes_per_cycle
    moving = filling + writing + crowd + figures.barrier_cycles
    if not tiled:
        return Cycles(moving + figures.l1_latency_cycles, noc=moving)
    rows = div_up(source.shard.shape[0], TILE_SIZE)
    moving += div_up(rows, PROCESSORS) * figures.loopback_latency_cycles
    tiles = source.shard_pages
    untilize = tiles * figures.untilize_cycles * output.dtype.element_bytes / 2 + rows * figures.untilize_row_cycles
    total = figures.compute_start_cycles + max(untilize / rows + moving, untilize + crowd)
    return Cycles(total, unpack_pack=untilize, noc=moving)
