"""What the times of reductions and sorts are made of."""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles
from tt_cnn.virtual.planning.program import Step

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


def folded_cycles(
    step: Step,
    figures: Figures,
    *,
    outputs: float,
    length: float,
    a_tile: float,
    vector: float = 0.0,
    at_once: int = 1,
) -> Cycles:
    """Each of a core's `outputs` tiles is made of `length` input tiles, one after the other.

    `a_tile`: cycles that an input tile takes beside the vector unit's. `at_once`: tiles that are read together.
    """
    x, out = step.inputs[0].spec, step.outputs[0].spec
    tiles = outputs * length
    unpack, pack = unpack_cycles(figures, x.dtype), pack_cycles(figures, out.dtype)
    return overlapped_cycles(
        figures,
        step.cores.num_cores(),
        [Tiles(x, tiles, at_once)],
        [Tiles(out, outputs)],
        compute=tiles * (max(a_tile, unpack) + vector) + outputs * (pack + figures.sync_cycles),
        vector=tiles * vector,
        unpack_pack=max(tiles * unpack, outputs * pack),
    )
