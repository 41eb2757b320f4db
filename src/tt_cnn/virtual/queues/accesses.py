"""The memory that a command touches, as the hazard check sees it."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tt_cnn.virtual.hazards.hazards import Access
from tt_cnn.virtual.planning.placement import Place, PlacedStep, Placement
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.tensors.storage import Buffer
from tt_cnn.virtual.types.enums import BufferType


def accesses_of(buffers: Sequence[Buffer], write: bool) -> list[Access]:
    return [_access(b.place, write, b.made_by) for b in buffers]


def accesses_of_call(plan: Plan, placement: Placement, buffers: Sequence[Buffer], op: str) -> list[Access]:
    """What a planned call reads and writes, given the buffers of its inputs."""
    held = {slot.buffer: buffer for slot, buffer in zip(plan.inputs, buffers, strict=True)}
    written: dict[Place, str] = {}
    for slot in plan.outputs:
        buffer = buffers[slot.id] if slot.id < len(buffers) else held.get(slot.buffer)
        if buffer is None:
            written[placement.places[slot.buffer]] = op
        else:
            written[buffer.place] = buffer.made_by
    return [
        *accesses_of(buffers, write=False),
        *(_access(place, True, made_by) for place, made_by in written.items()),
        *temporaries(placement.steps, written),
    ]


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
