# SPDX-License-Identifier: Apache-2.0
"""From recorded commands to a profile's rows and to the lifetimes of the buffers that they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import prod
from typing import Any
from zlib import crc32

from tt_cnn.reports.l1_picture import l1_use
from tt_cnn.reports.recording import Recorded
from tt_cnn.reports.records import BufferRecord, CallRecord, CircularBufferRecord, L1Use, Row, Signpost, TensorRecord
from tt_cnn.signpost import is_signpost
from tt_cnn.virtual.cost.between import gap_ns
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.planning.happenings import Given, Ran, Stayed, Taken
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.plan import Allocate, FreeMemory, Plan, Slot, Step
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import LiveBuffer
from tt_cnn.virtual.types.enums import BufferType, NativeEnum
from tt_cnn.virtual.types.geometry import round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_Key = tuple[BufferType, int]
_LONGEST_VALUE = 400
"""Characters of an argument's value; a table of windows would fill a page."""

_NO_ARGUMENTS = frozenset(("input", "weight", "bias", "returns"))
"""Where a convolution's operands come from and what it returns: of no meaning to a reader."""


@dataclass
class Reading:
    """What was read from the commands of one input."""

    rows: list[Row] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    buffers: list[BufferRecord] = field(default_factory=list)
    signposts: list[Signpost] = field(default_factory=list)


def read_rows(recorded: Iterable[Recorded], device: MeshDevice, traced: bool) -> Reading:
    """Rows of all steps, in order. `traced` says whether gaps between them are those of a replay."""
    return _Reader(device, traced).read(recorded)


class _Reader:
    def __init__(self, device: MeshDevice, traced: bool) -> None:
        self.device = device
        self.memory: Memory = device.memory
        self.gap = gap_ns(device.card, traced)
        self.result = Reading()
        self.lives = Lifetimes(device.memory)
        self.signpost = ""
        self.weights_read: set[tuple[int, int]] = set()

    def read(self, recorded: Iterable[Recorded]) -> Reading:
        for one in recorded:
            if is_signpost(one.command):
                self._note_signpost(one.command)
            elif one.command.plan is not None:
                self._read_call(one.command, one.command.plan, one.live)
        self._note_tables()
        self.result.buffers = self.lives.finished(len(self.result.rows))
        return self.result

    def _note_signpost(self, command: Command) -> None:
        header, message = command.attributes["header"], command.attributes["message"]
        self.signpost = header
        self.result.signposts.append(Signpost(len(self.result.rows), header, message))

    def _read_call(self, command: Command, plan: Plan, live: Mapping[int, LiveBuffer]) -> None:
        self.lives.begin(command, plan, live, len(self.result.rows))
        name, memory = command.name.removeprefix("ttnn."), self.lives.free_memory()
        self.result.calls.append(CallRecord(name, command.attributes, plan, command.places, memory))
        for one in command.happenings():
            if isinstance(one, Taken) and one.slot is not None:
                self.lives.allocate(one.slot, len(self.result.rows))
            elif isinstance(one, Given) and one.slot is not None:
                self.lives.free(one.slot, len(self.result.rows))
            elif isinstance(one, Ran):
                self.result.rows.append(self._row(command, one.placed))
            elif isinstance(one, Stayed):
                self.lives.stayed(one.step.inputs[0], one.step.outputs[0])
        self.result.calls[-1] = replace(self.result.calls[-1], buffers=self.lives.slots)
        self.lives.end()

    def _row(self, command: Command, placed: PlacedStep) -> Row:
        step, card = placed.step, self.device.card
        (use,) = l1_use([replace(command, steps=[placed])], card)
        pairs = zip(step.buffers, self._addresses(placed), strict=True)
        inputs = tuple(self._tensor(slot) for slot in step.inputs)
        fidelity, macs = step.program.fidelity, step.program.multiply_adds(step)
        return Row(
            index=len(self.result.rows),
            call=len(self.result.calls) - 1,
            call_name=command.name,
            layer=command.layer,
            op=step.op,
            factory=step.factory,
            attributes=shown(step.program.decisions),
            arguments=shown({k: v for k, v in command.attributes.items() if k not in _NO_ARGUMENTS}),
            fidelity="" if fidelity is None else fidelity.name,
            cores=step.cores.num_cores(),
            available_cores=card.cores,
            core_ranges=str(step.cores),
            inputs=inputs,
            outputs=tuple(self._tensor(slot) for slot in step.outputs),
            circular_buffers=tuple(
                CircularBufferRecord(address, b.bytes, b.cores.num_cores(), b.alias is not None, b.name)
                for b, address in pairs
            ),
            cost=kernel_cost(step, card),
            gap_ns=self.gap,
            macs=macs,
            parameters=self._parameters(step, inputs) if macs else 0,
            dram_bytes=step.program.dram_bytes(step),
            l1=L1Use(use.buffers, use.tensors, use.free),
            traced=command.trace_id is not None,
            queue=command.queue,
            program_hash=crc32(repr(step.program_key).encode()),
            signpost=self.signpost,
            suffix=step.program.suffix,
            step=step,
        )

    def _addresses(self, placed: PlacedStep) -> list[int]:
        """Of the circular buffers; those on tables of a cached program stand where the cache has them."""
        step = placed.step
        tables = self.device.program_cache.programs.get(step.program_key, ())
        known = {config.buffer: here.address for config, here in zip(step.configs, tables, strict=False)}
        return [
            known.get(buffer.alias.buffer, address) if buffer.alias is not None else address
            for buffer, address in zip(step.buffers, placed.buffer_addresses, strict=True)
        ]

    def _tensor(self, slot: Slot) -> TensorRecord:
        place = self.lives.place_of(slot)
        return tensor_record(slot.spec, place, self.lives.index_of(slot), self.memory)

    def _parameters(self, step: Step, inputs: tuple[TensorRecord, ...]) -> int:
        """Weights and biases: what a step that multiplies reads beside its input and was there before the first row.

        A call that works in slices reads them again and again, and counts them once.
        """
        total = 0
        for tensor in inputs[1:]:
            known = (tensor.buffer, tensor.address)
            if known in self.weights_read or not self.lives.was_there(tensor.buffer):
                continue
            self.weights_read.add(known)
            total += _logical_parameters(step, tensor, is_weight=tensor is inputs[1])
        return total

    def _note_tables(self) -> None:
        """Tables of sliding windows stay in L1_SMALL as long as their programs are cached."""
        programs = self.device.program_cache.programs
        seen: set[_Key] = set()
        for tables in programs.values():
            for here in tables:
                if (here.buffer_type, here.address) not in seen:
                    seen.add((here.buffer_type, here.address))
                    self.lives.stays(here)


