# SPDX-License-Identifier: Apache-2.0
"""How the work of reductions and of ops over rows is distributed to cores."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tt_cnn.virtual.ops.layout.work_split import cores_among
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRangeSet,
    cores_to_ranges,
    div_up,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.tensor_spec import Spec


def cores_for_work(
    planner: Planner, units: int, row_wise: bool = False, grid: CoreRangeSet | None = None
) -> CoreRangeSet:
    """A unit per core, column after column (or row after row), written as the fewest ranges; `grid`: the cores that the
    caller leaves to the op."""
    if grid is not None:
        return cores_among(grid, units, row_wise)
    card = planner.card
    cores = num_cores_to_corerangeset(min(units, card.cores), CoreCoord(*card.grid), row_wise)
    return cores_to_ranges(cores.cores())


_L1_SHARE = 0.95
"""Of the free L1, where an op chooses by it whether rows are kept (measured)."""


def usable_l1(planner: Planner) -> float:
    """Bytes that the buffers of a program with kept rows may take."""
    return _L1_SHARE * min(planner.program_l1(), planner.memory.l1_region(planner.card).size)


def staged(cores: CoreRangeSet, sizes: Mapping[str, int]) -> tuple[CircularBuffer, ...]:
    """Dataflow buffers by name, with their bytes."""
    return tuple(CircularBuffer(size, cores, dataflow=True, name=name) for name, size in sizes.items())


def tiles(spec: Spec) -> tuple[int, int, int]:
    """Matrices, tile rows and tile columns of one; row-major ones count the tiles they would fill."""
    padded = spec.padded_shape
    height = padded[-2] if len(padded) > 1 else 1
    return prod(tuple(padded)[:-2]), div_up(height, TILE_SIZE), div_up(padded[-1], TILE_SIZE)
