"""Time of the steps around windows: halo, pools, upsampling."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import PHASES
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

_PROCESSORS = 2
"""A core's two data movement processors share the sticks."""
_TABLE_CYCLES = 30
"""Reading source, destination and length of a transfer from the table in L1 (halo_gather.cpp: six 16-bit loads)."""
_ZEROS_BYTES = 512
"""Padding is copied from a block of zeros of this size."""
_CHANNELS_AT_ONCE = 8
"""Tiles of channels that a pool reduces at once."""
_ROWS_AT_ONCE = 16


def halo_cycles(step: Step, figures: Figures) -> Cycles:
    """Rows of the image are copied run by run to where windows need them, after untilizing where they are tiles."""
    source, output = step.inputs[0].spec, step.outputs[0].spec
    window: SlidingWindow = step.program.decisions["window"]
    stick = output.shard.shape[1] * output.dtype.element_bytes
    sticks = source.shard.shape[0]
    width = window.input_hw[1]
    padded_width = window.padded_hw[1]
    run = 1.0 if window.transposed else float(min(width, sticks))
    tiled = source.layout is Layout.TILE
    if tiled:
        run = min(run, TILE_SIZE)
    halo_sticks = output.shard.shape[0]
    real = min(float(halo_sticks), halo_sticks * window.input_pixels / _padded_pixels(window))
    transfers = real / run * (1 + (run > 1) * width % TILE_SIZE / width if tiled else 1)
    each = transaction_cycles(figures, Way.L1_WRITE, run * stick, _TABLE_CYCLES)
    empty = halo_sticks - real
    runs_of_padding = max(halo_sticks / padded_width, real if window.transposed else 0.0) if empty > 0 else 0.0
    pad_reads = max(runs_of_padding, empty * stick / _ZEROS_BYTES)
    moved = transfers * each + pad_reads * transaction_cycles(figures, Way.LOCAL, min(_ZEROS_BYTES, stick * run))
    blocks = div_up(sticks, TILE_SIZE) if tiled else 1
    moving = moved / _PROCESSORS + blocks / _PROCESSORS * figures.l1_latency_cycles + figures.barrier_cycles
    untilize = source.shard_pages * _untilize_cycles(figures, output.dtype) if tiled else 0.0
    return Cycles(max(moving, untilize) + figures.l1_latency_cycles, unpack_pack=untilize, noc=moving)


def _padded_pixels(window: SlidingWindow) -> int:
    return window.batch * window.padded_hw[0] * window.padded_hw[1]


def _untilize_cycles(figures: Figures, dtype: DataType) -> float:
    return figures.untilize_cycles * dtype.element_bytes / 2


def pool_cycles(step: Step, figures: Figures) -> Cycles:
    """Window by window: the reader gathers its sticks, the matrix unit reduces them, the packer writes a stick."""
    attributes = step.program.decisions
    pool: Any = attributes["pool"]
    source, output = step.inputs[0].spec, step.outputs[0].spec
    height, width = pool.kernel
    channels = source.shard.shape[1]
    tiles = div_up(channels, TILE_SIZE)
    sticks = output.shard.shape[0]
    groups = div_up(tiles, _CHANNELS_AT_ONCE)
    chunks = div_up(height * width, TILE_SIZE)
    together = pool.dilation[1] == 1 and groups == 1
    size = channels * source.dtype.element_bytes / groups
    reads = height * groups * (1 if together else width)
    one_read = max(figures.stick_cycles, size * (width if together else 1) / figures.local_bytes_per_cycle)
    reading = reads * one_read + groups * chunks * (figures.local_latency_cycles + figures.barrier_cycles)
    faces = 1 if height * width <= _ROWS_AT_ONCE else 2
    compute: Any = attributes.get("compute")
    phases = PHASES.get(compute.math_fidelity, 4) if compute is not None else 4
    slower = 1.0 if not pool.is_average else phases / 2
    reducing = groups * figures.pool_stick_cycles + tiles * chunks * faces * figures.pool_tile_cycles * slower
    retilize = 0.0
    if output.layout is Layout.TILE:
        retilize = output.shard_pages * figures.tilize(DataType.BFLOAT16, output.dtype, False)
        retilize += div_up(sticks, TILE_SIZE) * 2 * figures.reconfigure_cycles
    total = max(sticks * reading / _PROCESSORS, sticks * reducing + retilize)
    return Cycles(total, matrix=sticks * reducing, unpack_pack=retilize, noc=sticks * reading / _PROCESSORS)


def upsample_cycles(step: Step, figures: Figures) -> Cycles:
    """Nearest: every stick is read once for each copy in a row, rows are copied; bilinear: four sticks a result."""
    output = step.outputs[0].spec
    cores = step.cores.num_cores()
    upsampling: Any = step.program.decisions.get("upsampling")
    stick = output.page_bytes
    sticks = output.shard.shape[0] if output.is_sharded else div_up(output.num_pages, cores)
    bilinear = upsampling is not None and getattr(upsampling, "mode", "nearest") != "nearest"
    extra = 0.0 if output.is_sharded else figures.page_cycles
    read = transaction_cycles(figures, Way.L1_READ, stick, extra + _TABLE_CYCLES / 2)
    moving = sticks * read * (4 if bilinear else 1) / _PROCESSORS
    tiles = div_up(output.page_shape[1], TILE_SIZE)
    reducing = sticks * (figures.pool_stick_cycles + tiles * figures.pool_tile_cycles) if bilinear else 0.0
    return Cycles(max(moving, reducing), matrix=reducing, noc=moving)
