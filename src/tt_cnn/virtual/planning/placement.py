# SPDX-License-Identifier: Apache-2.0
"""A plan put into memory: every buffer gets its address, every program is checked, or nothing happens at all."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import CardError, DoesNotFit, fatal
from tt_cnn.virtual.hazards.hazards import Access
from tt_cnn.virtual.memory.memory import Footprint, Memory
from tt_cnn.virtual.planning.dry_run import Boundless
from tt_cnn.virtual.planning.plan import Allocate, AllocateConfig, CircularBuffer, Free, Plan, Refuse, Step
from tt_cnn.virtual.planning.program import ProgramKey
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
    """Of `step.buffers`, in their order; a borrowed one is where its tensor is, or inside it."""
    allocated: list[tuple[Spec | None, Place]] = field(default_factory=list)
    """Buffers allocated since the step before."""
    lowest_l1: int | None = None
    tables: list[tuple[AllocateConfig, Place]] = field(default_factory=list)
    """Those that its program brought; a program that was there before has them already."""
    keeps_program: bool = True
    """The program cache keeps the program and its tables. Without one they go when the program has run."""
    cached: bool = False
    """Its program was in the program cache."""


@dataclass
class Placement:
    places: dict[int, Place]
    """By the plan's buffer numbers."""
    steps: list[PlacedStep]
    accesses: Sequence[Access] = ()
    """Memory that the call reads and writes."""
    kept_configs: dict[ProgramKey, list[Place]] = field(default_factory=dict)
    """L1_SMALL tables of programs seen for the first time, by program key."""
    refused: PlacedStep | None = None
    """The step that was not dispatched, where that is what the call failed at."""


def _overlap(one: Place, other: Place) -> bool:
    lower, upper = sorted((one, other), key=lambda place: place.address)
    return one.buffer_type is other.buffer_type and upper.address < lower.address + lower.bank_bytes


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
    cached: Container[ProgramKey],
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
    except BaseException as error:
        placer.undo()
        if isinstance(error, CardError):
            error.reached = placer.result
        raise


def as_if_it_fit(plan: Plan, memory: Memory, inputs: dict[int, Place]) -> Placement:
    """The outputs of a plan that does not fit, where the calls after it look for them, and none of its steps.

    An output that finds no room either takes none, at address 0.
    """
    places = dict(inputs)
    for slot in plan.consumed:
        memory.free(places[slot.buffer].buffer_type, places[slot.buffer].address)
    for slot in plan.outputs:
        if slot.buffer not in places:
            need = memory.footprint(slot.spec)
            room = memory.regions[need.buffer_type].allocate(need.bank_bytes) if need.bank_bytes else 0
            places[slot.buffer] = Place(need.buffer_type, room or 0, need.bank_bytes)
    return Placement(places, [])


class _Placer:
    """Carries the actions of one plan out, in order."""

    def __init__(
        self,
        plan: Plan,
        memory: Memory,
        places: dict[int, Place],
        cached: Container[ProgramKey],
        ids: ProgramIds,
        keep_configs: bool,
    ) -> None:
        self.plan, self.memory, self.places = plan, memory, places
        self.cached, self.ids, self.keep_configs = cached, ids, keep_configs
        self.result = Placement(places, [])
        self.fresh: list[tuple[Spec | None, Place]] = []
        self.seen: set[ProgramKey] = set()
        """Programs of the steps so far."""
        self.changes: list[tuple[bool, Place]] = []
        """Memory that was taken (True) and given back, in order."""

    def undo(self) -> None:
        for taken, here in reversed(self.changes):
            if taken:
                self.memory.free(here.buffer_type, here.address)
            else:
                self.memory.take(*here)

    def run(self) -> Placement:
        at = 0
        try:
            for at, action in enumerate(self.plan.actions):  # noqa: B007  # where it ends, for the error
                if isinstance(action, Allocate):
                    slot = action.slot
                    self.places[slot.buffer] = self._take(self.memory.footprint(slot.spec), slot.spec)
                elif isinstance(action, Free):
                    self._give_back(self.places[action.slot.buffer])
                elif isinstance(action, Refuse):
                    raise CardError(action.error.message, action.error.advice)
                elif action.moves:
                    self._move(action)
                else:
                    self._dispatch(action)
        except CardError as error:
            error.where = _where(self.plan, at)
            raise
        return self.result

    def _take(self, need: Footprint, spec: Spec | None) -> Place:
        here = Place(need.buffer_type, self.memory.allocate(need), need.bank_bytes)
        self.fresh.append((spec, here))
        self.changes.append((True, here))
        return here

    def _give_back(self, here: Place) -> None:
        self.memory.free(here.buffer_type, here.address)
        self.changes.append((False, here))

    def _move(self, step: Step) -> None:
        """Not dispatched where the output got its input's address. Values that would be written over before they are
        read are staged in circular buffers, unless these would reach into the output."""
        source, output = self.places[step.inputs[0].buffer], self.places[step.outputs[0].buffer]
        if source.address == output.address:
            return
        if step.overlapping is not None and _overlap(source, output):
            card = self.memory.card
            _, end, _ = _static_addresses(step.overlapping, card.l1_base, card.dram_alignment)
            if end <= (output.address if output.buffer_type is BufferType.L1 else card.l1_size):
                step = step.overlapping
        self._dispatch(step)

    def _dispatch(self, step: Step) -> None:
        tables = self._place_configs(step) if step.configs else []
        card, memory = self.memory.card, self.memory
        lowest = None if isinstance(memory, Boundless) else memory.regions[BufferType.L1].lowest
        addresses, end, borrows = _static_addresses(step, card.l1_base, card.dram_alignment)
        if borrows:
            addresses = _with_borrowed(addresses, step.buffers, self.places)
        key = step.program_key
        cached = key in self.cached or (self.keep_configs and key in self.seen)
        self.seen.add(key)
        placed = PlacedStep(step, addresses, self.fresh, lowest, tables, self.keep_configs, cached)
        program = self.ids.next()
        try:
            if end > memory.program_limit("dataflow") or (lowest is not None and end > lowest):  # the lower limit
                _check_program(step, memory, lowest, program)
            if isinstance(memory, Boundless) and memory.l1_in_use and not cached:
                refusal = step.program.dry_run_refusal(step)
                fatal(refusal is None, refusal or "")
        except CardError:
            self.result.refused = placed
            raise
        self.result.steps.append(placed)
        self.fresh = []
        if not self.keep_configs:
            for here in self.result.kept_configs.pop(step.program_key, ()):
                self._give_back(here)

    def _place_configs(self, step: Step) -> list[tuple[AllocateConfig, Place]]:
        kept = self.result.kept_configs
        if step.program_key in self.cached or step.program_key in kept:
            return []
        tables = kept.setdefault(step.program_key, [])
        for config in step.configs:
            total = config.bank_bytes * config.cores
            here = self._take(Footprint(config.buffer_type, config.bank_bytes, config.cores, total), None)
            tables.append(here)
            self.places[config.buffer] = here
        return list(zip(step.configs, tables, strict=True))


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


