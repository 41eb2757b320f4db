"""The time of a halo: runs of sticks copied to where windows need them."""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
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
    """Rows of the image are copied run by run to where windows need them, after untilizing where they are tiles."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    stick = output.shard.shape[1] * output.dtype.element_bytes
    sticks = source.shard.shape[0]
    width = window.input_hw[1]
    padded_height, padded_width = window.padded_hw
    run = 1.0 if window.transposed else float(min(width, sticks))
    tiled = source.layout is Layout.TILE
    if tiled:
        run = min(run, TILE_SIZE)
    halo_sticks = output.shard.shape[0]
    padded_pixels = window.batch * padded_height * padded_width
    real = min(float(halo_sticks), halo_sticks * window.input_pixels / padded_pixels)
    transfers = real / run * (1 + (run > 1) * width % TILE_SIZE / width if tiled else 1)
    each = transaction_cycles(figures, Way.L1_WRITE, run * stick, TABLE_CYCLES)
    empty = halo_sticks - real
    runs_of_padding = max(halo_sticks / padded_width, real if window.transposed else 0.0) if empty > 0 else 0.0
    pad_reads = max(runs_of_padding, empty * stick / _ZEROS_BYTES)
    moved = transfers * each + pad_reads * transaction_cycles(figures, Way.LOCAL, min(_ZEROS_BYTES, stick * run))
    blocks = div_up(sticks, TILE_SIZE) if tiled else 1
    moving = moved / PROCESSORS + blocks / PROCESSORS * figures.l1_latency_cycles + figures.barrier_cycles
    a_tile = figures.untilize_cycles * output.dtype.element_bytes / 2
    untilize = source.shard_pages * a_tile if tiled else 0.0
    return Cycles(max(moving, untilize) + figures.l1_latency_cycles, unpack_pack=untilize, noc=moving)
