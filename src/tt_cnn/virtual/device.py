"""A card that is open: its memory, its queues, its traces, its program cache."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn.virtual import trace as traces
from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.engines import create_engine
from tt_cnn.virtual.errors import CardError, current_layer, fatal
from tt_cnn.virtual.hazards import Access, HazardChecker
from tt_cnn.virtual.memory import Memory
from tt_cnn.virtual.placement import Place, Placement, ProgramIds, place
from tt_cnn.virtual.plan import FreeMemory, Plan
from tt_cnn.virtual.plan_cache import PlanCache
from tt_cnn.virtual.queues import Command, Event, Queue, current_queue
from tt_cnn.virtual.storage import Buffer
from tt_cnn.virtual.trace import MeshTraceId, Trace
from tt_cnn.virtual.types.enums import Arch, BufferType
from tt_cnn.virtual.types.geometry import CoreCoord, CoreGrid, MeshShape
from tt_cnn.virtual.types.tensor_spec import Spec

log = logging.getLogger("tt_cnn.virtual")

MAX_QUEUES = 2
_FORGET_EVERY = 4096


@dataclass
class MemoryView:
    """What `ttnn.get_memory_view` tells."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    block_table: list[dict[str, str]]


@dataclass
class ProgramCache:
    """Programs seen before, and the L1_SMALL tables that stay allocated for them."""

    enabled: bool = True
    programs: dict[tuple[object, ...], list[Place]] = field(default_factory=dict)


