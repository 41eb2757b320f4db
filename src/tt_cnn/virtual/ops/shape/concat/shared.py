# SPDX-License-Identifier: Apache-2.0
"""A concat that is about to be dispatched, as its programs see it."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.geometry import CoreRangeSet


@dataclass(frozen=True)
class Concat:
    planner: Planner
    inputs: tuple[Slot, ...]
    output: Slot
    dim: int
    groups: int
    grid: CoreRangeSet | None


def width_concat(rank: int, dim: int) -> bool:
    return dim + 1 == rank


def height_concat(rank: int, dim: int) -> bool:
    return rank >= 2 and dim + 2 == rank
