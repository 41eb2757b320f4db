# SPDX-License-Identifier: Apache-2.0
"""How tiles, rows and blocks are distributed to cores (TT-NN's `split_work_to_cores` and `work_split_tilize`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.geometry import (
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    cores_to_ranges,
    div_up,
    num_cores_to_corerangeset,
)

SINGLE_CORE = CoreRangeSet([CoreRange((0, 0), (0, 0))])


def split_work(card: Card, units: int, row_wise: bool = False) -> tuple[CoreRangeSet, int]:
    """The cores that units of work go to, one or more each, and the most units that one of them gets."""
    cores = min(units, card.cores)
    return num_cores_to_corerangeset(cores, CoreCoord(*card.grid), row_wise), div_up(units, cores) if cores else 0


def cores_among(grid: CoreRangeSet, units: int, row_wise: bool = False) -> CoreRangeSet:
    """The first cores of a grid that the caller chose (`sub_core_grids`), a unit each."""
    return cores_to_ranges(tuple(grid.cores(row_wise))[: min(units, grid.num_cores())])


def split_blocks(
    card: Card, blocks: int, grid: CoreRangeSet | None, row_wise: bool = False
) -> tuple[CoreRangeSet, int]:
    """Equal shares of blocks, the last core's perhaps smaller; returns the cores and a full share."""
    area = grid.num_cores() if grid is not None else card.cores
    cores, share = cores_and_share(area, blocks)
    if grid is None and row_wise:
        return num_cores_to_corerangeset(cores, CoreCoord(*card.grid), True), share
    return cores_to_ranges(grid_cores(card, grid)[:cores]), share


def cores_and_share(area: int, blocks: int) -> tuple[int, int]:
    share = div_up(blocks, area) if area else 1
    return (div_up(blocks, share) if share else blocks), share


@lru_cache(maxsize=64)
def grid_cores(card: Card, grid: CoreRangeSet | None, row_wise: bool = False) -> tuple[CoreCoord, ...]:
    """The cores of a grid (of the whole card without one), column after column unless `row_wise`."""
    if grid is None:
        x, y = card.grid
        grid = CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])
    return tuple(grid.cores(row_wise))


@dataclass(frozen=True)
class Squares:
    """A matrix of tiles cut into square blocks, one per core."""

    cores: int
    size: int
    """Tiles along a side of a block."""
    sub_size: int
    """Tiles of width that a core holds at a time."""


def square_blocks(area: int, width: int, height: int, tiles: int | None = None) -> Squares:
    """The smallest square blocks of which there are fewer than cores; `tiles` where they do not fill the matrix."""
    tiles = width * height if tiles is None else tiles
    size = _closest_square(div_up(tiles, area) if area else 1, width, height, area)
    return Squares(div_up(width, size) * div_up(height, size), size, size)


def _closest_square(blocks: int, width: int, height: int, area: int) -> int:
    if area <= 0:
        return 1
    root = isqrt(blocks)
    first = root if root * root == blocks else root + 1
    for side in range(max(first, 1), width * height + 1):
        if div_up(width, side) * div_up(height, side) < area:
            return side
    return 1


def limited_blocks(area: int, width: int, height: int, limit: int) -> Squares:
    """Blocks for cores that can hold `limit` tiles of width: larger ones are made of sub-blocks."""
    fatal(limit >= 1, "single_block_size_limit must be at least 1")
    cores = div_up(width, limit) * div_up(height, limit)
    if cores < area:
        return Squares(cores, limit, limit)
    best: tuple[int, int, int, int] | None = None
    for sub in range(limit - 1, 0, -1):
        for n in range(2, div_up(width, sub) + 1):
            size = n * sub
            count = div_up(width, size) * div_up(height, size)
            fits = count <= area and width % size < limit
            if fits and (best is None or count > best[0] or (count == best[0] and n < best[1])):
                best = (count, n, sub, size)
    fatal(best is not None, "No solution found for single_block_size")
    assert best is not None
    return Squares(best[0], best[3], best[2])


@dataclass(frozen=True)
class BlockSet:
    """Cores that process blocks of the same width in tiles."""

    tiles: int
    cores: CoreRangeSet


def block_sets(
    card: Card, width: int, height: int, limit: int, grid: CoreRangeSet | None, row_wise: bool
) -> list[BlockSet]:
    """Cores with full blocks, then those with the narrower ones at the ends of rows."""
    area = grid.num_cores() if grid is not None else card.cores
    squares = square_blocks(area, width, height)
    if squares.size > limit:
        squares = limited_blocks(area, width, height, limit)
    full, narrow = divmod(width, squares.size)
    per_row = full + (1 if narrow else 0)
    order = grid_cores(card, grid, row_wise)[: per_row * div_up(height, squares.size)]
    wide = [core for i, core in enumerate(order) if i % per_row < full]
    ends = [core for i, core in enumerate(order) if i % per_row >= full]
    return [
        BlockSet(tiles, cores_to_ranges(cores)) for tiles, cores in ((squares.sub_size, wide), (narrow, ends)) if cores
    ]


def largest_divisor(value: int, start: int, other: int = 1) -> int:
    """The largest number up to `start` that, times `other`, divides the value."""
    return next((n for n in range(start, 0, -1) if value % (n * other) == 0), 1)
