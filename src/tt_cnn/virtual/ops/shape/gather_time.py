# SPDX-License-Identifier: Apache-2.0
"""Time of programs between row-major shards that gather the rows of a core's output from where they are.

Each core reads its rows, neighbours of the source in one piece where the kernel joins them, fills rows of padding from
a row of its own, and waits once. What comes from other cores crosses the network at the same time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.planning.program import Step

_Dimensions = tuple[int, ...]


class Gathered(NamedTuple):
    """What the busiest core does, in rows of its output; `crossing`: rows of all cores that come from another one."""

    read: int
    runs: int
    """Reads, where neighbours come in one."""
    filled: int
    crossing: int


def _gathered(rows: np.ndarray, source_height: int, output_height: int) -> Gathered:
    """`rows`: the source's row of each row of the output, -1 for padding; the heights are those of the shards."""
    here, there = np.arange(rows.size) // output_height, rows // source_height
    read = rows >= 0
    begins = read.copy()
    begins[1:] &= (np.diff(rows) != 1) | (np.diff(here) != 0) | (np.diff(there) != 0)

    def busiest(chosen: np.ndarray) -> int:
        return int(np.bincount(here[chosen], minlength=1).max())

    return Gathered(busiest(read), busiest(begins), busiest(~read), int((read & (there != here)).sum()))


def _flat(shape: _Dimensions, places: list[np.ndarray]) -> np.ndarray:
    """Rows of a tensor of `shape`, by their place in each of its dimensions but the last; -1 where one is outside."""
    rows, inside = np.zeros((), dtype=np.int64), np.ones((), dtype=bool)
    for axis, (extent, place) in enumerate(zip(shape[:-1], places, strict=True)):
        place = place.reshape([-1 if i == axis else 1 for i in range(len(places))])
        rows = rows * extent + place
        inside = inside & (place >= 0) & (place < extent)
    return np.where(inside, rows, -1).reshape(-1)


@lru_cache(maxsize=256)
def boxed_rows(
    source: _Dimensions, output: _Dimensions, begins: _Dimensions, steps: _Dimensions, heights: tuple[int, int]
) -> Gathered:
    """A box of a tensor, from `begins` on; before its first and behind its last row there is padding."""
    places = [begin + step * np.arange(extent) for begin, step, extent in zip(begins, steps, output[:-1], strict=False)]
    return _gathered(_flat(source, places), *heights)


@lru_cache(maxsize=256)
def exchanged_rows(source: _Dimensions, heights: tuple[int, int]) -> Gathered:
    """Channels and heights of (N, C, H, W) exchanged."""
    n, c, h, _ = source
    return _gathered(np.arange(n * c * h).reshape(n, c, h).transpose(0, 2, 1).reshape(-1), *heights)


def gathering_cycles(figures: Figures, step: Step, rows: Gathered, *, joined: bool, processors: int) -> Cycles:
    """`joined`: neighbours come in one read; `processors`: how many share the reading. Padding is for another one."""
    size = step.outputs[0].spec.page_bytes
    reads = rows.runs if joined else rows.read
    one = rows.read * size / max(1, reads)
    reading = reads * transaction_cycles(figures, Way.L1_READ, one) / processors
    filling = rows.filled * transaction_cycles(figures, Way.LOCAL, size)
    crossing = rows.crossing * size / figures.network_total_bytes_per_cycle
    total = figures.l1_latency_cycles + max(reading, filling, crossing)
    return Cycles(total, noc=total)
