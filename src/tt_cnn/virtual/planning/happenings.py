# SPDX-License-Identifier: Apache-2.0
"""What happens on a card when a plan runs, in order: memory taken and given back, device operations that are entered,
run and left.

This is the one reading of plans. Graph captures, profiles and conformance go by it, so they cannot disagree about when
a buffer came and went. The order is the real library's: a device operation allocates its own outputs and then the
tables of its program; without a program cache the tables go with the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.plan import Action, Allocate, Free, Plan, Refuse
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.planning.slots import AllocateConfig, Slot


@dataclass(frozen=True, slots=True)
class Taken:
    """Memory was allocated: for a tensor of the plan, for a table of a program, or outside any plan (neither)."""

    place: Place
    slot: Slot | None = None
    table: AllocateConfig | None = None
    from_host: bool = False
    """Its values come from the host (prepared weights): something reads them, and no step writes them."""


@dataclass(frozen=True, slots=True)
class Given:
    """Memory was freed."""

    place: Place
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """A device operation was called: what it allocates comes next."""

    placed: PlacedStep


@dataclass(frozen=True, slots=True)
class Ran:
    """Its program was dispatched, with its circular buffers in place of those of the program before."""

    placed: PlacedStep


@dataclass(frozen=True, slots=True)
class Left:
    """The device operation returned its outputs."""

    placed: PlacedStep


@dataclass(frozen=True, slots=True)
class Stayed:
    """A move whose tensor got the memory that it had: nothing was dispatched."""

    step: Step


@dataclass(frozen=True, slots=True)
class Refused:
    """The device operation failed before its program was dispatched."""

    placed: PlacedStep


Happening = Taken | Given | Entered | Ran | Left | Stayed | Refused


def happenings(
    plan: Plan, steps: Sequence[PlacedStep], places: Mapping[int, Place], refused: PlacedStep | None = None
) -> Iterator[Happening]:
    """Of a plan that was placed; of one that was refused, up to the refusal (at the step `refused`, if at a step)."""
    return _Reading(plan, steps, places, refused).read()


class _Reading:
    def __init__(
        self, plan: Plan, steps: Sequence[PlacedStep], places: Mapping[int, Place], refused: PlacedStep | None
    ) -> None:
        self.plan, self.places, self.refused = plan, places, refused
        self.placed = {id(one.step): one for one in (*steps, *([refused] if refused else ()))}
        written = {slot.buffer for step in plan.steps for slot in step.outputs}
        used = {slot.buffer for step in plan.steps for slot in step.inputs} | {slot.buffer for slot in plan.outputs}
        self.from_host = used - written
        self.waiting: list[Slot] = []
        """Allocated since the last step: by the next one, if that writes them and was not given them."""
        self.by_call = {a.slot.buffer for a in plan.actions if isinstance(a, Allocate) and a.by_call}

    def read(self) -> Iterator[Happening]:
        for action in self.plan.actions:
            if self._is_beyond(action):
                break
            if isinstance(action, Allocate):
                self.waiting.append(action.slot)
            elif isinstance(action, Free):
                yield from self._taken(self._all_waiting())
                yield Given(self.places[action.slot.buffer], action.slot)
            elif isinstance(action, Step):
                yield from self._step(action)
                if self._placed(action) is self.refused is not None:
                    break
        yield from self._taken(self._all_waiting())

    def _is_beyond(self, action: Action) -> bool:
        """The call was refused before or at this action."""
        if isinstance(action, Allocate | Free):
            return action.slot.buffer not in self.places
        return isinstance(action, Refuse) or (
            isinstance(action, Step) and id(action) not in self.placed and not action.moves
        )

    def _placed(self, step: Step) -> PlacedStep | None:
        return self.placed.get(id(step)) or self.placed.get(id(step.overlapping))

    def _step(self, step: Step) -> Iterator[Happening]:
        placed = self._placed(step)
        if placed is None:
            yield from self._taken(self._all_waiting())
            yield Stayed(step)
            return
        written = {slot.buffer for slot in step.outputs}
        own = set() if step.moves else written - self.by_call  # a move is given its new memory
        slots = self._all_waiting()
        yield from self._taken(slot for slot in slots if slot.buffer not in own)
        yield Entered(placed)
        yield from self._taken(slot for slot in slots if slot.buffer in own)
        tables = [Taken(place, table=table) for table, place in placed.tables]
        yield from tables
        if self.refused is not None and placed is self.refused:
            yield Refused(placed)
            return
        yield Ran(placed)
        if not placed.keeps_program:
            yield from (Given(taken.place) for taken in tables)
        yield Left(placed)

    def _all_waiting(self) -> list[Slot]:
        slots, self.waiting = self.waiting, []
        return slots

    def _taken(self, slots: Iterable[Slot]) -> Iterator[Happening]:
        for slot in slots:
            yield Taken(self.places[slot.buffer], slot, from_host=slot.buffer in self.from_host)
