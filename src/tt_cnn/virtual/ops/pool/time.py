# SPDX-License-Identifier: Apache-2.0
"""The time of a pool."""

from __future__ import annotations

from math import ceil

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import stick_read_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import PHASES
from tt_cnn.virtual.ops.pool.problem import Pool
from tt_cnn.virtual.ops.sliding_window.time import PROCESSORS
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

_CHANNELS_AT_ONCE = 8
"""Tiles of channels that a pool reduces at once."""
_ROWS_AT_ONCE = 16
_WORD = 4
_IDEAL_PER_CYCLE = 2048
"""Values that a core takes by upstream's performance model."""


def pool_cycles(pool: Pool, fidelity: MathFidelity, step: Step, figures: Figures) -> Cycles:
    """Window by window: the reader gathers its sticks, the matrix unit reduces them, the packer writes a stick.

    Windows of more sticks than a tile has rows come in parts; those between half a tile and a tile are filled up.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    height, width = pool.kernel
    channels = source.shard.shape[1]
    tiles = div_up(channels, TILE_SIZE)
    sticks = output.shard.shape[0]
    groups = div_up(tiles, _CHANNELS_AT_ONCE)
    part = _ROWS_AT_ONCE if 0 < channels % TILE_SIZE <= _ROWS_AT_ONCE else TILE_SIZE
    chunks = div_up(height * width, part)
    together = pool.dilation[1] == 1 and groups == 1
    size = channels * source.dtype.element_bytes / groups
    whole = _rows_in_one_part(height, width, part) if together else 0
    reading = whole * stick_read_cycles(figures, size * width)
    reading += groups * (height - whole) * width * stick_read_cycles(figures, size)
    reading += groups * chunks * (figures.local_latency_cycles + figures.barrier_cycles)
    if chunks == 1 and height * width > _ROWS_AT_ONCE:
        reading += groups * (part - height * width) * size / _WORD * figures.fill_word_cycles
    faces = 1 if height * width <= _ROWS_AT_ONCE else 2
    slower = PHASES.get(fidelity, 4) / 2 if pool.is_average else 1.0
    rows = height * width if height * width <= _ROWS_AT_ONCE else chunks * part
    reducing = groups * figures.pool_stick_cycles + tiles * chunks * faces * figures.pool_tile_cycles * slower
    reducing += tiles * rows * figures.pool_row_cycles
    retilize = 0.0
    if output.layout is Layout.TILE:
        retilize = output.shard_pages * figures.tilize(DataType.BFLOAT16, output.dtype, False)
        retilize += div_up(sticks, TILE_SIZE) * 2 * figures.reconfigure_cycles
    total = max(sticks * reading / PROCESSORS, sticks * reducing + retilize)
    return Cycles(total, matrix=sticks * reducing, unpack_pack=retilize, noc=sticks * reading / PROCESSORS)


def _rows_in_one_part(height: int, width: int, part: int) -> int:
    """Rows of a window that are read in one piece. One that goes on in the next part is read stick by stick."""
    return sum(row * width % part + width <= part for row in range(height))


def ideal_pool_cycles(pool: Pool, cores: int) -> int:
    """`create_op_performance_model` of the pool."""
    taken = pool.window_size * pool.window.output_pixels * pool.channels
    return ceil(taken / (cores * _IDEAL_PER_CYCLE))
