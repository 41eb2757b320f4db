# SPDX-License-Identifier: Apache-2.0
"""What the card would do for one call, worked out from specs alone: allocations, dispatched steps, frees.

A plan has no addresses and no values, so it can be cached and searched over. `placement.py` puts it into a card's
memory; the op's `numbers` compute the values.

An op's `plan` method receives a `Planner` and slots (one for each tensor) and returns the output slots. Ops that the
real library builds from others call those ops' planning functions with the same planner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import Memory, Region, footprint, l1_region
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.planning.slots import AllocateConfig, CircularBuffer, Slot
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import CoreRange, CoreRangeSet
from tt_cnn.virtual.types.lazy import lazy
from tt_cnn.virtual.types.tensor_spec import Spec


class Allocate(NamedTuple):
    slot: Slot
    by_call: bool = False
    """The call makes it and hands it to the device operation that writes it; most of those make their own outputs."""


class Free(NamedTuple):
    slot: Slot


@dataclass(frozen=True)
class Refuse:
    """A check fails here. What comes before is tried first, so that it is memory that runs out where it would."""

    error: CardError


Action = Allocate | Free | Step | Refuse


@dataclass(frozen=True, eq=False)
class Plan:
    """The actions of one call, in order, and its outputs. Slots below `len(inputs)` are the call's tensors."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    actions: tuple[Action, ...]
    consumed: tuple[Slot, ...] = ()
    """Inputs whose memory the call gives back (`move`, `deallocate_activation`)."""
    reads_memory: bool = True
    """It depends on how much memory is free (automatic slicing, choices among programs)."""

    @lazy
    def steps(self) -> list[Step]:
        return [a for a in self.actions if isinstance(a, Step)]

    @lazy
    def works_in_place(self) -> bool:
        """It takes no memory, gives none back, and its results are tensors that it was given."""
        ours = all(slot.id < len(self.inputs) for slot in self.outputs)
        return ours and all(isinstance(action, Step) for action in self.actions)

    @lazy
    def only_written(self) -> frozenset[int]:
        """Buffers of the call's tensors that it writes and does not read: what was in them does not matter."""
        read: set[int] = set()
        written: set[int] = set()
        for step in self.steps:
            read.update(slot.buffer for slot in step.inputs if slot.buffer not in written)
            written.update(slot.buffer for slot in step.outputs)
        return frozenset(slot.buffer for slot in self.inputs if slot.buffer in written - read)


@dataclass(frozen=True)
class FreeMemory:
    """What planning may know of the allocator: bytes per bank of L1 that are free, and all blocks."""

    l1: int
    l1_blocks: tuple[tuple[int, int, bool], ...] = ()
    """(address, bytes, in use) of L1, in the order of addresses."""

    @classmethod
    def of(cls, memory: Memory) -> FreeMemory:
        l1 = memory.regions[BufferType.L1]
        return cls(l1.size - l1.allocated, tuple(l1.blocks()))

    @property
    def _top(self) -> int | None:
        return self.l1_blocks[-1][0] + self.l1_blocks[-1][1] if self.l1_blocks else None

    def l1_region(self, card: Card) -> Region:
        """L1 with the same blocks, to try something in."""
        region = l1_region(card, card.l1_size if self._top is None else self._top)
        if self.l1_blocks:
            used = {address: size for address, size, in_use in self.l1_blocks if in_use}
            gaps = [(address, address + size) for address, size, in_use in self.l1_blocks if not in_use]
            region.restore((gaps, used))
        return region

    def as_memory(self, card: Card) -> Memory:
        """A memory with the same L1."""
        memory = Memory(card) if self._top is None else Memory(card, l1_small_size=card.l1_size - self._top)
        memory.regions[BufferType.L1] = self.l1_region(card)
        return memory


class _Simulation:
    """L1 as the plan's own allocations and frees will have left it; those of the call's inputs stay where they are."""

    def __init__(self, card: Card, region: Region) -> None:
        self._card, self._region = card, region
        self._addresses: dict[int, int] = {}
        self._seen = 0

    def lowest_after(self, actions: Sequence[Action]) -> int | None:
        region = self._region
        for action in actions[self._seen :]:
            if isinstance(action, Allocate) and action.slot.spec.memory_config.buffer_type is BufferType.L1:
                address = region.allocate(footprint(self._card, action.slot.spec).bank_bytes)
                if address is not None:  # what does not fit is refused when the plan is placed
                    self._addresses[action.slot.buffer] = address
            elif isinstance(action, Free) and action.slot.buffer in self._addresses:
                region.free(self._addresses.pop(action.slot.buffer))
        self._seen = len(actions)
        return region.lowest


