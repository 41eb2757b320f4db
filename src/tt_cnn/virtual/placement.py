"""A plan put into memory: every buffer gets its address, every program is checked, or nothing happens at all."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from tt_cnn.virtual.errors import CardError
from tt_cnn.virtual.memory import Memory
from tt_cnn.virtual.plan import Allocate, CircularBuffer, Free, Plan, Refuse, Step
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import CoreRange, CoreRangeSet, round_up
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class Place:
    """The memory of one buffer."""

    buffer_type: BufferType
    address: int
    bank_bytes: int


@dataclass
class PlacedStep:
    """One dispatched step with its addresses: the record that reports, graph captures and conformance read."""

    step: Step
    buffer_addresses: tuple[int, ...]
    """Of `step.buffers`, in their order; a borrowed one is where its tensor is."""
    allocated: list[tuple[Spec | None, Place]] = field(default_factory=list)
    """Buffers allocated since the step before."""
    lowest_l1: int | None = None


@dataclass
class Placement:
    places: dict[int, Place]
    """By the plan's buffer numbers."""
    steps: list[PlacedStep]
    kept_configs: dict[tuple[object, ...], list[Place]] = field(default_factory=dict)
    """L1_SMALL tables of programs seen for the first time, by program key."""


class ProgramIds:
    """Programs are numbered as they are made; messages quote the number."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


def place(
    plan: Plan,
    memory: Memory,
    inputs: dict[int, Place],
    cached: Container[tuple[object, ...]],
    ids: ProgramIds,
    keep_configs: bool = True,
) -> Placement:
    """Run the plan's allocations against the memory. On any error the memory is as it was before.

    Without a program cache a program's tables go with the program (`keep_configs` False).
    """
    before = memory.snapshot()
    try:
        return _place(plan, memory, dict(inputs), cached, ids, keep_configs)
    except BaseException:
        memory.restore(before)
        raise


def _place(
    plan: Plan,
    memory: Memory,
    places: dict[int, Place],
    cached: Container[tuple[object, ...]],
    ids: ProgramIds,
    keep_configs: bool,
) -> Placement:
    result = Placement(places, [])
    fresh: list[tuple[Spec | None, Place]] = []
    for action in plan.actions:
        if isinstance(action, Allocate):
            need = memory.footprint(action.slot.spec)
            here = Place(need.buffer_type, memory.allocate(need), need.bank_bytes)
            places[action.slot.buffer] = here
            fresh.append((action.slot.spec, here))
        elif isinstance(action, Free):
            gone = places[action.slot.buffer]
            memory.free(gone.buffer_type, gone.address)
        elif isinstance(action, Refuse):
            raise CardError(action.error.message, action.error.advice)
        else:
            if action.moves and places[action.inputs[0].buffer].address == places[action.outputs[0].buffer].address:
                continue
            _place_configs(action, memory, cached, result, fresh)
            addresses, regions = _buffer_addresses(action, memory, places)
            placed = PlacedStep(action, addresses, fresh, memory.regions[BufferType.L1].lowest)
            _check_program(regions, placed.lowest_l1, memory, ids)
            result.steps.append(placed)
            fresh = []
            if not keep_configs:
                for here in result.kept_configs.pop(action.program_key, ()):
                    memory.free(here.buffer_type, here.address)
    return result


def _place_configs(
    step: Step,
    memory: Memory,
    cached: Container[tuple[object, ...]],
    result: Placement,
    fresh: list[tuple[Spec | None, Place]],
) -> None:
    if not step.configs or step.program_key in cached or step.program_key in result.kept_configs:
        return
    from tt_cnn.virtual.memory import Footprint

    kept = result.kept_configs.setdefault(step.program_key, [])
    for config in step.configs:
        need = Footprint(config.buffer_type, config.bank_bytes, config.cores, config.bank_bytes * config.cores)
        here = Place(config.buffer_type, memory.allocate(need), config.bank_bytes)
        kept.append(here)
        result.places[config.buffer] = here
        fresh.append((None, here))


@dataclass
class _Stack:
    """The static region of a program on each core range that its buffers name, in the order of their naming.

    Circular buffers and dataflow buffers have a stack each. A buffer starts above everything on its own ranges and is
    marked on every range that shares a core with them (TT-NN: `CircularBufferAllocator`, one for each named range).
    """

    base: int
    alignment: int
    ends: dict[CoreRange, int] = field(default_factory=dict)

    def name(self, cores: CoreRangeSet) -> None:
        for one in cores.ranges():
            self.ends.setdefault(one, 0)

    def put(self, buffer: CircularBuffer) -> int:
        ranges = buffer.cores.ranges()
        address = round_up(max([self.base, *(self.ends[r] for r in ranges)]), self.alignment)
        for one in ranges:
            for other, end in self.ends.items():
                if other == one or (address >= end and other.intersects(one)):
                    self.ends[other] = address + buffer.bytes
        return address


def _buffer_addresses(
    step: Step, memory: Memory, places: dict[int, Place]
) -> tuple[tuple[int, ...], dict[str, dict[CoreRange, int]]]:
    """Addresses of the step's buffers, and where each kind's static region ends on each core range.

    Scratchpads stand above all other dataflow buffers. A buffer that borrows a table of a program that is cached has no
    address of this placement.
    """
    stacks = {kind: _Stack(memory.card.l1_base, memory.card.dram_alignment) for kind in ("circular", "dataflow")}
    for buffer in step.buffers:
        stacks[_kind(buffer)].name(buffer.cores)
    addresses = [0] * len(step.buffers)
    for i, buffer in sorted(enumerate(step.buffers), key=lambda item: item[1].scratch):
        if buffer.alias is None:
            addresses[i] = stacks[_kind(buffer)].put(buffer)
        elif buffer.alias.buffer in places:
            addresses[i] = places[buffer.alias.buffer].address
    return tuple(addresses), {kind: stack.ends for kind, stack in stacks.items()}


def _check_program(
    regions: dict[str, dict[CoreRange, int]], lowest: int | None, memory: Memory, ids: ProgramIds
) -> None:
    """The checks of a program when it is enqueued: its static regions end inside L1 and below the lowest tensor."""
    program = ids.next()
    limit = memory.card.l1_size
    for kind, ends in regions.items():
        for cores, end in ends.items():
            if end > limit:
                raise CardError(
                    f"Statically allocated {kind} buffers on core range {cores} grow to {end} B which is beyond max L1 "
                    f"size of {limit} B"
                )
            if lowest is not None and end > lowest:
                raise CardError(
                    f"Statically allocated {kind} buffers in program {program} clash with L1 buffers on core range "
                    f"{cores}. L1 buffer allocated at {lowest} and static {kind} buffer region ends at {end}"
                )


def _kind(buffer: CircularBuffer) -> str:
    return "dataflow" if buffer.dataflow else "circular"
