# SPDX-License-Identifier: Apache-2.0
"""Memory for planning without a card's limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tt_cnn.virtual.memory.memory import Footprint, Memory
from tt_cnn.virtual.types.enums import BufferType


class Boundless(Memory):
    """Memory of a dry run: all fits, at address 0. Real buffers are still given back to the real memory.

    Who asks what is free gets the real answer, without what the dry run has allocated, as in TT-NN.
    """

    def __init__(self, real: Memory) -> None:
        self.real = real
        self.card = replace(real.card, l1_size=2**62)
        self.regions = real.regions

    @property
    def l1_in_use(self) -> bool:
        """Tensors stand in the real L1."""
        return self.real.regions[BufferType.L1].allocated > 0

    def allocate(self, footprint: Footprint) -> int:
        return 0

    def take(self, buffer_type: BufferType, address: int, bank_bytes: int) -> None:
        if address:
            self.real.take(buffer_type, address, bank_bytes)

    def free(self, buffer_type: BufferType, address: int) -> None:
        if address:
            self.real.free(buffer_type, address)

    def program_limit(self, kind: str) -> int:
        """Dataflow buffers are laid out, and so compared with L1, when a program is made; circular buffers only when
        it is dispatched."""
        return self.real.program_limit(kind) if kind == "dataflow" else self.card.l1_size

    def copy(self) -> Memory:
        return Boundless(self.real.copy())

    def snapshot(self) -> Any:
        return self.real.snapshot()

    def restore(self, snapshot: Any) -> None:
        self.real.restore(snapshot)