class MeshDevice:
    """One chip or a row of chips. TT-NN's `Device` is the same class."""

    _next_id = 1

    def __init__(
        self,
        card: Card,
        *,
        shape: MeshShape,
        device_ids: Sequence[int],
        num_command_queues: int = 1,
        l1_small_size: int = 0,
        trace_region_size: int = 0,
        numerics: str = "device",
        engine: str = "cpu",
        hazards: str = "warn",
    ) -> None:
        if not 1 <= num_command_queues <= MAX_QUEUES:
            raise ValueError(f"num_command_queues is {num_command_queues}; a card has 1 or {MAX_QUEUES}")
        for name, size in (("l1_small_size", l1_small_size), ("trace_region_size", trace_region_size)):
            if size < 0:
                raise ValueError(f"{name} is {size}; it must be 0 or more bytes")
        self.card = card
        self.shape = shape
        self.memory = Memory(card, l1_small_size, trace_region_size)
        self.engine = create_engine(engine, numerics)
        self.hazards = HazardChecker(hazards)
        self.l1_small_size = l1_small_size
        self.trace_region_size = trace_region_size
        self.queues = [Queue(i, self.engine) for i in range(num_command_queues)]
        self.program_cache = ProgramCache()
        self.plans = PlanCache()
        self.traces: dict[int, Trace] = {}
        self.capturing: Trace | None = None
        self.lock = threading.RLock()
        self.closed = False
        self.allocations = 0
        self.live_buffers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.listeners: list[Callable[[Command], None]] = []
        self._device_ids = list(device_ids)
        self._programs = ProgramIds()
        self._last_trace = 0
        self._commands = 0
        self._warned_active_trace = False
        self._id = MeshDevice._next_id
        MeshDevice._next_id += 1

    # --- what users ask -----------------------------------------------------------------------------------------

    def id(self) -> int:
        return self._id

    def arch(self) -> Arch:
        return self.card.arch

    def compute_with_storage_grid_size(self) -> CoreCoord:
        return CoreCoord(*self.card.grid)

    @property
    def core_grid(self) -> CoreGrid:
        return CoreGrid(x=self.card.grid[0], y=self.card.grid[1])

    def dram_grid_size(self) -> CoreCoord:
        return CoreCoord(self.card.dram_banks, 1)

    def get_num_devices(self) -> int:
        return len(self._device_ids)

    def get_device_ids(self) -> list[int]:
        return list(self._device_ids)

    def get_device_id(self, *_: Any) -> int:
        return self._device_ids[0]

    def num_program_cache_entries(self) -> int:
        return len(self.program_cache.programs)

    def enable_program_cache(self) -> None:
        self.program_cache.enabled = True

    def disable_and_clear_program_cache(self) -> None:
        self.program_cache.enabled = False
        self.clear_program_cache()

    def clear_program_cache(self) -> None:
        with self.lock:
            for places in self.program_cache.programs.values():
                for here in places:
                    self.memory.free(here.buffer_type, here.address)
            self.program_cache.programs.clear()

    def memory_view(self, buffer_type: BufferType) -> MemoryView:
        region = self.memory.regions[buffer_type]
        blocks = region.blocks()
        table = [
            {
                "blockID": str(i),
                "address": str(address - region.base),
                "size": str(size),
                "prevID": str(i - 1 if i else 2**64 - 1),
                "nextID": str(i + 1 if i + 1 < len(blocks) else 2**64 - 1),
                "allocated": "yes" if used else "no",
            }
            for i, (address, size, used) in enumerate(blocks)
        ]
        allocated = region.allocated
        return MemoryView(region.banks, region.size, allocated, region.size - allocated, region.largest_free, table)

    def __repr__(self) -> str:
        return f"MeshDevice({'x'.join(map(str, self.shape))} grid, {self.get_num_devices()} devices)"

    # --- memory -------------------------------------------------------------------------------------------------

    @property
    def chips(self) -> int:
        return len(self._device_ids)

    def check_open(self) -> None:
        fatal(not self.closed, f"MeshDevice {self._id} is closed: open it again before using it.")

    def free_memory(self) -> FreeMemory:
        l1, dram = self.memory.regions[BufferType.L1], self.memory.regions[BufferType.DRAM]
        return FreeMemory(l1.size - l1.allocated, l1.largest_free, dram.size - dram.allocated)

    def allocate(self, spec: Spec, made_by: str) -> Buffer:
        """A new buffer outside any op (transfers, `allocate_tensor_on_device`)."""
        with self.lock:
            self.check_open()
            check_shard_grid(self.card, spec)
            need = self.memory.footprint(spec)
            here = Place(need.buffer_type, self.memory.allocate(need), need.bank_bytes)
            return self.adopt(here, spec, made_by)

    def adopt(self, here: Place, spec: Spec, made_by: str) -> Buffer:
        """A buffer for memory that a placement has already taken."""
        buffer = Buffer(self, here, spec)
        self.allocations += 1
        buffer.serial = self.allocations
        buffer.made_by = made_by
        self.live_buffers.add(buffer)
        if self.traces and self.capturing is None and not self._warned_active_trace:
            self._warned_active_trace = True
            log.warning(
                "Allocating device buffers is potentially unsafe due to the existence of an active trace. These buffers "
                "may be corrupted once a trace is executed if they are not released before then."
            )
        return buffer

    def release(self, buffer: Buffer) -> None:
        self.memory.free(buffer.place.buffer_type, buffer.place.address)

    def place(self, plan: Plan, inputs: dict[int, Place]) -> Placement:
        """Put a plan into memory and remember its programs."""
        cache = self.program_cache
        cached = set(cache.programs) if cache.enabled else set()
        placement = place(plan, self.memory, inputs, cached, self._programs)
        if not cache.enabled:
            for places in placement.kept_configs.values():
                for here in places:
                    self.memory.free(here.buffer_type, here.address)
            return placement
        for placed in placement.steps:
            key = placed.step.program_key
            cache.programs.setdefault(key, placement.kept_configs.get(key, []))
        return placement

    def programs_cached(self, plan: Plan) -> bool:
        return all(step.program_key in self.program_cache.programs for step in plan.steps)

    # --- commands -----------------------------------------------------------------------------------------------

    def queue(self, cq_id: int | None) -> Queue:
        index = current_queue.get() if cq_id is None else int(cq_id)
        fatal(
            0 <= index < len(self.queues),
            f"cq_id {index} is out of range",
            f"  the device was opened with num_command_queues={len(self.queues)}",
        )
        return self.queues[index]

    def enqueue(self, command: Command) -> None:
        """Hand a command to its queue, or to the trace that is being captured there."""
        command.layer = command.layer or current_layer()
        trace = self.capturing
        if trace is not None and trace.queue == command.queue:
            command.trace_id = int(trace.id)
            trace.commands.append(command)
        else:
            self._order(command)
            self.queues[command.queue].submit(command.run)
        for listener in self.listeners:
            listener(command)

    def _order(self, command: Command) -> None:
        if len(self.queues) > 1 and self.hazards.on:
            self.hazards.enqueue(command.queue, str(command), command.accesses)
            self._commands += 1
            if self._commands % _FORGET_EVERY == 0:
                self.hazards.forget_ordered()

    @contextmanager
    def record_commands(self) -> Iterator[list[Command]]:
        """Collect the commands enqueued inside, for reports."""
        commands: list[Command] = []
        self.listeners.append(commands.append)
        try:
            yield commands
        finally:
            self.listeners.remove(commands.append)

    def no_capture(self, message: str) -> None:
        """Some calls cannot be part of a trace."""
        fatal(self.capturing is None, message)

    def synchronize(self, cq_id: int | None = None) -> None:
        self.check_open()
        self.no_capture("Event Synchronization is not supported during trace capture.")
        for queue in self.queues if cq_id is None else [self.queue(cq_id)]:
            clock = self.hazards.event(queue.index)
            queue.finish()
            self.hazards.host_waited(clock)

    def record_event(self, cq_id: int | None) -> Event:
        self.check_open()
        queue = self.queue(cq_id)
        self.no_capture("Event Synchronization is not supported during trace capture.")
        event = Event(queue.index, self.hazards.event(queue.index))
        queue.record(event)
        return event

    def wait_for_event(self, cq_id: int | None, event: Event) -> None:
        self.check_open()
        queue = self.queue(cq_id)
        self.no_capture("Event Synchronization is not supported during trace capture.")
        queue.wait_for(event)
        self.hazards.wait(queue.index, event.clock)

    def event_synchronize(self, event: Event) -> None:
        self.no_capture("Event Synchronization is not supported during trace capture.")
        event.reached.wait()
        self.engine.finish(event.mark)
        self.hazards.host_waited(event.clock)
        self.queues[event.queue_id].raise_failure()

    # --- traces -------------------------------------------------------------------------------------------------

    def begin_trace(self, cq_id: int | None) -> MeshTraceId:
        self.check_open()
        queue = self.queue(cq_id)
        if self.capturing is not None:
            raise CardError(f"CQ {self.capturing.queue} is already being used for tracing tid {int(self.capturing.id)}")
        self._last_trace += 1
        self.capturing = Trace(MeshTraceId(self._last_trace), queue.index)
        return self.capturing.id

    def end_trace(self, trace_id: MeshTraceId, cq_id: int | None) -> None:
        self.check_open()
        queue = self.queue(cq_id)
        trace = self.capturing
        fatal(
            trace is not None and trace.id == trace_id and trace.queue == queue.index,
            f"CQ {queue.index} is not being used for tracing tid {int(trace_id)}",
        )
        assert trace is not None
        self.capturing = None
        trace.close(self.allocations)
        traces.reserve(self, trace)
        self.traces[int(trace.id)] = trace

    def _trace(self, trace_id: MeshTraceId) -> Trace:
        trace = self.traces.get(int(trace_id))
        fatal(
            trace is not None,
            f"Trace instance {int(trace_id)} must exist on Mesh device {self._id}'s active sub-device manager 0",
        )
        assert trace is not None
        return trace

    def execute_trace(self, trace_id: MeshTraceId, cq_id: int | None, blocking: bool) -> None:
        self.check_open()
        queue = self.queue(cq_id)
        self.no_capture("Command-list replay is not supported during trace capture.")
        trace = self._trace(trace_id)
        if self.hazards.on:
            traces.check_live_buffers(self, trace)
        runs = [command.run for command in trace.commands]

        def replay() -> None:
            for run in runs:
                run()

        replay_command = Command(
            f"replay of trace {int(trace.id)}", queue.index, replay, trace.accesses, trace_id=int(trace.id)
        )
        self.enqueue(replay_command)
        if blocking:
            self.synchronize(queue.index)

    def release_trace(self, trace_id: MeshTraceId) -> None:
        trace = self._trace(trace_id)
        for queue in self.queues:
            queue.finish()
        if trace.place is not None and trace.place.buffer_type is BufferType.TRACE:
            self.memory.free(BufferType.TRACE, trace.place.address)
        del self.traces[int(trace.id)]
        if not self.traces:
            self._warned_active_trace = False

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for all work and give everything back. Tensors that are left stay readable as deallocated ones."""
        if self.closed:
            return
        self.capturing = None
        try:
            for queue in self.queues:
                queue.finish()
        finally:
            for queue in self.queues:
                queue.close()
            self.traces.clear()
            self.program_cache.programs.clear()
            self.closed = True
            for buffer in list(self.live_buffers):
                buffer.allocated = False
                buffer.freed_by = "close_device"


def check_shard_grid(card: Card, spec: Spec) -> None:
    """Every core of a shard grid must have a bank on this card."""
    shard = spec.memory_config.shard_spec
    if shard is None:
        return
    limit = (card.dram_banks, 1) if spec.memory_config.is_dram() else card.grid
    end = shard.grid.bounding_box().end
    if end.x < limit[0] and end.y < limit[1]:
        return
    kind = spec.memory_config.buffer_type.name
    outside = next(c for c in shard.grid.cores() if c.x >= limit[0] or c.y >= limit[1])
    if kind == "DRAM" and outside.y:
        raise CardError(
            f"Invalid DRAM shard grid: shard core ({outside.x}, {outside.y}) is not on row 0. DRAM banks are 1D (bank_id "
            "== logical x-coordinate), so every shard core must have y == 0."
        )
    raise CardError(
        f"Invalid shard grid: shard core ({outside.x}, {outside.y}) has no {kind} bank on this device, which has "
        f"{limit[0] * limit[1]} of them. Derive the shard grid from the device (dram_grid_size() for DRAM, "
        "compute_with_storage_grid_size() for L1) rather than assuming a fixed size -- a harvested device exposes fewer "
        "banks than an unharvested one of the same type. An L1 shard core outside the compute grid is legal only while "
        "it is claimed via ServiceCoreManager."
    )


def accesses_of(buffers: Sequence[Buffer], write: bool) -> list[Access]:
    return [
        Access(b.place.buffer_type, b.place.address, b.place.address + b.place.bank_bytes, write, b.made_by)
        for b in buffers
    ]


def values_on(device: MeshDevice, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """One tensor a chip: a tensor that was never distributed goes to every chip."""
    if len(values) == device.chips:
        return values
    if len(values) == 1:
        return values * device.chips
    raise CardError(f"A tensor of {len(values)} shards cannot go to a mesh of {device.chips} devices.")
