"""A plan put into memory: every buffer gets its address, every program is checked, or nothing happens at all."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.hazards.hazards import Access
from tt_cnn.virtual.memory.memory import Footprint, Memory
from tt_cnn.virtual.planning.plan import Action, Allocate, CircularBuffer, Free, Plan, Refuse, Step
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import CoreRange, CoreRangeSet, round_up
from tt_cnn.virtual.types.tensor_spec import Spec


class Place(NamedTuple):
    """The memory of one buffer."""

    buffer_type: BufferType
    address: int
    bank_bytes: int


@dataclass(slots=True)
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
    accesses: Sequence[Access] = ()
    """Memory that the call reads and writes."""
    kept_configs: dict[tuple[object, ...], list[Place]] = field(default_factory=dict)
    """L1_SMALL tables of programs seen for the first time, by program key."""


class ProgramIds:
    """Programs are numbered as they are made; messages quote the number."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, count: int = 1) -> int:
        self._last += count
        return self._last


def place(
    plan: Plan,
    memory: Memory,
    inputs: dict[int, Place],
    cached: Container[tuple[object, ...]],
    ids: ProgramIds,
    keep_configs: bool = True,
    admit: Callable[[Placement], None] = lambda placement: None,
) -> Placement:
    """Run the plan's allocations against the memory. On any error, of `admit` too, the memory is as it was before.

    Without a program cache a program's tables go with the program (`keep_configs` False).
    """
    placer = _Placer(plan, memory, dict(inputs), cached, ids, keep_configs)
    try:
        placement = placer.run()
        admit(placement)
        return placement
    except BaseException:
        placer.undo()
        raise


class _Placer:
    """Carries the actions of one plan out, in order."""

    def __init__(
        self,
        plan: Plan,
        memory: Memory,
        places: dict[int, Place],
        cached: Container[tuple[object, ...]],
        ids: ProgramIds,
        keep_configs: bool,
    ) -> None:
        self.plan, self.memory, self.places = plan, memory, places
        self.cached, self.ids, self.keep_configs = cached, ids, keep_configs
        self.result = Placement(places, [])
        self.fresh: list[tuple[Spec | None, Place]] = []
        self.changes: list[tuple[bool, Place]] = []
        """Memory that was taken (True) and given back, in order."""

    def undo(self) -> None:
        for taken, here in reversed(self.changes):
            if taken:
                self.memory.free(here.buffer_type, here.address)
            else:
                self.memory.take(*here)

    def run(self) -> Placement:
        for at, action in enumerate(self.plan.actions):
            try:
                self._act(action)
            except CardError as error:
                error.where = _where(self.plan, at)
                raise
        return self.result

    def _act(self, action: Action) -> None:
        if isinstance(action, Allocate):
            self.places[action.slot.buffer] = self._take(self.memory.footprint(action.slot.spec), action.slot.spec)
        elif isinstance(action, Free):
            self._give_back(self.places[action.slot.buffer])
        elif isinstance(action, Refuse):
            raise CardError(action.error.message, action.error.advice)
        elif not self._moves_nowhere(action):
            self._dispatch(action)

    def _take(self, need: Footprint, spec: Spec | None) -> Place:
        here = Place(need.buffer_type, self.memory.allocate(need), need.bank_bytes)
        self.fresh.append((spec, here))
        self.changes.append((True, here))
        return here

    def _give_back(self, here: Place) -> None:
        self.memory.free(here.buffer_type, here.address)
        self.changes.append((False, here))

    def _moves_nowhere(self, step: Step) -> bool:
        """A move whose output got its input's address is not dispatched."""
        return step.moves and (
            self.places[step.inputs[0].buffer].address == self.places[step.outputs[0].buffer].address
        )

    def _dispatch(self, step: Step) -> None:
        self._place_configs(step)
        addresses, regions = _buffer_addresses(step, self.memory, self.places)
        placed = PlacedStep(step, addresses, self.fresh, self.memory.regions[BufferType.L1].lowest)
        _check_program(regions, placed.lowest_l1, self.memory, self.ids)
        self.result.steps.append(placed)
        self.fresh = []
        if not self.keep_configs:
            for here in self.result.kept_configs.pop(step.program_key, ()):
                self._give_back(here)

    def _place_configs(self, step: Step) -> None:
        kept = self.result.kept_configs
        if not step.configs or step.program_key in self.cached or step.program_key in kept:
            return
        tables = kept.setdefault(step.program_key, [])
        for config in step.configs:
            total = config.bank_bytes * config.cores
            here = self._take(Footprint(config.buffer_type, config.bank_bytes, config.cores, total), None)
            tables.append(here)
            self.places[config.buffer] = here