_Static = tuple[tuple[int, ...], int, bool]
"""What is known of a step's buffers before tensors have addresses: where they are, but for those that borrow a tensor's
memory; where the highest ends; whether some borrow. Plain tuples of numbers, which the garbage collector forgets."""


def _with_borrowed(
    static: tuple[int, ...], buffers: tuple[CircularBuffer, ...], places: dict[int, Place]
) -> tuple[int, ...]:
    """A buffer that borrows a table of a program that is cached has no address of this placement."""
    addresses = list(static)
    for i, buffer in enumerate(buffers):
        if buffer.alias is not None and buffer.alias.buffer in places:
            addresses[i] = places[buffer.alias.buffer].address + buffer.offset
    return tuple(addresses)


def _static_addresses(step: Step, base: int, alignment: int) -> _Static:
    """The same wherever the tensors stand, so worked out once for a step. Scratchpads stand above all others."""
    known = getattr(step, "_static_addresses", None)
    if known is not None and known[0] == (base, alignment):
        return known[1]
    found = _stacked_alike(step.buffers, base, alignment)
    if found is None:
        addresses, regions = _stacked(step.buffers, base, alignment)
        borrows = any(buffer.alias is not None for buffer in step.buffers)
        found = addresses, max([end for _, _, end in regions], default=0), borrows
    object.__setattr__(step, "_static_addresses", ((base, alignment), found))  # a frozen dataclass, as `lazy` does it
    return found


def _stacked_alike(buffers: tuple[CircularBuffer, ...], base: int, alignment: int) -> _Static | None:
    """`_stacked` for most programs: all buffers are of one kind and on the same cores, and lie one above the other."""
    if not buffers:
        return (), 0, False
    cores, dataflow, addresses, end, borrows = buffers[0].cores, buffers[0].dataflow, [], base, False
    for buffer in buffers:
        if buffer.cores is not cores or buffer.dataflow is not dataflow or buffer.scratch:
            return None
        if buffer.alias is not None:
            borrows = True
            addresses.append(0)
        else:
            addresses.append(round_up(end, alignment))
            end = addresses[-1] + buffer.bytes
    return tuple(addresses), 0 if cores.empty() else end, borrows


def _stacked(
    buffers: tuple[CircularBuffer, ...], base: int, alignment: int
) -> tuple[tuple[int, ...], list[tuple[str, CoreRange, int]]]:
    """Addresses, and where the static region of each kind ends on each core range, in the order of naming."""
    stacks = {kind: _Stack(base, alignment) for kind in ("circular", "dataflow")}
    for buffer in buffers:
        stacks[_kind(buffer)].name(buffer.cores)
    addresses = [0] * len(buffers)
    for i, buffer in _scratch_last(buffers):
        if buffer.alias is None:
            addresses[i] = stacks[_kind(buffer)].put(buffer)
    return tuple(addresses), [(kind, *end) for kind, stack in stacks.items() for end in stack.ends.items()]


def _scratch_last(buffers: tuple[CircularBuffer, ...]) -> list[tuple[int, CircularBuffer]]:
    return sorted(enumerate(buffers), key=lambda item: item[1].scratch)


def _check_program(step: Step, memory: Memory, lowest: int | None, program: int) -> None:
    """The checks of a program when it is enqueued: its static regions end inside L1 and below the lowest tensor."""
    for kind, cores, end in _stacked(step.buffers, memory.card.l1_base, memory.card.dram_alignment)[1]:
        limit = memory.program_limit(kind)
        if end > limit:
            raise DoesNotFit(
                f"Statically allocated {kind} buffers on core range {cores} grow to {end} B which is beyond max L1 "
                f"size of {limit} B"
            )
        if lowest is not None and end > lowest:
            raise DoesNotFit(
                f"Statically allocated {kind} buffers in program {program} clash with L1 buffers on core range "
                f"{cores}. L1 buffer allocated at {lowest} and static {kind} buffer region ends at {end}"
            )


def _kind(buffer: CircularBuffer) -> str:
    return "dataflow" if buffer.dataflow else "circular"
