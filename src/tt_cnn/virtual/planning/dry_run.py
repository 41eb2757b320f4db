"""Memory for planning without a card's limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tt_cnn.virtual.memory.memory import Footprint, Memory, Region
from tt_cnn.virtual.types.enums import BufferType


class Boundless(Memory):
    """Memory of a dry run: all fits, at address 0. Real buffers are still given back to the real memory."""

    def __init__(self, real: Memory) -> None:
        self.real = real
        self.card = replace(real.card, l1_size=2**62)
        self.regions = {
            kind: Region(kind, r.base, r.size, r.alignment, r.bottom_up, r.banks) for kind, r in real.regions.items()
        }

    def allocate(self, footprint: Footprint) -> int:
        return 0

    def take(self, buffer_type: BufferType, address: int, bank_bytes: int) -> None:
        self.real.take(buffer_type, address, bank_bytes)

    def free(self, buffer_type: BufferType, address: int) -> None:
        if address:
            self.real.free(buffer_type, address)

    def copy(self) -> Memory:
        return Boundless(self.real.copy())

    def snapshot(self) -> Any:
        return self.real.snapshot()

    def restore(self, snapshot: Any) -> None:
        self.real.restore(snapshot)
