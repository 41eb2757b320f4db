# SPDX-License-Identifier: Apache-2.0
"""Graph capture: what was called, planned and allocated, as the nodes of `ttnn.graph` in TT-NN 0.81.1.

Everything is read from calls, from commands (`planning/happenings.py`) and from what the allocator does; there is
no second bookkeeping. With NO_DISPATCH nothing runs and nothing is taken from memory: allocations always fit and have
address 0, as in TT-NN. A capture belongs to its thread: what other threads do meanwhile is not in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.devices.opening import open_devices
from tt_cnn.virtual.graphs.nodes import Form, Node, Nodes, form_of, form_of_table
from tt_cnn.virtual.planning.happenings import Entered, Given, Happening, Left, Ran, Refused, Stayed, Taken, happenings
from tt_cnn.virtual.planning.placement import Place, PlacedStep, Placement
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.planning.slots import CircularBuffer
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.threads.calls import followers
from tt_cnn.virtual.types.enums import DataType, Layout, NativeEnum
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

_CREATE = "tt::tt_metal::create_device_tensor"
_TO_DEVICE = "Tensor::to_device"
_DEALLOCATE = "Tensor::deallocate"
_READ = "Tensor::cpu"
_WRITE = "tt::tt_metal::copy_to_device"
_WITHOUT_VALUES = ("allocate_tensor_on_device", "empty", "empty_like")
"""Calls that take memory and write nothing into it; all others bring values from the host."""


class RunMode(NativeEnum):
    NORMAL = 0
    NO_DISPATCH = 1


class Capture:
    """One session: it follows its thread's calls on every device that is open, and grows the list of nodes."""

    def __init__(self, mode: RunMode, devices: list[MeshDevice], nested: bool = False) -> None:
        self.dry = mode is RunMode.NO_DISPATCH
        self._nested = nested
        self.nodes = Nodes()
        self._thread = threading.get_ident()
        self._devices = devices
        self._calls: list[bool] = []
        """Of the calls that are under way, whether each has a function."""
        self._programs = 0
        self._told_sub_devices = False
        self._stop: list[Callable[[], None]] = []
        for device in devices:
            self._listen(device)
        followers().append(self)

    # --- listening ----------------------------------------------------------------------------------------------

    def _listen(self, device: MeshDevice) -> None:
        def here(tell: Callable[..., None]) -> Callable[..., None]:
            def own_thread(*event: Any) -> None:
                if threading.get_ident() == self._thread:
                    tell(device, *event)

            return own_thread

        pairs: list[tuple[list[Any], Callable[..., None]]] = [
            (device.listeners, here(self._command)),
            (device.memory_listeners, here(self._memory)),
            (device.refusal_listeners, here(self._refused)),
        ]
        for listeners, listener in pairs:
            listeners.append(listener)
            self._stop.append(partial(listeners.remove, listener))
        if self.dry and not self._nested:
            device.begin_dry_run()

    def end(self) -> list[Node]:
        followers().remove(self)
        for stop in self._stop:
            stop()
        if self.dry and not self._nested:
            for device in self._devices:
                device.end_dry_run()
        return self.nodes.finished()

    def call_begins(self, name: str) -> None:
        """Calls that our own calls make are no functions of the graph; what the C++ library has inside them is."""
        self._calls.append(not name.startswith("ttnn.") or not self._in_call)
        if self._calls[-1]:
            self.nodes.begin(name)

    def call_ends(self, result: Any) -> None:
        if self._calls.pop():
            end = self.nodes.end()
            if isinstance(result, Tensor) and result._buffer is not None:
                self.nodes.output(end, result._buffer.device, result.spec, result._buffer.place)  # type: ignore
            elif isinstance(result, Tensor):
                self.nodes.host_output(end, result.spec)

    @property
    def _in_call(self) -> bool:
        return any(self._calls)

    # --- what happened ------------------------------------------------------------------------------------------

    def _memory(self, device: MeshDevice, what: str, place: Place, spec: Spec, by: str) -> None:
        """Memory taken and given back outside commands."""
        if what == "free":
            self._free(device, place, form_of(spec))
        elif self._in_call:
            self._take(device, place, spec, from_host=by not in _WITHOUT_VALUES)
        else:
            with self.nodes.function(f"ttnn.{by}"):
                self._take(device, place, spec, from_host=by not in _WITHOUT_VALUES)

    def _command(self, device: MeshDevice, command: Command) -> None:
        if self._in_call or command.plan is None:  # TT-NN's graphs have no signposts and no replays of traces
            self._tell_command(device, command)
        else:
            with self.nodes.function(command.name):
                self._tell_command(device, command)

    def _tell_command(self, device: MeshDevice, command: Command) -> None:
        nodes = self.nodes
        if command.plan is not None:
            self._tell(device, command.happenings(), command)
        elif command.fills is not None:
            (cell,) = command.reads
            nodes.begin(_READ, [f"Tensor({cell.spec.shape})", "blocking"])
            nodes.input(device, cell.spec, cell.place)
            nodes.host_output(nodes.end(), cell.spec)
        elif command.name == "ttnn.copy_host_to_device_tensor":  # others were reported when they took their memory
            (cell,) = command.writes
            nodes.begin(_WRITE, [f"Tensor({cell.spec.shape})"] * 2 + ["queue"])
            nodes.host_input(cell.spec)
            nodes.input(device, cell.spec, cell.place)
            nodes.output(nodes.end(), device, cell.spec, cell.place)

    def _refused(self, device: MeshDevice, name: str, plan: Plan, reached: Placement | None) -> None:
        """A call up to the point where it failed; what it had allocated by then is given back."""
        if reached is None:
            return
        own: list[tuple[Place, Form]] = []
        seen: list[Happening] = []
        for one in happenings(plan, reached.steps, reached.places, reached.refused):
            seen.append(one)
            if isinstance(one, Taken) and one.slot is not None:
                own.append((one.place, form_of(one.slot.spec)))
            elif isinstance(one, Given):
                own = [pair for pair in own if pair[0] is not one.place]
        command = Command(name, 0, lambda: None, plan=plan, steps=reached.steps, places=reached.places)
        self._tell(device, seen, command)
        for place, form in reversed(own):
            self._free(device, place, form)

    def _tell(self, device: MeshDevice, happenings: Iterable[Happening], command: Command) -> None:
        allocated: set[int] = set()
        for one in happenings:
            if isinstance(one, Taken) and one.slot is not None:
                self._take(device, one.place, one.slot.spec, from_host=one.from_host)
            elif isinstance(one, Taken) and one.table is not None:
                self._take_table(device, one)
            elif isinstance(one, Given):
                self._free(device, one.place, None if one.slot is None else form_of(one.slot.spec))
            elif isinstance(one, Entered):
                self._enter(device, command, one.placed, allocated)
            elif isinstance(one, Ran):
                self._program(device, command, one.placed)
            elif isinstance(one, Left):
                self._leave(device, command, one.placed)
                if one.placed.step.moves:
                    self._drop_moved()
            elif isinstance(one, Stayed):
                self._drop_moved()
            elif isinstance(one, Refused):
                for _, place in one.placed.tables:
                    self._free(device, place, None)
                self.nodes.end()
            if isinstance(one, Taken):
                allocated.add(id(one.place))

    # --- memory -------------------------------------------------------------------------------------------------

    def _take(self, device: MeshDevice, place: Place, spec: Spec, from_host: bool) -> None:
        nodes = self.nodes
        arguments = [repr(spec.shape), spec.dtype.native, spec.layout.native, "device", repr(spec.memory_config)]
        if from_host:
            nodes.begin(_TO_DEVICE, [f"Tensor({spec.shape})", "device", repr(spec.memory_config)])
            nodes.host_input(spec)
        else:
            nodes.begin(_CREATE, arguments)
        nodes.allocated(device, place, form_of(spec))
        nodes.output(nodes.end(), device, spec, place)

    def _take_table(self, device: MeshDevice, taken: Taken) -> None:
        nodes, table = self.nodes, taken.table
        assert table is not None
        form = form_of_table(table)
        spec = table.spec or Spec(Shape((table.cores, form.page_bytes // 2)), DataType.UINT16, Layout.ROW_MAJOR)
        nodes.begin(_TO_DEVICE, [f"Tensor({spec.shape})", "device", ""])
        nodes.host_input(spec)
        nodes.allocated(device, taken.place, form)
        nodes.output(nodes.end(), device, spec, taken.place)

    def _free(self, device: MeshDevice, place: Place, form: Form | None) -> None:
        if self.nodes.inside == _DEALLOCATE:
            self.nodes.freed(device, place, form)
        else:
            with self.nodes.function(_DEALLOCATE):
                self.nodes.freed(device, place, form)

    def _drop_moved(self) -> None:
        """The tensor that a move has emptied goes, without memory."""
        with self.nodes.function(_DEALLOCATE):
            pass

    # --- device operations --------------------------------------------------------------------------------------

    def _enter(self, device: MeshDevice, command: Command, placed: PlacedStep, before: set[int]) -> None:
        """`before`: what stood already when it was called. A step that fails never tells of its program."""
        step, places = placed.step, command.places
        arguments = [
            ", ".join(f"{k}={v}" for k, v in step.program.decisions.items()),
            f"{{{len(step.inputs)} tensors}}",
        ]
        program = {"program_cache_hit": placed.cached, "program_factory_index": 0, "program_factory_type": step.factory}
        dispatched = any(placed is one for one in command.steps)
        self.nodes.begin(step.program.device_operation, arguments, **(program if dispatched else {}))
        assert command.plan is not None
        given = {slot.buffer for slot in command.plan.inputs}
        for slot in step.inputs:
            self.nodes.input(device, slot.spec, places[slot.buffer])
        for slot in step.outputs:  # those that exist already are arguments too
            if slot.buffer in given or id(places[slot.buffer]) in before:
                self.nodes.input(device, slot.spec, places[slot.buffer])

    def _leave(self, device: MeshDevice, command: Command, placed: PlacedStep) -> None:
        # a program that is not kept clears its circular buffers when it goes, one that is kept leaves them to the next
        if not self.dry and not placed.keeps_program and any(not b.dataflow for b in placed.step.buffers):
            self._clear_buffers(device.get_device_ids()[0])
        end = self.nodes.end()
        for slot in placed.step.outputs:
            self.nodes.output(end, device, slot.spec, command.places[slot.buffer])

    def _program(self, device: MeshDevice, command: Command, placed: PlacedStep) -> None:
        chip = device.id() if self.dry else device.get_device_ids()[0]
        self._clear_buffers(device.id())
        circular = [(b, a) for b, a in zip(placed.step.buffers, placed.buffer_addresses, strict=True) if not b.dataflow]
        if self.dry or (not placed.cached and any(b.alias is None for b, _ in circular)):
            for buffer, address in circular:
                params = {"globally_allocated": str(int(buffer.alias is not None))}
                self._static("circular_buffer_allocate", buffer, 0 if self.dry else address, chip, params)
        if not self.dry:
            self._execution(device, command)
            return
        for buffer in placed.step.buffers:
            if buffer.scratch:
                self._static("scratchpad_allocate", buffer, 0, chip, {})
            elif buffer.dataflow:
                borrows = {"borrows_memory": str(int(buffer.alias is not None))}
                self._static("dataflow_buffer_allocate", buffer, 0, chip, borrows)

    def _clear_buffers(self, device_id: int) -> None:
        node = self.nodes.add("circular_buffer_deallocate_all", {"device_id": device_id}, child=True)
        self.nodes.connect(node, self.nodes.open_function)

    def _static(self, kind: str, buffer: CircularBuffer, address: int, device_id: int, params: dict[str, str]) -> None:
        self.nodes.add(
            kind,
            {
                "address": address,
                "core_range_set": str(buffer.cores),
                "device_id": device_id,
                **params,
                "size": buffer.bytes,
            },
            child=True,
        )

    def _execution(self, device: MeshDevice, command: Command) -> None:
        manager = device.id() // 2  # each device that a process opens brings one; their ids are 1, 3, 5, ...
        x, y = device.card.grid
        cores = f'[{{"end":{{"x":{x - 1},"y":{y - 1}}},"start":{{"x":0,"y":0}}}}]'
        if not self._told_sub_devices:
            self._told_sub_devices = True
            self.nodes.add(
                "sub_device_manager",
                {
                    "device_id": device.id(),
                    "sub_device_manager_id": manager,
                    "sub_devices": f'[{{"sub_device_id":0,"worker_core_ranges":{cores}}}]',
                },
                child=True,
            )
        self._programs += 1
        self.nodes.add(
            "program_execution",
            {
                "command_queue_id": command.queue,
                "device_id": device.id(),
                "global_call_count": self._programs * 1024,
                "physical_device_id": device.get_device_ids()[0],
                "runtime_id": self._programs,
                "sub_device_id": 0,
                "sub_device_manager_id": manager,
                "worker_core_ranges": cores,
            },
            child=True,
        )


class _Captures(threading.local):
    def __init__(self) -> None:
        self.list: list[Capture] = []


_captures = _Captures()


def is_graph_capture_active() -> bool:
    return bool(_captures.list)


def begin_graph_capture(run_mode: RunMode = RunMode.NORMAL) -> None:
    """Record what this thread calls on the open devices until `end_graph_capture`.

    Captures may be nested; then all of them have the run mode of the outermost, as in TT-NN.
    """
    if not isinstance(run_mode, RunMode):
        raise TypeError(f"begin_graph_capture(): incompatible function arguments: run_mode is {run_mode!r}")
    outer = _captures.list[0] if _captures.list else None
    if outer is not None:
        run_mode = RunMode.NO_DISPATCH if outer.dry else RunMode.NORMAL
    _captures.list.append(Capture(run_mode, open_devices(), nested=outer is not None))


def end_graph_capture() -> list[Node] | None:
    """The nodes recorded; None where no capture is active."""
    return _captures.list.pop().end() if _captures.list else None
