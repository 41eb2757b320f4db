# SPDX-License-Identifier: Apache-2.0
"""A card that is open: its memory, its queues, its traces, its program cache."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from threading import get_ident
from typing import Any

import torch

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.devices.repeats import Repeats
from tt_cnn.virtual.engines import MAX_QUEUES, create_engine
from tt_cnn.virtual.engines.precision import create_precision
from tt_cnn.virtual.errors.card_error import CardError, DoesNotFit, current_layer, fatal
from tt_cnn.virtual.hazards.hazards import HazardChecker
from tt_cnn.virtual.memory.heap import give_back
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.memory.view import MemoryView, memory_view
from tt_cnn.virtual.planning.dry_run import Boundless
from tt_cnn.virtual.planning.placement import Place, Placement, ProgramIds, place
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.planning.plan_cache import KnownPlacement, PlacementCache, PlanCache
from tt_cnn.virtual.planning.program import ProgramKey
from tt_cnn.virtual.queues.queue import Command, Event, Job, Queue, Timer, current_queue, timed
from tt_cnn.virtual.tensors.storage import Buffer, Cell, Dropped, Guard, LiveBuffer
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.tracing.trace import MeshTraceId, Trace, reserve
from tt_cnn.virtual.tracing.trace_memory import Loose, TraceMemory
from tt_cnn.virtual.types.enums import Arch, BufferType
from tt_cnn.virtual.types.geometry import CoreCoord, CoreGrid, MeshShape
from tt_cnn.virtual.types.tensor_spec import Spec

log = logging.getLogger("tt_cnn.virtual")


@dataclass
class ProgramCache:
    """Programs seen before, and the L1_SMALL tables that stay allocated for them."""

    enabled: bool = True
    programs: dict[ProgramKey, list[Place]] = field(default_factory=dict)


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
        precision: str = "float32",
        guard: float | None = None,
        samples: int | None = None,
    ) -> None:
        if not 1 <= num_command_queues <= MAX_QUEUES:
            raise ValueError(f"num_command_queues is {num_command_queues}; a card has 1 or {MAX_QUEUES}")
        for name, size in (("l1_small_size", l1_small_size), ("trace_region_size", trace_region_size)):
            if size < 0:
                raise ValueError(f"{name} is {size}; it must be 0 or more bytes")
        self.card = card
        self.shape = shape
        self._memory = Memory(card, l1_small_size, trace_region_size)
        self._dry: dict[int, Boundless] = {}
        """Memories of dry runs by their threads."""
        self.engine = create_engine(engine, numerics, create_precision(precision, guard, samples))
        self.hazards = HazardChecker(hazards, num_command_queues)
        self.l1_small_size = l1_small_size
        self.trace_region_size = trace_region_size
        self.queues = [Queue(i, self.engine) for i in range(num_command_queues)]
        self.program_cache = ProgramCache()
        self.plans = PlanCache()
        self.placements = PlacementCache()
        self.repeats = Repeats()
        self.traces: dict[int, Trace] = {}
        self.capturing: Trace | None = None
        self.loose = Loose(self.traces)
        self.lock = Guard(self._collected)
        self.closed = False
        self.allocations = 0
        self.live: dict[int, LiveBuffer] = {}
        """Buffers in use by their serial, the newest last."""
        self.cells: dict[int, Cell] = {}
        """Of the same buffers."""
        self._watched: dict[int, Dropped] = {}
        """Of the same buffers: goes to `lock.dropped` when the buffer is gone."""
        self.advises = True
        """Errors say what would fit, found by planning."""
        self.misfits: list[DoesNotFit] | None = None
        """Where it is a list, calls that do not fit are noted there and taken as if they did, to see what comes after
        them. Nothing may be computed then."""
        self.never_dispatches = False
        """Commands of all threads are planned and reported but not run."""
        self.listeners: list[Callable[[Command], None]] = []
        self.timers: list[Timer] = []
        """Told of each command that ran, with its times; while there is none, nothing is timed."""
        self.memory_listeners: list[Callable[[str, Place, Spec, str], None]] = []
        """Told of memory taken and given back outside commands: what, where, its spec and by what."""
        self.refusal_listeners: list[Callable[[str, Plan, Placement], None]] = []
        """Told of calls that did not fit or failed a check: the call, its plan, and how far it came."""
        self._device_ids = list(device_ids)
        self._programs = ProgramIds()
        self._last_trace = 0
        self._events = [0] * num_command_queues
        self._warned_active_trace = False
        self._id = MeshDevice._next_id
        MeshDevice._next_id += 2  # TT-NN 0.81.1 counts so: 1, then 3
        weakref.finalize(self, _stop, self.queues)

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

    def get_submeshes(self) -> list[MeshDevice]:
        """Those that were made of it; parts of a mesh cannot be opened yet, so none."""
        return []

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
            for here in chain.from_iterable(self.program_cache.programs.values()):
                self.memory.free(here.buffer_type, here.address)
            self.program_cache.programs.clear()
            self.placements.clear()

    def memory_view(self, buffer_type: BufferType) -> MemoryView:
        fatal(buffer_type in self.memory.regions, f"Allocator does not support allocating in {buffer_type}")
        with self.lock:
            return memory_view(self.memory.regions[buffer_type])

    def __repr__(self) -> str:
        return f"MeshDevice({'x'.join(map(str, self.shape))} grid, {self.get_num_devices()} devices)"

    # --- memory -------------------------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        """The card's, or that of a dry run where the present thread makes one."""
        return self._dry.get(get_ident(), self._memory) if self._dry else self._memory

    @property
    def no_dispatch(self) -> bool:
        """Commands are planned and reported but not run (graph capture with NO_DISPATCH)."""
        return self.never_dispatches or (bool(self._dry) and get_ident() in self._dry)

    def begin_dry_run(self) -> None:
        """What the present thread calls from now on takes no memory, always fits, and does not run."""
        with self.lock:
            self._dry.setdefault(get_ident(), Boundless(self._memory))

    def end_dry_run(self) -> None:
        with self.lock:
            self._dry.pop(get_ident(), None)

    @property
    def chips(self) -> int:
        return len(self._device_ids)

    def check_open(self) -> None:
        if self.closed:
            raise CardError(f"MeshDevice {self._id} is closed: open it again before using it.")

    def allocate(self, spec: Spec, made_by: str) -> Buffer:
        """A new buffer outside any op (transfers, `allocate_tensor_on_device`)."""
        with self.lock:
            self.check_open()
            check_shard_grid(self.card, spec)
            need = self.memory.footprint(spec)
            here = Place(need.buffer_type, self.memory.allocate(need), need.bank_bytes)
            for listener in self.memory_listeners:
                listener("allocate", here, spec, made_by)
            return self.adopt(here, spec, made_by)

    def adopt(self, here: Place, spec: Spec, made_by: str, captured: bool = False) -> Buffer:
        """A buffer for memory that a placement has already taken; `captured` for the result of a trace's command."""
        self.allocations += 1
        cell = Cell(here, spec) if captured else self.loose.cell_for(here, spec, self.capturing)
        buffer = Buffer(self, cell, self.allocations, made_by)
        self.live[buffer.serial] = LiveBuffer(here, spec, made_by)
        self.cells[buffer.serial] = cell
        self._watched[buffer.serial] = buffer.dropped = Dropped(buffer, self.lock.dropped.append)
        if self.traces and self.capturing is None and not self._warned_active_trace:
            self._warned_active_trace = True
            log.warning(
                "Allocating device buffers is potentially unsafe due to the existence of an active trace. These "
                "buffers may be corrupted once a trace is executed if they are not released before then."
            )
        return buffer

    def let_go(self, serial: int, cell: Cell) -> None:
        """A buffer no longer holds its cell."""
        if self.live.pop(serial, None) is not None:
            del self.cells[serial], self._watched[serial]
            self.loose.let_go(cell, self.capturing)

    def _collected(self, dropped: Dropped) -> None:
        if dropped.serial in self.live:
            self.let_go(dropped.serial, dropped.cell)
            self.take_back(dropped.cell.place, dropped.cell.spec)

    def take_back(self, here: Place, spec: Spec, by: str = "") -> None:
        """Memory that a buffer has given up."""
        for listener in self.memory_listeners:
            listener("free", here, spec, by)
        if not self.closed and here.address:  # a dry run has addresses 0
            self.memory.free(here.buffer_type, here.address)

    def place(self, plan: Plan, inputs: dict[int, Place], admit: Callable[[Placement], None]) -> Placement:
        """Put a plan into memory and remember its programs; nothing of it where `admit` raises."""
        cache = self.program_cache
        remember = cache.enabled and not self.no_dispatch
        programs = cache.programs if cache.enabled else {}
        placement = place(plan, self.memory, inputs, programs, self._programs, remember, admit)
        if not remember:
            return placement
        for placed in placement.steps:
            key = placed.step.program_key
            cache.programs.setdefault(key, placement.kept_configs.get(key, []))
        return placement

    def placement_key(self, plan: Plan, inputs: tuple[tuple[Place, str], ...]) -> Hashable | None:
        """All that the placement of a plan with cached programs depends on; of its inputs, their place and maker."""
        if self.no_dispatch or not self.program_cache.enabled:
            return None
        regions = self.memory.regions
        return plan, inputs, regions[BufferType.L1].gaps, regions[BufferType.DRAM].gaps

    def place_again(self, known: KnownPlacement, admit: Callable[[Placement], None]) -> Placement:
        admit(known.placement)
        for here in known.freed:
            self.memory.free(here.buffer_type, here.address)
        for here in known.taken:
            self.memory.take(*here)
        self._programs.next(len(known.placement.steps))
        return known.placement

    @property
    def watched(self) -> bool:
        """Somebody looks at single commands, or they do not run."""
        return self.capturing is not None or self.no_dispatch or bool(self.listeners)

    def programs_cached(self, plan: Plan) -> bool:
        return all(step.program_key in self.program_cache.programs for step in plan.steps if not step.moves)

    # --- commands -----------------------------------------------------------------------------------------------

    def queue(self, cq_id: int | None) -> Queue:
        if cq_id is not None and (isinstance(cq_id, bool) or not isinstance(cq_id, int)):
            raise TypeError(f"cq_id is {cq_id!r}; it must be the number of a command queue")
        index = current_queue.get() if cq_id is None else cq_id
        if not 0 <= index < len(self.queues):
            raise CardError(
                f"cq_id {index} is out of range",
                f"  the device was opened with num_command_queues={len(self.queues)}",
            )
        return self.queues[index]

    def captures(self, queue: int) -> bool:
        """What is enqueued there now does not run: a trace is captured, or commands are only planned."""
        return self.no_dispatch or (self.capturing is not None and self.capturing.queue == queue)

    def enqueue(self, command: Command, wait: bool = False) -> int:
        """Hand a command to its queue, or to the trace that is being captured there. Returns its tick on the queue."""
        tick = 0
        with self.lock:
            self.check_open()
            command.layer = command.layer or current_layer()
            trace = self.capturing
            captured = trace is not None and trace.queue == command.queue
            if self.no_dispatch:
                wait = False
            elif captured:
                assert trace is not None
                command.trace_id = int(trace.id)
                trace.commands.append(command)
                wait = False
            else:
                tick = self.hazards.enqueue(command.queue, command, command.accesses)
                if self.loose.cells:
                    self.loose.written_over(command)
                if not wait:
                    self.queues[command.queue].submit(self._job(command))
            for listener in self.listeners:
                listener(command)
        if wait:
            self._run_and_wait(command.queue, self._job(command))
        return tick

    def _job(self, command: Command) -> Job:
        return timed(command, self.engine, tuple(self.timers)) if self.timers else command.execute

    def _run_and_wait(self, index: int, job: Job, short: bool = True) -> None:
        clock = self.hazards.order.at(index)
        self.queues[index].submit_and_wait(job, short)
        with self.lock:
            self.hazards.order.host_waited(clock)

    @contextmanager
    def record_commands(self) -> Iterator[list[Command]]:
        """Collect the commands enqueued inside, for reports."""
        commands: list[Command] = []
        listener = commands.append
        self.listeners.append(listener)
        try:
            yield commands
        finally:
            self.listeners.remove(listener)

    def no_capture(self, queue: Queue, message: str) -> None:
        """Some calls cannot be part of a trace; on the other queue they are free to go."""
        fatal(self.capturing is None or self.capturing.queue != queue.index, message)

    def synchronize(self, cq_id: int | None = None) -> None:
        self.check_open()
        queues = self.queues if cq_id is None else [self.queue(cq_id)]
        for queue in queues:
            self.no_capture(queue, _NO_EVENTS)
        for queue in queues:
            clock = self.hazards.order.at(queue.index)
            queue.finish()
            with self.lock:
                self.hazards.order.host_waited(clock)
        for queue in queues:
            queue.raise_unseen()

    def record_event(self, cq_id: int | None) -> tuple[Event, int]:
        """A mark and its number on the queue."""
        queue = self.queue(cq_id)
        self.no_capture(queue, _NO_EVENTS)
        with self.lock:
            self.check_open()
            return self.mark(queue)

    def mark(self, queue: Queue) -> tuple[Event, int]:
        """The same, for who has the lock, outside of captures."""
        event = queue.record(self.hazards.order.at(queue.index))
        number = self._events[queue.index]
        self._events[queue.index] = number + 1
        return event, number

    def wait_for_event(self, cq_id: int | None, event: Event) -> None:
        queue = self.queue(cq_id)
        self.no_capture(queue, _NO_EVENTS)
        with self.lock:
            self.check_open()
            self.follow(queue, event)

    def follow(self, queue: Queue, event: Event) -> None:
        """What comes on a queue waits for an event; for who has the lock, outside of captures."""
        queue.wait_for(event)
        self.hazards.order.wait(queue.index, event.clock)

    def event_synchronize(self, event: Event) -> None:
        self.lock.check_owned()
        event.reached.wait()
        self.engine.finish(event.mark)
        with self.lock:
            self.hazards.order.host_waited(event.clock)

    # --- traces -------------------------------------------------------------------------------------------------

    def begin_trace(self, cq_id: int | None) -> MeshTraceId:
        queue = self.queue(cq_id)
        with self.lock:
            self.check_open()
            if self.capturing is not None:
                raise CardError(
                    f"CQ {self.capturing.queue} is already being used for tracing tid {int(self.capturing.id)}"
                )
            self._last_trace += 1
            self.capturing = Trace(MeshTraceId(self._last_trace), queue.index, TraceMemory(self.allocations))
            return self.capturing.id

    def end_trace(self, trace_id: MeshTraceId, cq_id: int | None) -> None:
        queue = self.queue(cq_id)
        with self.lock:
            self.check_open()
            trace = self.capturing
            fatal(
                trace is not None and trace.id == trace_id and trace.queue == queue.index,
                f"CQ {queue.index} is not being used for tracing tid {int(trace_id)}",
            )
            assert trace is not None
            self.capturing = None
            try:
                trace.close(self.cells.values(), self.allocations, self.engine)
                reserve(trace, self.memory, self.traces.values(), self.trace_region_size, self._id)
                self.traces[int(trace.id)] = trace
            finally:
                self.loose.forget()
            assert trace.replay is not None
            job = self.engine.captured(trace.replay)
            if job is not None:
                queue.submit(job)

    def execute_trace(self, trace_id: MeshTraceId, cq_id: int | None, blocking: bool) -> None:
        queue = self.queue(cq_id)
        self.no_capture(queue, "Command-list replay is not supported during trace capture.")
        with self.lock:
            self.check_open()
            trace = self.traces.get(int(trace_id))
            if trace is None:
                raise CardError(
                    f"Trace instance {int(trace_id)} must exist on Mesh device {self._id}'s active sub-device manager 0"
                )
            trace.memory.check(self, trace)
            command = trace.command_on(queue.index)
            self.hazards.enqueue(queue.index, command, command.accesses)
            trace.memory.replayed(self, trace)
            for listener in self.listeners:
                listener(command)
            if not blocking:
                queue.submit(self._job(command))
        if blocking:
            self._run_and_wait(queue.index, self._job(command), short=False)

    def release_trace(self, trace_id: MeshTraceId) -> None:
        """Give a trace's memory back. One that is not there is none to release, as in TT-NN."""
        with self.lock:
            trace = self.traces.pop(int(trace_id), None)
            if trace is not None and trace.place is not None and trace.place.buffer_type is BufferType.TRACE:
                self.memory.free(BufferType.TRACE, trace.place.address)
            self.loose.forget()
            if not self.traces:
                self._warned_active_trace = False

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for all work and give everything back. Tensors that are left stay readable as deallocated ones."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            self.capturing = None
            self.traces.clear()
            self.loose.forget()
            self.program_cache.programs.clear()
            self.placements.clear()
            self.live.clear()
            self.cells.clear()
            self._watched.clear()
        _stop(self.queues)
        give_back()
        for queue in self.queues:
            queue.raise_unseen()


_NO_EVENTS = "Event Synchronization is not supported during trace capture."


def _stop(queues: list[Queue]) -> None:
    """End the workers, after what is pending; also when a device is dropped without being closed."""
    for queue in queues:
        queue.close()


def device_of(tensor: Tensor, op: str, freed: str = "Tensor is not allocated") -> MeshDevice:
    """Where a tensor is; an error naming the op where it is on none, or is there no longer (`freed`)."""
    device = tensor.buffer(op, freed).device
    assert isinstance(device, MeshDevice), "buffers are made by devices"
    return device


def values_on(device: MeshDevice, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """One tensor per chip: a tensor that was never distributed goes to every chip."""
    if len(values) == device.chips:
        return values
    if len(values) == 1:
        return values * device.chips
    raise CardError(f"A tensor of {len(values)} shards cannot go to a mesh of {device.chips} devices.")
