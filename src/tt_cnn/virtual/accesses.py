"""The memory that a command touches, as the hazard check sees it."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.hazards import Access
from tt_cnn.virtual.placement import PlacedStep
from tt_cnn.virtual.storage import Buffer
from tt_cnn.virtual.types.enums import BufferType


def accesses_of(buffers: Sequence[Buffer], write: bool) -> list[Access]:
    return [
        Access(b.place.buffer_type, b.place.address, b.place.address + b.place.bank_bytes, write, b.made_by)
        for b in buffers
    ]


def temporaries(steps: Sequence[PlacedStep], written: Sequence[Buffer]) -> list[Access]:
    """Memory that a call writes beside its outputs: other queues and live tensors may be there later."""
    outputs = {b.place for b in written}
    return [
        Access(here.buffer_type, here.address, here.address + here.bank_bytes, True, f"a temporary of {placed.step.op}")
        for placed in steps
        for _, here in placed.allocated
        if here not in outputs
    ]


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