def _where(plan: Plan, at: int) -> str:
    """The step that an action belongs to, in words: an allocation belongs to the step after it."""
    steps = plan.steps
    done = sum(isinstance(action, Step) for action in plan.actions[:at])
    if done >= len(steps):
        return "after the last step" if steps else ""
    action, step = plan.actions[at], steps[done]
    part = ""
    if isinstance(action, Allocate):
        part = " output" if any(slot.buffer == action.slot.buffer for slot in step.outputs) else " temporary"
    return f"step {done + 1} of {len(steps)}: {step.op}{part}"


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

    A buffer that borrows a table of a program that is cached has no address of this placement.
    """
    static, regions = _static_addresses(step, memory.card.l1_base, memory.card.dram_alignment)
    addresses = list(static)
    for i, buffer in enumerate(step.buffers):
        if buffer.alias is not None and buffer.alias.buffer in places:
            addresses[i] = places[buffer.alias.buffer].address
    return tuple(addresses), regions


def _static_addresses(step: Step, base: int, alignment: int) -> tuple[list[int], dict[str, dict[CoreRange, int]]]:
    """The same wherever the tensors stand, so worked out once for a step. Scratchpads stand above all others."""
    known = step.__dict__.get("_static_addresses")
    if known is not None and known[0] == (base, alignment):
        return known[1]
    found = _stacked_alike(step.buffers, base, alignment) or _stacked(step.buffers, base, alignment)
    step.__dict__["_static_addresses"] = (base, alignment), found  # a frozen dataclass, as cached_property does it
    return found


def _stacked_alike(
    buffers: tuple[CircularBuffer, ...], base: int, alignment: int
) -> tuple[list[int], dict[str, dict[CoreRange, int]]] | None:
    """`_stacked` for most programs: all buffers are of one kind and on the same cores, and lie one above the other."""
    if not buffers:
        return None
    cores, dataflow = buffers[0].cores, buffers[0].dataflow
    if any(one.cores is not cores or one.dataflow is not dataflow for one in buffers):
        return None
    addresses, end = [0] * len(buffers), 0
    for i, buffer in _scratch_last(buffers):
        if buffer.alias is None:
            addresses[i] = round_up(max(base, end), alignment)
            end = addresses[i] + buffer.bytes
    regions: dict[str, dict[CoreRange, int]] = {"circular": {}, "dataflow": {}}
    regions[_kind(buffers[0])] = dict.fromkeys(cores.ranges(), end)
    return addresses, regions


def _stacked(
    buffers: tuple[CircularBuffer, ...], base: int, alignment: int
) -> tuple[list[int], dict[str, dict[CoreRange, int]]]:
    stacks = {kind: _Stack(base, alignment) for kind in ("circular", "dataflow")}
    for buffer in buffers:
        stacks[_kind(buffer)].name(buffer.cores)
    addresses = [0] * len(buffers)
    for i, buffer in _scratch_last(buffers):
        if buffer.alias is None:
            addresses[i] = stacks[_kind(buffer)].put(buffer)
    return addresses, {kind: stack.ends for kind, stack in stacks.items()}


def _scratch_last(buffers: tuple[CircularBuffer, ...]) -> list[tuple[int, CircularBuffer]]:
    return sorted(enumerate(buffers), key=lambda item: item[1].scratch)


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
