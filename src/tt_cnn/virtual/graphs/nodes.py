# SPDX-License-Identifier: Apache-2.0
"""The nodes of a graph as `ttnn.graph` of TT-NN 0.81.1 makes them: their order, nesting and connections."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.planning.slots import AllocateConfig
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.tensor_spec import Spec

Node = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """A buffer's parts."""

    layout: str
    bytes: int
    """All of it, whichever banks it is in."""
    cores: int
    """That hold a shard; 0 where it is interleaved."""
    page_bytes: int


@dataclass(frozen=True)
class _Buffer:
    place: Place
    """Held, so that its identity stays its own."""
    node: int
    form: Form


class Nodes:
    """A list of nodes that grows by functions that start and end, and by what happens inside them."""

    def __init__(self) -> None:
        self.list: list[Node] = []
        self._open: list[int] = []
        self._begun: list[int] = []
        self._last_finished: int | None = None
        self._buffers: dict[int, _Buffer] = {}
        """By the identity of their places: in a dry run all addresses are 0."""
        self._freed: dict[int, Place] = {}
        self._tensors = 0
        self._start(self.add("capture_start", None, level=0))

    # --- functions ----------------------------------------------------------------------------------------------

    def add(self, kind: str, params: dict[str, Any] | None, level: int | None = None, child: bool = False) -> int:
        counter = len(self.list)
        self.list.append(
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
            self.connect(self._open[-1], counter)
        return counter

    def connect(self, source: int, target: int) -> None:
        self.list[source]["connections"].append(target)

    def begin(self, name: str, arguments: Sequence[str] = (), **params: Any) -> int:
        start = self.add(
            "function_start", {"inputs": str(len(arguments)), "name": name, **params}, len(self._open), child=True
        )
        self.list[start]["arguments"] = list(arguments)
        self._follow(start)
        self._start(start)
        return start

    def end(self) -> int:
        name = self.list[self._open[-1]]["params"]["name"]
        end = self.add("function_end", {"name": name}, child=True)
        self._finish(end)
        self._last_finished = end
        return end

    @contextmanager
    def function(self, name: str, arguments: Sequence[str] = ()) -> Iterator[int]:
        start = self.begin(name, arguments)
        try:
            yield start
        finally:
            self.end()

    def finished(self) -> list[Node]:
        end = self.add("capture_end", None, level=0)
        self._follow(end)
        self._finish(end)
        return self.list

    @property
    def depth(self) -> int:
        """Functions that are open."""
        return len(self._open) - 1

    @property
    def inside(self) -> str:
        """The innermost function that is open."""
        params = self.list[self._open[-1]]["params"]
        return "" if params is None else params["name"]

    @property
    def open_function(self) -> int:
        return self._open[-1]

    def _start(self, counter: int) -> None:
        self._open.append(counter)
        self._begun.append(time.perf_counter_ns())

    def _finish(self, end: int) -> None:
        self._open.pop()
        self.list[end]["duration_ns"] = max(1, time.perf_counter_ns() - self._begun.pop())

    def _follow(self, counter: int) -> None:
        """A function that ended is connected with what starts next."""
        if self._last_finished is not None:
            self.connect(self._last_finished, counter)
            self._last_finished = None

    # --- tensors and buffers ------------------------------------------------------------------------------------

    def input(self, device: MeshDevice, spec: Spec, place: Place) -> None:
        """A tensor that the open function was given."""
        self._given(self._device_tensor(device, spec, place))

    def host_input(self, spec: Spec) -> None:
        self._given(self._host_tensor(spec))

    def output(self, end: int, device: MeshDevice, spec: Spec, place: Place) -> None:
        """A tensor that a function returned."""
        tensor = self._device_tensor(device, spec, place, self.list[end]["stacking_level"])
        self.connect(end, tensor)

    def host_output(self, end: int, spec: Spec) -> None:
        self.connect(end, self._host_tensor(spec, self.list[end]["stacking_level"]))

    def allocated(self, device: MeshDevice, place: Place, form: Form) -> None:
        self._freed.pop(id(place), None)  # a placement that is used again has the same places
        self._memory("buffer_allocate", self._buffer(device, place, form))

    def freed(self, device: MeshDevice, place: Place, form: Form | None) -> None:
        """`form` of a buffer that was there before the capture; one that is known has its own."""
        self._freed[id(place)] = place
        known = self._buffers.pop(id(place), None)
        if known is None and form is not None:
            known = self._buffer(device, place, form)
            del self._buffers[id(place)]
        if known is not None:
            self._memory("buffer_deallocate", known)

    def _memory(self, kind: str, buffer: _Buffer) -> None:
        sizes = {
            "address": buffer.place.address,
            "max_size_per_bank": buffer.place.bank_bytes,
            "num_cores": buffer.form.cores,
            "page_size": buffer.form.page_bytes,
        }
        node = self.add(kind, {**self.list[buffer.node]["params"], **sizes}, child=True)
        self.connect(node, buffer.node)

    def _given(self, tensor: int) -> None:
        start = self._open[-1]
        self.connect(tensor, start)
        self.list[start]["input_tensors"].append(tensor)

    def _device_tensor(self, device: MeshDevice, spec: Spec, place: Place, level: int | None = None) -> int:
        freed = id(place) in self._freed
        mesh = 0 if freed else device.id()
        chips = ",".join(
            f'{{"address":{place.address},"device_id":{chip},"mesh_device_id":{mesh}}}'
            for chip in device.get_device_ids()
        )
        placed = {
            "buffer_type": place.buffer_type.value,
            "device_tensors": f"[{chips}]",
            "memory_config": repr(spec.memory_config),
        }
        if not freed:
            placed |= {"address": place.address, "device_id": device.id()}
        counter = self._tensor(spec, "DEVICE", placed, level)
        if freed:  # the input of a move, whose memory was given back before
            return counter
        known = self._buffers.get(id(place)) or self._buffer(device, place, form_of(spec))
        self.connect(known.node, counter)
        return counter

    def _host_tensor(self, spec: Spec, level: int | None = None) -> int:
        return self._tensor(spec, "HOST", {}, level)

    def _tensor(self, spec: Spec, storage: str, placed: dict[str, Any], level: int | None) -> int:
        self._tensors += 1
        params = {
            **placed,
            "dtype": spec.dtype.native,
            "layout": spec.layout.native,
            "shape": repr(spec.shape),
            "size": spec.shape.volume() * (1 if spec.dtype.is_block_float else spec.dtype.element_bytes),
            "storage_type": storage,
            "tensor_id": self._tensors - 1,
        }
        return self.add("tensor", params, level)

    def _buffer(self, device: MeshDevice, place: Place, form: Form) -> _Buffer:
        counter = self.add(
            "buffer",
            {
                "buffer_type": place.buffer_type.value,
                "device_id": device.id(),
                "layout": form.layout,
                "size": form.bytes,
                "type": "DRAM" if place.buffer_type is BufferType.DRAM else "L1",
            },
            child=True,
        )
        known = self._buffers[id(place)] = _Buffer(place, counter, form)
        return known


def form_of(spec: Spec) -> Form:
    shard = spec.memory_config.shard_spec
    cores = 0 if shard is None else shard.grid.num_cores()
    return Form(spec.memory_config.memory_layout.name, spec.num_pages * spec.page_bytes, cores, spec.page_bytes)


def form_of_table(table: AllocateConfig) -> Form:
    """Of a tensor in DRAM, or of one row per core."""
    if table.spec is not None:
        return form_of(table.spec)
    row = table.row_bytes or table.bank_bytes
    return Form("HEIGHT_SHARDED", row * table.cores, table.cores, row)
