"""Graph capture: what was called, planned and allocated, as the nodes of `ttnn.graph` in TT-NN 0.81.1.

Everything is read from commands and from what the allocator is told; there is no second bookkeeping. With NO_DISPATCH
nothing runs and nothing is taken from memory: allocations always fit and have address 0, as in TT-NN.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.devices.opening import open_devices
from tt_cnn.virtual.planning.dry_run import Boundless
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.plan import Allocate, CircularBuffer, Free, Plan, Slot, Step
from tt_cnn.virtual.queues.queue import SIGNPOST, Command
from tt_cnn.virtual.types.enums import BufferType, NativeEnum
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.tensor_spec import Spec

Node = dict[str, Any]


class RunMode(NativeEnum):
    NORMAL = 0
    NO_DISPATCH = 1


class Capture:
    """One session: it listens to every device that is open, and grows the list of nodes."""

    def __init__(self, mode: RunMode, devices: list[MeshDevice]) -> None:
        self.mode = mode
        self.nodes: list[Node] = []
        self._open: list[int] = []
        self._last_finished: int | None = None
        self._buffers: dict[tuple[BufferType, int], int] = {}
        self._sizes: dict[int, dict[str, int]] = {}
        self._tensors = 0
        self._programs = 0
        self._told_sub_devices = False
        self._begun = time.perf_counter_ns()
        self._listening: list[tuple[MeshDevice, Callable[[Command], None], Callable[..., None]]] = []
        self._open.append(self._node("capture_start", None, level=0))
        for device in devices:
            self._listen(device)

    # --- listening ----------------------------------------------------------------------------------------------

    def _listen(self, device: MeshDevice) -> None:
        def command(command: Command) -> None:
            self._command(device, command)

        def memory(what: str, place: Place, spec: Spec | None, by: str) -> None:
            self._memory(device, what, place, spec, by)

        device.listeners.append(command)
        device.memory_listeners.append(memory)
        self._listening.append((device, command, memory))
        if self.mode is RunMode.NO_DISPATCH:
            device.no_dispatch = True
            device.memory = Boundless(device.memory)

    def end(self) -> list[Node]:
        for device, command, memory in self._listening:
            device.listeners.remove(command)
            device.memory_listeners.remove(memory)
            if isinstance(device.memory, Boundless):
                device.memory = device.memory.real
                device.no_dispatch = False
        end = self._node("capture_end", None, level=0)
        self._follow(end)
        self.nodes[end]["duration_ns"] = time.perf_counter_ns() - self._begun
        return self.nodes

    # --- nodes --------------------------------------------------------------------------------------------------

    def _node(self, kind: str, params: dict[str, Any] | None, level: int | None = None, child: bool = False) -> int:
        counter = len(self.nodes)
        self.nodes.append(
            {
                "arguments": [],
                "connections": [],
                "counter": counter,
                "input_tensors": [],
                "node_type": kind,
                "params": params,
                "stacking_level": len(self._open) - 1 if level is None else level,
            }
        )
        if child:
            self.nodes[self._open[-1]]["connections"].append(counter)
        return counter

    def _follow(self, counter: int) -> None:
        """A function that ended is connected with what starts next."""
        if self._last_finished is not None:
            self.nodes[self._last_finished]["connections"].append(counter)
            self._last_finished = None

    @contextmanager
    def _function(self, name: str, arguments: list[str], **params: Any) -> Iterator[int]:
        start = self._node(
            "function_start", {"inputs": str(len(arguments)), "name": name, **params}, len(self._open), child=True
        )
        self.nodes[start]["arguments"] = arguments
        self._follow(start)
        self._open.append(start)
        begun = time.perf_counter_ns()
        yield start
        end = self._node("function_end", {"name": name}, child=True)
        self.nodes[end]["duration_ns"] = time.perf_counter_ns() - begun
        self._open.pop()
        self._last_finished = end

    def _output(self, device: MeshDevice, spec: Spec, place: Place) -> None:
        """A tensor that a function returns: connected with the function's end."""
        end = len(self.nodes) - 1
        level = self.nodes[end]["stacking_level"]
        tensor = self._tensor(device, spec, place, level)
        self.nodes[end]["connections"].append(tensor)

    def _tensor(self, device: MeshDevice, spec: Spec, place: Place, level: int | None = None) -> int:
        key = (place.buffer_type, place.address)
        known = self._buffers.get(key)
        chips = ",".join(
            f'{{"address":{place.address},"device_id":{chip},"mesh_device_id":{device.id()}}}'
            for chip in device.get_device_ids()
        )
        counter = self._node(
            "tensor",
            {
                "address": place.address,
                "buffer_type": place.buffer_type.value,
                "device_id": device.id(),
                "device_tensors": f"[{chips}]",
                "dtype": spec.dtype.native,
                "layout": spec.layout.native,
                "memory_config": repr(spec.memory_config),
                "shape": repr(spec.shape),
                "size": _bytes(spec),
                "storage_type": "DEVICE",
                "tensor_id": self._tensors,
            },
            level,
        )
        self._tensors += 1
        if known is None:
            known = self._buffer(device, spec, place)
        self.nodes[known]["connections"].append(counter)
        return counter

    def _buffer(self, device: MeshDevice, spec: Spec | None, place: Place) -> int:
        params = {
            "buffer_type": place.buffer_type.value,
            "device_id": device.id(),
            "layout": "HEIGHT_SHARDED" if spec is None else spec.memory_config.memory_layout.name,
            "size": place.bank_bytes if spec is None else _bytes(spec),
            "type": place.buffer_type.name,
        }
        counter = self._node("buffer", params, child=True)
        self._buffers[place.buffer_type, place.address] = counter
        return counter

    def _allocated(self, device: MeshDevice, spec: Spec | None, place: Place) -> None:
        buffer = self._buffer(device, spec, place)
        self._sizes[buffer] = _sizes(place, spec)
        node = self._node("buffer_allocate", {**self.nodes[buffer]["params"], **self._sizes[buffer]}, child=True)
        self.nodes[node]["connections"].append(buffer)

    def _freed(self, place: Place) -> None:
        buffer = self._buffers.pop((place.buffer_type, place.address), None)
        if buffer is not None:
            sizes = self._sizes.get(buffer) or _sizes(place, None)
            node = self._node("buffer_deallocate", {**self.nodes[buffer]["params"], **sizes}, child=True)
            self.nodes[node]["connections"].append(buffer)

    # --- what happened ------------------------------------------------------------------------------------------

    def _memory(self, device: MeshDevice, what: str, place: Place, spec: Spec | None, by: str) -> None:
        """Memory taken and given back outside commands."""
        if what == "allocate":
            assert spec is not None
            inner = "Tensor::to_device" if by == "to_device" else "tt::tt_metal::create_device_tensor"
            with self._function(f"ttnn.{by}", []):
                self._created(device, spec, place, inner)
        elif (place.buffer_type, place.address) in self._buffers:
            if by == "deallocate":
                with self._function("ttnn.deallocate", []), self._function("Tensor::deallocate", []):
                    self._freed(place)
            else:
                with self._function("Tensor::deallocate", []):
                    self._freed(place)

    def _created(
        self, device: MeshDevice, spec: Spec, place: Place, name: str = "tt::tt_metal::create_device_tensor"
    ) -> None:
        arguments = [repr(spec.shape), spec.dtype.native, spec.layout.native, "device", repr(spec.memory_config)]
        with self._function(name, arguments):
            self._allocated(device, spec, place)
        self._output(device, spec, place)

    def _command(self, device: MeshDevice, command: Command) -> None:
        if command.name in ("ttnn.to_device", SIGNPOST):
            return  # told when its memory was taken; TT-NN's graphs have no signposts
        with self._function(command.name, []):
            if command.plan is not None:
                self._plan(device, command, command.plan)

    def _plan(self, device: MeshDevice, command: Command, plan: Plan) -> None:
        """The actions in order; what is allocated before a step is allocated inside it, as the real library does."""
        steps = list(command.steps)
        waiting: list[Slot] = []
        for action in plan.actions:
            if isinstance(action, Allocate):
                waiting.append(action.slot)
            elif isinstance(action, Free):
                if action.slot not in plan.consumed:
                    with self._function("Tensor::deallocate", []):
                        self._freed(command.places[action.slot.buffer])
            elif isinstance(action, Step) and steps and steps[0].step is action:  # a move may need no step
                self._step(device, command, steps.pop(0), waiting)
                waiting = []

    def _step(self, device: MeshDevice, command: Command, placed: PlacedStep, created: list[Slot]) -> None:
        step, places = placed.step, command.places
        name = f"{step.op}DeviceOperation"
        arguments = [
            ", ".join(f"{k}={v}" for k, v in step.program.decisions.items()),
            f"{{{len(step.inputs)} tensors}}",
        ]
        with self._function(
            name,
            arguments,
            program_cache_hit=command.cached,
            program_factory_index=0,
            program_factory_type=step.factory,
        ) as start:
            for slot in step.inputs:
                tensor = self._tensor(device, slot.spec, places[slot.buffer])
                self.nodes[tensor]["connections"].append(start)
                self.nodes[start]["input_tensors"].append(tensor)
            for slot in created:
                self._created(device, slot.spec, places[slot.buffer])
            for spec, place in placed.allocated:
                if spec is None:
                    self._allocated(device, None, place)
            self._program(device, command, placed, start)
        for slot in step.outputs:
            self._output(device, slot.spec, places[slot.buffer])

    def _program(self, device: MeshDevice, command: Command, placed: PlacedStep, start: int) -> None:
        dry = self.mode is RunMode.NO_DISPATCH
        chip = device.id() if dry else device.get_device_ids()[0]
        self._clear_buffers(start, device.id())
        circular = [(b, a) for b, a in zip(placed.step.buffers, placed.buffer_addresses, strict=True) if not b.dataflow]
        if dry or (not command.cached and any(b.alias is None for b, _ in circular)):
            for buffer, address in circular:
                params = {"globally_allocated": str(int(buffer.alias is not None))}
                known = 0 if dry and buffer.alias is not None else address
                self._static("circular_buffer_allocate", buffer, known, chip, params)
        if dry:
            for buffer in placed.step.buffers:
                if buffer.dataflow:
                    kind = "scratchpad_allocate" if buffer.scratch else "dataflow_buffer_allocate"
                    params = {"borrows_memory": str(int(buffer.alias is not None))}
                    self._static(kind, buffer, 0, chip, params)
            return
        self._execution(device, command)
        if circular and not command.cached:
            self._clear_buffers(start, chip)

    def _clear_buffers(self, start: int, device_id: int) -> None:
        node = self._node("circular_buffer_deallocate_all", {"device_id": device_id}, child=True)
        self.nodes[node]["connections"].append(start)

    def _static(self, kind: str, buffer: CircularBuffer, address: int, device_id: int, params: dict[str, str]) -> None:
        self._node(
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
        x, y = device.card.grid
        cores = f'[{{"end":{{"x":{x - 1},"y":{y - 1}}},"start":{{"x":0,"y":0}}}}]'
        if not self._told_sub_devices:
            self._told_sub_devices = True
            self._node(
                "sub_device_manager",
                {
                    "device_id": device.id(),
                    "sub_device_manager_id": 0,
                    "sub_devices": f'[{{"sub_device_id":0,"worker_core_ranges":{cores}}}]',
                },
                child=True,
            )
        self._programs += 1
        self._node(
            "program_execution",
            {
                "command_queue_id": command.queue,
                "device_id": device.id(),
                "global_call_count": self._programs * 1024,
                "physical_device_id": device.get_device_ids()[0],
                "runtime_id": self._programs,
                "sub_device_id": 0,
                "sub_device_manager_id": 0,
                "worker_core_ranges": cores,
            },
            child=True,
        )


def _bytes(spec: Spec) -> int:
    if spec.memory_config.shard_spec is None:
        return spec.num_pages * spec.page_bytes
    rows, columns = spec.shards
    return rows * columns * spec.shard_pages * spec.page_bytes


def _sizes(place: Place, spec: Spec | None) -> dict[str, int]:
    shard = None if spec is None else spec.memory_config.shard_spec
    grid = CoreRangeSet() if shard is None else shard.grid
    return {
        "address": place.address,
        "max_size_per_bank": place.bank_bytes,
        "num_cores": grid.num_cores(),
        "page_size": place.bank_bytes if spec is None else spec.page_bytes,
    }


_captures: list[Capture] = []


def is_graph_capture_active() -> bool:
    return bool(_captures)


def begin_graph_capture(run_mode: RunMode = RunMode.NORMAL) -> None:
    """Record what is called on the open devices until `end_graph_capture`. Captures may be nested."""
    if not isinstance(run_mode, RunMode):
        raise TypeError(f"begin_graph_capture(): incompatible function arguments: run_mode is {run_mode!r}")
    _captures.append(Capture(run_mode, open_devices()))


def end_graph_capture() -> list[Node] | None:
    """The nodes recorded; None where no capture is active."""
    return _captures.pop().end() if _captures else None
