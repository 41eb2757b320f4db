# SPDX-License-Identifier: Apache-2.0
"""Which sticks of the padded input each core needs: the halo's exact sizes.

A stick is one pixel with its channels. Output pixels are distributed to cores in order; a core needs all sticks between
the first and the last that its windows touch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.lazy import lazy


@dataclass(frozen=True)
class Boundaries:
    """By core: first and last output pixel, first and last padded input stick (last < first: none)."""

    output_start: np.ndarray
    output_end: np.ndarray
    input_start: np.ndarray
    input_end: np.ndarray

    @lazy
    def most_sticks(self) -> int:
        return int((self.input_end - self.input_start).max()) + 1


def window_starts(window: SlidingWindow, pixels: np.ndarray) -> np.ndarray:
    """The padded input stick at which the window of an output pixel begins."""
    height, width = window.output_hw
    padded_height, padded_width = window.padded_hw
    if not height * width:  # nothing comes out: the op that wanted it refuses the call afterwards
        return np.zeros_like(pixels)
    rows, columns = np.divmod(pixels, width)
    images, rows = np.divmod(rows, height)
    step = window.window_step
    return (images * padded_height + rows * step[0]) * padded_width + columns * step[1]


@lru_cache(maxsize=2048)
def shard_boundaries(window: SlidingWindow, cores_nhw: int, snap_to_tile: bool = True) -> Boundaries:
    total = window.output_pixels
    share = round_up(total, cores_nhw * (TILE_SIZE if snap_to_tile else 1)) // cores_nhw
    padded_width = window.padded_hw[1]
    reach = (window.dilated[0] - 1) * padded_width + window.dilated[1] - 1
    output_start = np.minimum(np.arange(cores_nhw, dtype=np.int64) * share, total)
    output_end = np.minimum(output_start + share, total) - 1
    if window.scale is not None:
        return _bilinear_boundaries(window, output_start, output_end, reach)
    input_start = window_starts(window, np.minimum(output_start, total - 1))
    input_end = window_starts(window, output_end) + reach
    idle = (input_start == 0) & (output_start != 0)
    input_end[idle] = window_starts(window, output_end[idle])
    input_start[idle] = input_end[idle] + 1
    return Boundaries(output_start, output_end, input_start, input_end)


def _bilinear_boundaries(
    window: SlidingWindow, output_start: np.ndarray, output_end: np.ndarray, reach: int
) -> Boundaries:
    """Neighbouring output rows read the same input rows, so the least stick may be that of the second row's first
    pixel, and the largest that of the last but one row's last."""
    assert window.scale is not None
    height, width = window.output_hw
    padded_height, padded_width = window.padded_hw
    tops, lefts = (_first_neighbours(size, scale) for size, scale in zip(window.output_hw, window.scale, strict=True))

    def stick(row: np.ndarray, column: np.ndarray) -> np.ndarray:
        image, own = np.divmod(row, height)
        return (image * padded_height + tops[own]) * padded_width + lefts[column]

    busy = output_end >= output_start
    first, last = np.where(busy, output_start, 0), np.where(busy, output_end, 0)
    first_row, last_row = first // width, last // width
    several = last_row > first_row
    starts, ends = stick(first_row, first % width), stick(last_row, last % width)
    zeros = np.zeros_like(first)
    starts = np.where(several, np.minimum(starts, stick(np.minimum(first_row + 1, last_row), zeros)), starts)
    ends = np.where(several, np.maximum(ends, stick(np.maximum(last_row - 1, first_row), zeros + width - 1)), ends)
    return Boundaries(output_start, output_end, np.where(busy, starts, 1), np.where(busy, ends + reach, 0))


def _first_neighbours(size: int, scale: int) -> np.ndarray:
    """The upper or left neighbour of each output pixel, in the input with a border of one; summed up in float32."""
    step = np.float32(1) / np.float32(scale)
    offsets = np.full(size, step, dtype=np.float32)
    offsets[0] = np.float32(0.5) * step + np.float32(0.5)
    return np.floor(np.add.accumulate(offsets)).astype(np.int64)


def rows_per_core(pixels: int, cores_nhw: int) -> int:
    """Tiles of output rows that a core has."""
    return div_up(pixels, cores_nhw * TILE_SIZE)
