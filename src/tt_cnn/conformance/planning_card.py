# SPDX-License-Identifier: Apache-2.0
"""A virtual card that plans and allocates but does not compute, and writes down what happens in its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.planning.happenings import Given, Happening, Taken, happenings
from tt_cnn.virtual.planning.placement import Place, Placement
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import Buffer, Cell
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import MeshShape
from tt_cnn.virtual.types.tensor_spec import Spec

RECORDED_L1_SMALL = 65536
"""`l1_small_size` of the recordings."""


@dataclass(frozen=True)
class Began:
    """A call was placed; `l1_in_use`: tensors stood in L1 already."""

    l1_in_use: bool


class PlanningCard(MeshDevice):
    """A clean card as the corpora were recorded on: one queue, no program cache, L1_SMALL of 64 KiB."""

    def __init__(self, name: str) -> None:
        self.happenings: list[Happening | Began] = []
        self._given_back: list[tuple[Buffer, list[Tensor]]] | None = None
        """Of a rehearsal."""
        self._rehearsed_from = 0
        """The newest buffer when it began."""
        super().__init__(
            card_by_name(name),
            shape=MeshShape(1, 1),
            device_ids=[0],
            l1_small_size=RECORDED_L1_SMALL,
            hazards="off",
        )
        self.disable_and_clear_program_cache()
        self.never_dispatches = True
        self.advises = False
        self.memory_listeners.append(self._note)

    def _note(self, what: str, here: Place, spec: Spec, by: str) -> None:
        """Memory taken and given back outside ops."""
        self.happenings.append(Taken(here) if what == "allocate" else Given(here))

    def enqueue(self, command: Command, wait: bool = False) -> int:
        """Reads run at once (of zeros, since nothing is computed), so that nobody waits for what never comes."""
        if command.accesses and not any(access.write for access in command.accesses):
            command.execute()
        return super().enqueue(command, wait)

    def give(self, spec: Spec) -> Buffer:
        """Memory of a call's input, which is no happening of the call, nor of its dry run."""
        listeners, self.memory_listeners = self.memory_listeners, []
        dry, self._dry = self._dry, {}
        try:
            return self.allocate(spec, "the recording")
        finally:
            self.memory_listeners, self._dry = listeners, dry

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Afterwards all is as before: memory, and tensors that calls inside have given back."""
        self._given_back, self._rehearsed_from = [], self.allocations
        before, happened = self._memory.snapshot(), len(self.happenings)
        try:
            yield
        finally:
            with self.lock:
                pass  # tensors that were dropped inside go now
            for buffer, tensors in self._given_back:
                buffer.allocated = True
                for tensor in tensors:
                    tensor._deallocated = False
            self._given_back = None
            for serial in [one for one in self.live if one > self._rehearsed_from]:
                super().let_go(serial, self.cells[serial])  # held by an error still: its memory is no longer its own
            self._memory.restore(before)
            del self.happenings[happened:]

    def let_go(self, serial: int, cell: Cell) -> None:
        """In a rehearsal, what a call gives back that was there before is noted; what is dropped goes."""
        buffer = self._watched[serial]() if self._given_back is not None and serial in self._watched else None
        if self._given_back is None or buffer is None or buffer.allocated or serial > self._rehearsed_from:
            super().let_go(serial, cell)
        else:
            self._given_back.append((buffer, [t for t in buffer.tensors if isinstance(t, Tensor) and t._deallocated]))

    def place(self, plan: Plan, inputs: dict[int, Place], admit: Callable[[Placement], None]) -> Placement:
        self.happenings.append(Began(self.memory.regions[BufferType.L1].allocated > 0))
        placement = super().place(plan, inputs, admit)
        self.happenings += happenings(plan, placement.steps, placement.places)
        return placement
