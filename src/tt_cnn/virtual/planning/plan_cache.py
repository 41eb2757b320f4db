# SPDX-License-Identifier: Apache-2.0
"""Plans and placements made before, so that a call that comes again is neither planned nor placed again.

Both are bounded: a search over thousands of shapes stays small.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from tt_cnn.virtual.planning.placement import Place, Placement
from tt_cnn.virtual.planning.plan import Allocate, Free, Plan

Gaps = tuple[tuple[int, int], ...]
"""What is free in L1, which is all that planning knows of the memory."""


class PlanCache:
    """Plans by what was asked, the oldest dropped first; those that depend on the memory also by its gaps.

    Whether a plan asks for the memory does not depend on what is free there, so one plan of a request tells it of all.
    """

    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self._plans: dict[Hashable, dict[Gaps | None, Plan]] = {}
        self._count = 0

    def get(self, request: Hashable, gaps: Gaps) -> Plan | None:
        plans = self._plans.get(request, {})
        return plans.get(None) or plans.get(gaps)

    def put(self, request: Hashable, gaps: Gaps, plan: Plan) -> None:
        self._plans.setdefault(request, {})[gaps if plan.reads_memory else None] = plan
        self._count += 1
        while self._count > self.limit:
            self._count -= len(self._plans.pop(next(iter(self._plans))))

    def __len__(self) -> int:
        return self._count


class KnownPlacement(NamedTuple):
    """A placement whose programs were all cached, so that it takes no memory for tables."""

    placement: Placement
    freed: tuple[Place, ...]
    """The inputs that it gives back."""
    taken: tuple[Place, ...]
    """What is still in use after it: temporaries are gone."""


class PlacementCache:
    """By the plan, its inputs and the gaps in memory. Whoever drops cached programs must `clear` it."""

    LIMIT = 4096

    def __init__(self) -> None:
        self._known: dict[Hashable, KnownPlacement] = {}

    def get(self, key: Hashable | None) -> KnownPlacement | None:
        return self._known.get(key)

    def put(self, key: Hashable, plan: Plan, placement: Placement) -> None:
        if len(self._known) >= self.LIMIT:
            self._known.clear()
        taken: dict[int, Place] = {}
        freed = []
        for action in plan.actions:
            if isinstance(action, Allocate):
                taken[action.slot.buffer] = placement.places[action.slot.buffer]
            elif isinstance(action, Free) and taken.pop(action.slot.buffer, None) is None:
                freed.append(placement.places[action.slot.buffer])
        self._known[key] = KnownPlacement(placement, tuple(freed), tuple(taken.values()))

    def clear(self) -> None:
        self._known.clear()
