# SPDX-License-Identifier: Apache-2.0
"""What the times of reductions and sorts are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.rows import Passes, Stream, rows_per_core
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import Layout

SORT_STEPS = 21
"""Of a bitonic network that sorts 64 elements, two tiles deep: 1 + 2 + ... + 6."""
MERGE_STEPS = 6
"""Of one that merges two sorted halves of 64."""
_SWAP_CYCLES = 8
"""Two rows of 32 elements and their indices: loaded, compared, swapped and stored. With it a tile that is put in order
takes 5.4 thousand cycles; `topk` of 4096 elements in 0.5 ms on one Blackhole core (tt-metal pull request 53464) means
5.3 thousand. Upstream's own ratio of a sorted to a merged tile, 7 to 2, is that of the steps."""


def exchange_cycles(figures: Figures, steps: float) -> float:
    """The vector unit's time for compare-and-swap steps over two tiles of values and two of indices."""
    return steps * figures.vector_rows * _SWAP_CYCLES


@dataclass(frozen=True, kw_only=True)
class FoldingProgram(Program):
    """Each of a core's output tiles is made of many input tiles, one after the other."""

    results_per_core: int
    tiles_per_result: int
    tiles_at_once: int = 1
    """That are read together."""
    vector_instructions: ClassVar[int] = 0
    """For 32 elements of an input tile."""

    def a_tile(self, figures: Figures) -> float:
        """Cycles of an input tile, beside the vector unit's: brought to the registers, or added to what is there."""
        return figures.copy_tile_cycles

    def time(self, step: Step, figures: Figures) -> Cycles:
        x, out = step.inputs[0].spec, step.outputs[0].spec
        outputs = self.results_per_core
        tiles = outputs * self.tiles_per_result
        unpack, pack = unpack_cycles(figures, x.dtype), pack_cycles(figures, out.dtype)
        vector = figures.vector_rows * self.vector_instructions
        return overlapped_cycles(
            figures,
            step.cores.num_cores(),
            [Tiles(x, tiles, self.tiles_at_once)],
            [Tiles(out, outputs)],
            compute=tiles * (max(self.a_tile(figures), unpack) + vector) + outputs * (pack + figures.sync_cycles),
            vector=tiles * vector,
            unpack_pack=max(tiles * unpack, outputs * pack),
        )


def reduce_cycles(step: Step, figures: Figures, passes: Passes, units: int, length: int, at_once: int) -> Cycles:
    """`units` results of `length` tiles each, distributed to the cores; tiles are read `at_once` and added to the sums.

    Shards are at hand. A result is handed to the packer and written, with a wait for it, while the next is made.
    """
    x, out = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    most, average = rows_per_core(units, cores)
    read = Stream(x, length, at_once)
    write = Stream(out, 1, 1)
    compute = length * passes.total + passes.plain + figures.sync_cycles
    if x.layout is Layout.ROW_MAJOR:
        compute += length * figures.tilize(x.dtype, x.dtype, passes.fp32)
    pace = max(compute, read.alone(figures), write.alone(figures, read=False))
    busy = read.crowded(figures, cores) + write.crowded(figures, cores, read=False)
    first = read.together(figures, cores) + compute
    start = figures.constant_tile_cycles + 2 * figures.reconfigure_cycles
    total = start + first + max((most - 1) * pace, (average - 1) * busy) + write.together(figures, cores, read=False)
    in_dram = x.memory_config.is_dram() or out.memory_config.is_dram()
    return Cycles(
        total,
        unpack_pack=most * compute,
        dram=average * busy if in_dram else 0.0,
        noc=0.0 if in_dram else average * busy,
    )
