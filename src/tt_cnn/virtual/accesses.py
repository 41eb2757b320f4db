"""The memory that a command touches, as the hazard check sees it."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.hazards import Access
from tt_cnn.virtual.placement import PlacedStep
from tt_cnn.virtual.storage import Buffer


def accesses_of(buffers: Sequence[Buffer], write: bool) -> list[Access]:
    return [
        Access(b.place.buffer_type, b.place.address, b.place.address + b.place.bank_bytes, write, b.made_by)
        for b in buffers
    ]


def temporaries(steps: Sequence[PlacedStep], written: Sequence[Buffer]) -> list[Access]:
    """Memory that a call writes beside its outputs: other queues and live tensors may be there later."""
    outputs = {(b.place.buffer_type, b.place.address) for b in written}
    return [
        Access(here.buffer_type, here.address, here.address + here.bank_bytes, True, f"a temporary of {placed.step.op}")
        for placed in steps
        for _, here in placed.allocated
        if (here.buffer_type, here.address) not in outputs
    ]
