"""Placements made before: the same call on memory with the same gaps gets the same addresses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.planning.placement import Place, Placement
from tt_cnn.virtual.planning.plan import Allocate, Free, Plan


class KnownPlacement(NamedTuple):
    """A placement whose programs were all cached, so that it takes no memory for tables."""

    placement: Placement
    freed: tuple[Place, ...]
    """The inputs that it gives back."""
    taken: tuple[Place, ...]
    """What is still in use after it: temporaries are gone."""

    def apply(self, memory: Memory) -> None:
        """Leave the memory as placing the plan again would."""
        for here in self.freed:
            memory.free(here.buffer_type, here.address)
        for here in self.taken:
            memory.take(*here)


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