@dataclass
class Planner:
    """Collects the actions of one call."""

    card: Card
    inputs: tuple[Slot, ...]
    free_memory: FreeMemory
    actions: list[Action] = field(default_factory=list)
    consumed: list[Slot] = field(default_factory=list)
    workers: CoreRangeSet | None = None
    """The cores that the call leaves to the op (`sub_core_grids`); all of the card without."""
    reads_memory: bool = False
    """Somebody has asked for it."""
    _next: int = 0
    _simulated: _Simulation | None = None

    @classmethod
    def for_specs(cls, card: Card, specs: Sequence[Spec], buffers: Sequence[int], memory: FreeMemory) -> Planner:
        """`buffers` numbers the inputs' memory, so that a tensor given twice (or a view of it) shares a buffer."""
        slots = tuple(Slot(i, b, s) for i, (s, b) in enumerate(zip(specs, buffers, strict=True)))
        return cls(card, slots, memory, _next=len(slots))

    @property
    def grid(self) -> CoreRangeSet:
        """All cores that ops may use."""
        x, y = self.card.grid
        return CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])

    @property
    def memory(self) -> FreeMemory:
        self.reads_memory = True
        return self.free_memory

    @property
    def next_buffer(self) -> int:
        """The number that the next tensor's memory gets; numbers grow in the order of allocation."""
        return self._next

    def _id(self) -> int:
        self._next += 1
        return self._next - 1

    def allocate(self, spec: Spec, by_call: bool = False) -> Slot:
        """A new device tensor."""
        id_ = self._id()
        slot = Slot(id_, id_, spec)
        self.actions.append(Allocate(slot, by_call))
        return slot

    def view(self, slot: Slot, spec: Spec) -> Slot:
        """The same memory under another spec."""
        return Slot(self._id(), slot.buffer, spec)

    def free(self, *slots: Slot) -> None:
        """Give back temporaries, as the real library's tensors do when they go out of scope."""
        self.actions.extend(Free(slot) for slot in slots)

    def consume(self, slot: Slot) -> None:
        """Give back an input of the call; its tensor is no longer allocated afterwards."""
        self.actions.append(Free(slot))
        self.consumed.append(slot)

    def program_l1(self) -> int:
        """Bytes from the L1 base to the lowest tensor at this point of the plan: what a program's buffers may take."""
        if self._simulated is None:
            self._simulated = _Simulation(self.card, self.memory.l1_region(self.card))
        lowest = self._simulated.lowest_after(self.actions)
        return (self.card.l1_size if lowest is None else lowest) - self.card.l1_base

    def table_on_cores(self, bank_bytes: int, cores: int, row_bytes: int = 0) -> AllocateConfig:
        """A table of a program in L1_SMALL, a row for each core."""
        return AllocateConfig(bank_bytes, cores, self._id(), row_bytes=row_bytes)

    def table_in_dram(self, spec: Spec) -> AllocateConfig:
        """A table of a program that is a tensor in DRAM."""
        need = footprint(self.card, spec)
        return AllocateConfig(need.bank_bytes, need.banks, self._id(), need.buffer_type, spec=spec)

    def dispatch(
        self,
        program: Program,
        inputs: Iterable[Slot],
        outputs: Iterable[Slot],
        configs: Iterable[AllocateConfig] = (),
    ) -> None:
        """Dispatch a device operation. Its outputs must have been allocated before, as the real library does."""
        self.actions.append(Step(program, tuple(inputs), tuple(outputs), tuple(configs)))

    def dispatch_move(self, program: Program, source: Slot, output: Slot, overlapping: Program | None = None) -> None:
        """Dispatch what brings a tensor to its new memory, which is known when the plan is placed: `overlapping` where
        that overlaps the old, nothing where it is the old."""
        instead = None if overlapping is None else Step(overlapping, (source,), (output,), moves=True)
        self.actions.append(Step(program, (source,), (output,), moves=True, overlapping=instead))

    def refused(self, error: CardError) -> Plan:
        """A plan that ends in an error. Plans are kept: the error must not hold on to the frames it was raised in."""
        actions = (*self.actions, Refuse(error.with_traceback(None)))
        return Plan(self.inputs, (), actions, reads_memory=self.reads_memory)

    def finish(self, outputs: Sequence[Slot]) -> Plan:
        return Plan(self.inputs, tuple(outputs), tuple(self.actions), tuple(self.consumed), self.reads_memory)


__all__ = [
    "AllocateConfig",
    "BufferType",
    "CircularBuffer",
    "FreeMemory",
    "Plan",
    "Planner",
    "Slot",
    "Step",
]