def _logical_parameters(step: Step, tensor: TensorRecord, is_weight: bool) -> int:
    """Prepared weights are padded, and those of groups filled up with zeros: a convolution knows what they were."""
    program = step.program
    layout = program.weights if isinstance(program, ConvProgram | MatmulProgram) else None
    if layout is None:
        return prod(tensor.shape)
    if is_weight:
        return layout.out_channels * layout.in_channels // layout.groups * prod(layout.kernel)
    return layout.out_channels


def tensor_record(spec: Spec, place: Place, buffer: int, memory: Memory) -> TensorRecord:
    config = spec.memory_config
    shard = config.shard_spec
    return TensorRecord(
        buffer=buffer,
        shape=tuple(spec.shape),
        padded_shape=tuple(spec.padded_shape),
        dtype=spec.dtype.name,
        layout=spec.layout.name,
        buffer_type=config.buffer_type.name,
        memory_layout=config.memory_layout.name,
        shard_shape=(shard.shape[0], shard.shape[1]) if shard is not None else None,
        shard_cores=spec.cores_with_data.num_cores() if shard is not None else None,
        address=place.address,
        total_bytes=spec.num_pages * spec.page_bytes,
        page_bytes=spec.page_bytes,
        memory_config=str(config),
    )


def shown(arguments: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Names and values as text: the fields of configurations by dotted names, without those that are None."""
    found: list[tuple[str, str]] = []
    for name, value in arguments.items():
        if is_dataclass(value) and not isinstance(value, type | MemoryConfig):
            inner = {f"{name}.{one.name}": getattr(value, one.name) for one in fields(value)}
            found += shown(inner)
        elif value is not None:
            found.append((name, _text(value)))
    return tuple(found)


def _text(value: Any) -> str:
    text = value.name if isinstance(value, NativeEnum) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


class Lifetimes:
    """When each buffer came and went, by rows. Told of calls in order, it follows what their plans take and give."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._records: list[BufferRecord] = []
        self._by_serial: dict[int, int] = {}
        self._slots: dict[int, int] = {}
        """Records of the current call's buffers, by the numbers of its plan."""
        self._command: Command | None = None
        self._outputs: dict[_Key, int] = {}
        """Serials of what the current call leaves behind."""

    def begin(self, command: Command, plan: Plan, live: Mapping[int, LiveBuffer], row: int) -> None:
        """Catch up with what happened since the last call, and find the call's inputs."""
        self._command, self._slots = command, {}
        fresh = {slot.buffer for a in plan.actions if isinstance(a, Allocate) for slot in (a.slot,)}
        keys = {_key(command.places[n]) for n in fresh if n in command.places}
        self._outputs = {
            _key(one.place): serial
            for serial, one in live.items()
            if serial not in self._by_serial and _key(one.place) in keys
        }
        consumed = {_key(command.places[slot.buffer]) for slot in plan.consumed}
        for serial, index in list(self._by_serial.items()):
            if serial not in live and _key_of(self._records[index]) not in consumed:
                self._close(index, row - 1)
                del self._by_serial[serial]
        ours = set(self._outputs.values())
        for serial, one in live.items():
            if serial not in self._by_serial and serial not in ours:
                self._by_serial[serial] = self._open(one.place, one.spec, one.made_by, row, born_before=row == 0)
        here = {_key_of(self._records[index]): index for index in self._by_serial.values()}
        for slot in plan.inputs:
            place = command.places[slot.buffer]
            if _key(place) not in here:  # recorded from the middle of a program
                here[_key(place)] = self._open(place, slot.spec, "", row, born_before=True)
            self._slots[slot.buffer] = here[_key(place)]

    def allocate(self, slot: Slot, row: int) -> None:
        assert self._command is not None
        place = self._command.places[slot.buffer]
        serial = self._outputs.get(_key(place))
        layer = f" of {self._command.layer}" if self._command.layer else ""
        index = self._open(place, slot.spec, self._command.name + layer, row, temporary=serial is None)
        self._slots[slot.buffer] = index
        if serial is not None:
            self._by_serial[serial] = index

    def stayed(self, before: Slot, after: Slot) -> None:
        """A move that was not dispatched: the new memory is the old, so it is one buffer and not two."""
        again, old = self._slots[after.buffer], self._slots[before.buffer]
        temporary = self._records[again].temporary
        assert again == len(self._records) - 1, "a move's output is the last that was allocated"
        self._records.pop()
        self._records[old] = replace(self._records[old], last_row=_OPEN, temporary=temporary)
        self._slots[after.buffer] = old
        self._by_serial |= {serial: old for serial, known in self._by_serial.items() if known == again}

    def free(self, slot: Slot, row: int) -> None:
        if slot.buffer in self._slots:
            index = self._slots[slot.buffer]
            self._close(index, row - 1)
            for serial, known in list(self._by_serial.items()):
                if known == index:
                    del self._by_serial[serial]

    def end(self) -> None:
        self._command = None

    @property
    def slots(self) -> dict[int, int]:
        """Records of the current call's buffers, by the numbers of its plan."""
        return dict(self._slots)

    def free_memory(self) -> FreeMemory:
        """L1 before the current call, as the allocator tells it."""
        region = self._memory.regions[BufferType.L1]
        here = [self._records[i] for i in (*self._by_serial.values(), *self._slots.values())]
        used = {b.address: b.bank_bytes for b in here if b.buffer_type == BufferType.L1.name and b.bank_bytes}
        blocks, low = [], region.base
        for address, size in sorted(used.items()):
            if address > low:
                blocks.append((low, address - low, False))
            blocks.append((address, round_up(size, region.alignment), True))
            low = address + blocks[-1][1]
        if low < region.base + region.size:
            blocks.append((low, region.base + region.size - low, False))
        return FreeMemory(sum(size for _, size, in_use in blocks if not in_use), tuple(blocks))

    def stays(self, place: Place) -> None:
        """Memory that is there from beginning to end, and is no tensor's."""
        self._records.append(
            BufferRecord(
                place.buffer_type.name,
                place.address,
                place.bank_bytes,
                (),
                "UINT16",
                "ROW_MAJOR",
                "HEIGHT_SHARDED",
                place.bank_bytes,
                "tables of sliding windows",
                0,
                _OPEN,
                born_before=True,
            )
        )

    def place_of(self, slot: Slot) -> Place:
        assert self._command is not None
        return self._command.places[slot.buffer]

    def index_of(self, slot: Slot) -> int:
        return self._slots[slot.buffer]

    def was_there(self, index: int) -> bool:
        return self._records[index].born_before

    def finished(self, rows: int) -> list[BufferRecord]:
        return [replace(one, last_row=rows - 1) if one.last_row == _OPEN else one for one in self._records]

    def _open(
        self, place: Place, spec: Spec, made_by: str, row: int, *, born_before: bool = False, temporary: bool = False
    ) -> int:
        self._records.append(
            BufferRecord(
                place.buffer_type.name,
                place.address,
                place.bank_bytes,
                tuple(spec.shape),
                spec.dtype.name,
                spec.layout.name,
                spec.memory_config.memory_layout.name,
                spec.page_bytes,
                made_by,
                row,
                _OPEN,
                born_before,
                temporary,
            )
        )
        return len(self._records) - 1

    def _close(self, index: int, row: int) -> None:
        self._records[index] = replace(self._records[index], last_row=row)


_OPEN = 1 << 60
"""The last row of a buffer that is still in use."""


def _key(place: Place) -> _Key:
    return place.buffer_type, place.address


def _key_of(record: BufferRecord) -> _Key:
    return BufferType[record.buffer_type], record.address
