"""A plan put into memory: every buffer gets its address, every program is checked, or nothing happens at all."""

from __future__ import annotations

from dataclasses import dataclass, field

from tt_cnn.virtual.errors import CardError
from tt_cnn.virtual.memory import Memory
from tt_cnn.virtual.plan import Allocate, CircularBuffer, Free, Plan, Step
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
    plan: Plan, memory: Memory, inputs: dict[int, Place], cached: set[tuple[object, ...]], ids: ProgramIds
) -> Placement:
    """Run the plan's allocations against the memory. On any error the memory is as it was before."""
    before = memory.snapshot()
    try:
        return _place(plan, memory, dict(inputs), cached, ids)
    except BaseException:
        memory.restore(before)
        raise


def _place(
    plan: Plan, memory: Memory, places: dict[int, Place], cached: set[tuple[object, ...]], ids: ProgramIds
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
        else:
            _place_configs(action, memory, cached, result, fresh)
            placed = PlacedStep(action, _buffer_addresses(action, memory, places), fresh)
            placed.lowest_l1 = memory.regions[BufferType.L1].lowest
            _check_program(placed, memory, ids)
            result.steps.append(placed)
            fresh = []
    return result


def _place_configs(
    step: Step,
    memory: Memory,
    cached: set[tuple[object, ...]],
    result: Placement,
    fresh: list[tuple[Spec | None, Place]],
) -> None:
    if not step.configs or step.program_key in cached or step.program_key in result.kept_configs:
        return
    from tt_cnn.virtual.memory import Footprint

    kept = result.kept_configs.setdefault(step.program_key, [])
    for config in step.configs:
        need = Footprint(BufferType.L1_SMALL, config.bank_bytes, config.cores, config.bank_bytes * config.cores)
        here = Place(BufferType.L1_SMALL, memory.allocate(need), config.bank_bytes)
        kept.append(here)
        fresh.append((None, here))


def _buffer_addresses(step: Step, memory: Memory, places: dict[int, Place]) -> tuple[int, ...]:
    """Circular buffers stack up from the L1 base, each above all earlier ones that share a core with it."""
    alignment = memory.card.l1_alignment
    ends: list[tuple[CoreRange, int]] = []
    addresses = []
    for buffer in step.buffers:
        if buffer.alias is not None:
            addresses.append(places[buffer.alias.buffer].address)
            continue
        ranges = buffer.cores.ranges()
        start = max((end for core, end in ends if any(core.intersects(r) for r in ranges)), default=memory.card.l1_base)
        address = round_up(start, alignment)
        addresses.append(address)
        ends.extend((r, address + buffer.bytes) for r in ranges)
    return tuple(addresses)


def _check_program(placed: PlacedStep, memory: Memory, ids: ProgramIds) -> None:
    """The checks of a program when it is enqueued: its buffers must end inside L1 and below the lowest tensor."""
    program = ids.next()
    limit = memory.card.l1_size
    for buffer, address in zip(placed.step.buffers, placed.buffer_addresses, strict=True):
        end = address + buffer.bytes
        if buffer.alias is None and end > limit:
            raise CardError(
                f"Statically allocated {_kind(buffer)} buffers on core range {_widest(buffer.cores)} grow to {end} B "
                f"which is beyond max L1 size of {limit} B"
            )
    lowest = placed.lowest_l1
    if lowest is None:
        return
    for buffer, address in zip(placed.step.buffers, placed.buffer_addresses, strict=True):
        end = address + buffer.bytes
        if buffer.alias is None and end > lowest:
            end = max(
                a + b.bytes
                for b, a in zip(placed.step.buffers, placed.buffer_addresses, strict=True)
                if b.alias is None
            )
            kind = _kind(buffer)
            raise CardError(
                f"Statically allocated {kind} buffers in program {program} clash with L1 buffers on core range "
                f"{_widest(buffer.cores)}. L1 buffer allocated at {lowest} and static {kind} buffer region ends at {end}"
            )


def _kind(buffer: CircularBuffer) -> str:
    return "dataflow" if buffer.dataflow else "circular"


def _widest(cores: CoreRangeSet) -> CoreRange:
    return cores.ranges()[0] if cores.size() == 1 else cores.bounding_box()
