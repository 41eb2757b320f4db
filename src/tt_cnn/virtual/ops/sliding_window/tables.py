# SPDX-License-Identifier: Apache-2.0
"""Bytes of the tables that sliding-window programs keep in L1_SMALL: what to copy where, and where windows begin.

Only sizes are planned. The halo's tables list pad runs and transfers of each core, shared between its two data
movement processors; every core's table has the length of the longest. Entries are 16-bit numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tt_cnn.virtual.ops.sliding_window.boundaries import Boundaries, shard_boundaries
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.types.geometry import TILE_SIZE

_ENTRY = 2
_HEADER = 3
"""Entries before a route's transfers: the core's two coordinates and the number of transfers."""
_TRANSFER = 3
"""Entries of a transfer: source, destination, length."""


@lru_cache(maxsize=2048)
def halo_tables(
    window: SlidingWindow, cores_nhw: int, snap_to_tile: bool, shard_height: int, tiled: bool, columns: int
) -> tuple[int, int, int, int]:
    """Bytes per core of the two padding and the two gather tables. `columns` is the width of the grid of cores,
    or 0 where the rows' cores stand in one line (block sharding)."""
    bounds = shard_boundaries(window, cores_nhw, snap_to_tile)
    starts, ends, pixels = _runs(window)
    pads = _pad_runs(bounds, starts, ends)
    first = int((pads // 2).max())
    second = int((pads - pads // 2).max())
    transfers = _transfers(bounds, starts, ends, pixels, shard_height, cores_nhw)
    gather = (_blocked if tiled else _alternating)(transfers, columns)
    return _ENTRY * 2 * (first + 1), _ENTRY * 2 * (second + 1), gather[0], gather[1]


@dataclass(frozen=True, eq=False)
class Gathering:
    """What each core's two processors copy, one after the other, and what cores send to each other."""

    transfers: np.ndarray
    """By processor: the two of the first core, the two of the second, and so on."""
    sticks: np.ndarray
    pads: np.ndarray
    """Columns: the processor, and the sticks of a run of padding that it fills."""
    remote_sticks: int
    """Of all cores together."""


@lru_cache(maxsize=2048)
def gathering(window: SlidingWindow, cores_nhw: int, halo_sticks: int, shard_height: int, tiled: bool) -> Gathering:
    """`halo_sticks`: of the output's shard; they tell whether cores make whole tiles."""
    snapped = shard_boundaries(window, cores_nhw, True)
    bounds = snapped if snapped.most_sticks == halo_sticks else shard_boundaries(window, cores_nhw, False)
    starts, ends, pixels = _runs(window)
    core, target, source, length = _transfers(bounds, starts, ends, pixels, shard_height, cores_nhw)
    remote = int(length[target != core].sum())
    if tiled:
        block, of, _, length = _split(source, length, TILE_SIZE, np.arange(core.size))
        core, odd = core[of], block % 2
    else:
        order = np.argsort(core, kind="stable")
        core, length = core[order], length[order]
        odd = (np.arange(core.size) - np.searchsorted(core, core)) % 2
    processor, processors = 2 * core + odd, 2 * cores_nhw
    transfers = np.bincount(processor, minlength=processors)
    sticks = np.bincount(processor, weights=length, minlength=processors)
    return Gathering(transfers, sticks, _pads_per_processor(bounds, starts, ends), remote)


def _pads_per_processor(bounds: Boundaries, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Runs of padding of each core: the first half of them for its first processor, the rest for its second."""
    counts = _pad_runs(bounds, starts, ends)
    core = np.repeat(np.arange(counts.size), counts)
    nth = np.arange(core.size) - np.repeat(np.cumsum(counts) - counts, counts)
    first, behind = bounds.input_start[core], bounds.input_end[core] + 1
    # A gap of padding lies behind each run of pixels, and one before the first.
    opens, closes = np.concatenate([[0], ends]), np.append(starts, np.iinfo(np.int64).max)
    gap = np.searchsorted(closes, first, side="right") + nth
    length = np.minimum(closes[gap], behind) - np.maximum(opens[gap], first)
    return np.stack([2 * core + (nth >= counts[core] // 2), length])


@lru_cache(maxsize=1024)
def _runs(window: SlidingWindow) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximal runs of sticks that are pixels: first and behind-last padded stick, and the first's pixel number."""
    height, width = window.input_hw
    padded_height, padded_width = window.padded_hw
    top, left = window.first_pixel
    if top < 0 or left < 0:  # more is cut off than is there: the library then takes every stick for padding
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    step_h, step_w = window.pixel_step
    images = np.arange(window.batch, dtype=np.int64)
    rows = np.arange(height, dtype=np.int64)
    row_starts = ((images[:, None] * padded_height + top + rows * step_h) * padded_width + left).reshape(-1)
    if step_w != 1:
        columns = np.arange(width, dtype=np.int64) * step_w
        starts = (row_starts[:, None] + columns).reshape(-1)
        joined = np.flatnonzero(np.diff(starts, prepend=-2) != 1)  # images without padding follow one another
        lengths = np.diff(np.append(joined, starts.size))
        return starts[joined], starts[joined] + lengths, joined
    if width == padded_width:
        joined = np.flatnonzero(np.diff(row_starts, prepend=row_starts[0] - width - 1) != width)
        lengths = np.diff(np.append(joined, row_starts.size)) * width
        return row_starts[joined], row_starts[joined] + lengths, joined * width
    return row_starts, row_starts + width, np.arange(row_starts.size, dtype=np.int64) * width


def _pad_runs(bounds: Boundaries, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many runs of padding each core's range has: gaps between pixel runs, and those cut off at its ends."""
    first, behind = bounds.input_start, bounds.input_end + 1
    low = np.searchsorted(ends, first, side="right")  # first run that ends behind the range's start
    high = np.searchsorted(starts, behind, side="left")  # first run that starts at or behind the range's end
    inside = high - low
    if not starts.size:
        return (behind > first).astype(np.int64)
    last = starts.size - 1
    has_runs = inside > 0
    pads_before = has_runs & (starts[np.minimum(low, last)] > first)
    pads_after = has_runs & (ends[np.maximum(high - 1, 0)] < behind)
    counts = np.where(has_runs, inside - 1 + pads_before + pads_after, 1)
    return np.where(behind > first, counts, 0)


def _transfers(
    bounds: Boundaries, starts: np.ndarray, ends: np.ndarray, pixels: np.ndarray, shard_height: int, cores: int
) -> np.ndarray:
    """Columns: source core, target core, source stick, length; in the order of targets and their sticks."""
    first, behind = bounds.input_start, bounds.input_end + 1
    low = np.searchsorted(ends, first, side="right")
    high = np.maximum(np.searchsorted(starts, behind, side="left"), low)
    counts = high - low
    target = np.repeat(np.arange(cores, dtype=np.int64), counts)
    run = (
        np.arange(target.size, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
    )
    begin = np.maximum(starts[run], first[target])
    end = np.minimum(ends[run], behind[target])
    some = end > begin  # an idle core's range is empty
    source = pixels[run] + begin - starts[run]
    return _split(source[some], (end - begin)[some], shard_height, target[some])


def _split(source: np.ndarray, length: np.ndarray, unit: int, target: np.ndarray) -> np.ndarray:
    """Runs cut at multiples of `unit`; the quotient is the source core."""
    pieces = (source + length - 1) // unit - source // unit + 1
    which = np.repeat(np.arange(source.size), pieces)
    nth = np.arange(which.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cut = (source[which] // unit + nth) * unit
    begin = np.maximum(source[which], cut)
    end = np.minimum(source[which] + length[which], cut + unit)
    core = begin // unit
    return np.stack([core, target[which], begin - core * unit, end - begin])


def _alternating(transfers: np.ndarray, columns: int) -> tuple[int, int]:
    """Row-major input: a core's own transfers first, then target by target; they alternate between processors."""
    core, target, _, _ = transfers
    order = np.lexsort((target, target != core, core))
    core, target = core[order], target[order]
    nth = np.arange(core.size) - np.searchsorted(core, core)
    return tuple(_longest(core[nth % 2 == part], target[nth % 2 == part]) for part in (0, 1))  # type: ignore[return-value]


def _blocked(transfers: np.ndarray, columns: int) -> tuple[int, int]:
    """Tiled input is untilized 32 rows at a time: transfers are cut there and sorted by source; blocks alternate."""
    core, target, source, length = transfers
    pieces = _split(source, length, TILE_SIZE, np.arange(core.size))
    block, of, offset, _ = pieces
    core, target, source = core[of], target[of], block * TILE_SIZE + offset
    keys = (target, source, core) if not columns else (target // columns, target % columns, source, core)
    order = np.lexsort(keys)
    core, target, odd = core[order], target[order], (block[order] % 2).astype(bool)
    return _longest(core[~odd], target[~odd]), _longest(core[odd], target[odd])


def _longest(core: np.ndarray, target: np.ndarray) -> int:
    """Bytes of the longest table: neighbouring transfers to one target share a header."""
    if not core.size:
        return 2 * _ENTRY
    change = np.ones(core.size, dtype=bool)
    change[1:] = (core[1:] != core[:-1]) | (target[1:] != target[:-1])
    entries = np.bincount(core, weights=_TRANSFER + _HEADER * change)
    longest = int(entries.max()) + 1
    return (longest + 1) // 2 * 2 * _ENTRY


@lru_cache(maxsize=2048)
def reader_table(window: SlidingWindow, cores_nhw: int, snap_to_tile: bool, first_rows: int, second_rows: int) -> int:
    """Bytes per core of a convolution's table of window positions: a count and the ends of each straight segment.

    A core's rows are cut into blocks of `first_rows` and `second_rows` in turn (one size when the second is 0).
    """
    bounds = shard_boundaries(window, cores_nhw, snap_to_tile)
    busy = bounds.output_start < window.output_pixels
    start, behind = bounds.output_start[busy], bounds.output_end[busy] + 1
    sizes = behind - start
    pair = first_rows + second_rows
    full, rest = np.divmod(sizes, pair)
    a_pair = 2 if second_rows else 1
    blocks = full * a_pair + (rest > 0) + ((rest > first_rows) if second_rows else 0)
    period, straight = _break_periods(window)
    breaks = together = np.zeros_like(start)
    if period:
        breaks = (behind - 1) // period - start // period
        together = _at_block_starts(start, sizes, first_rows, second_rows, period)
    if straight:
        breaks = breaks - ((behind - 1) // straight - start // straight)
        together = together - _at_block_starts(start, sizes, first_rows, second_rows, straight)
    entries = 2 * blocks + 2 * (blocks + breaks - together)
    longest = int(entries.max()) if entries.size else 0
    return (longest + longest % 2) * _ENTRY


def _break_periods(window: SlidingWindow) -> tuple[int, int]:
    """Pixels between places where windows leave the straight line (0: never), and between those where they do not for
    all that: the last row of an image and the first of the next may happen to be in line."""
    height, width = window.output_hw
    padded_height, padded_width = window.padded_hw
    step_h, step_w = window.window_step
    image = padded_height * padded_width
    if step_h * padded_width != width * step_w:
        in_line = image == (height - 1) * step_h * padded_width + width * step_w
        return width, height * width if in_line else 0
    return (height * width if image != height * width * step_w else 0), 0


def _at_block_starts(
    start: np.ndarray, sizes: np.ndarray, first_rows: int, second_rows: int, period: int
) -> np.ndarray:
    """Multiples of a period that fall on a block's start, where a segment begins anyway."""
    pair = first_rows + second_rows
    longest = int(sizes.max())
    offsets = np.arange(0, longest, pair)
    if second_rows:
        offsets = np.concatenate([offsets, offsets + first_rows])
    offsets = offsets[offsets > 0]
    if not offsets.size:
        return np.zeros_like(start)
    inside = offsets[None, :] < sizes[:, None]
    at_break = (start[:, None] + offsets[None, :]) % period == 0
    return (inside & at_break).sum(axis=1)
