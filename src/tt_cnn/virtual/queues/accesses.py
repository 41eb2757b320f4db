# SPDX-License-Identifier: Apache-2.0
"""The memory that a command touches, as the hazard check sees it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from tt_cnn.virtual.hazards.hazards import Access
from tt_cnn.virtual.planning.placement import Place, PlacedStep, Placement
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.tensors.storage import Buffer
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.lazy import lazy


def accesses_of(buffers: Sequence[Buffer], write: bool) -> list[Access]:
    return [_access(b.place, write, b.made_by) for b in buffers]


class CallAccesses(Sequence[Access]):
    """What a planned call reads and writes, given the places of its inputs and by what these were made.

    It is worked out when somebody looks: as long as there is one queue and no trace, nobody does.
    """

    def __init__(self, plan: Plan, placement: Placement, inputs: Sequence[tuple[Place, str]], op: str) -> None:
        self._plan, self._placement, self._inputs, self._op = plan, placement, inputs, op

    @lazy
    def _found(self) -> list[Access]:
        plan, inputs = self._plan, self._inputs
        held = dict(zip([slot.buffer for slot in plan.inputs], inputs, strict=True))
        written: dict[Place, str] = {}
        for slot in plan.outputs:
            known = inputs[slot.id] if slot.id < len(inputs) else held.get(slot.buffer)
            place, made_by = (self._placement.places[slot.buffer], self._op) if known is None else known
            written[place] = made_by
        return [
            *(_access(place, False, made_by) for place, made_by in inputs),
            *(_access(place, True, made_by) for place, made_by in written.items()),
            *temporaries(self._placement.steps, written),
        ]

    def __getitem__(self, index: Any) -> Any:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)


def temporaries(steps: Sequence[PlacedStep], outputs: Container[Place]) -> list[Access]:
    """Memory that a call writes beside its outputs: other queues and live tensors may be there later."""
    return [
        _access(here, True, f"a temporary of {placed.step.op}")
        for placed in steps
        for _, here in placed.allocated
        if here not in outputs
    ]


def _access(place: Place, write: bool, what: str) -> Access:
    return Access(place.buffer_type, place.address, place.address + place.bank_bytes, write, what)


def circular_buffers(steps: Sequence[PlacedStep]) -> list[Access]:
    """L1 that programs write below the lowest tensor: nobody's, but perhaps still read by a trace."""
    found = []
    for placed in steps:
        buffers = zip(placed.step.buffers, placed.buffer_addresses, strict=True)
        ranges = [(address, address + buffer.bytes) for buffer, address in buffers if buffer.alias is None]
        if ranges:
            start, end = min(start for start, _ in ranges), max(end for _, end in ranges)
            found.append(Access(BufferType.L1, start, end, True, f"the circular buffers of {placed.step.op}"))
    return found
