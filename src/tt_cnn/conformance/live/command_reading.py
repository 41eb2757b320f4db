# SPDX-License-Identifier: Apache-2.0
"""The steps of a program on the virtual card, read from its commands and from what its allocator is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tt_cnn.conformance.answer import ranges_of
from tt_cnn.conformance.live.recording import LiveCall, LiveStep, Memory
from tt_cnn.conformance.peak import peak_of
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.planning.happenings import Given, Ran, Taken, happenings
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.slots import Slot
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass
class CommandReading:
    """Listens to a card; `steps` and `calls` grow as the program runs."""

    device: MeshDevice
    steps: list[LiveStep] = field(default_factory=list)
    calls: list[LiveCall] = field(default_factory=list)
    _taken: list[Memory] = field(default_factory=list)
    """Allocated since the last program."""

    def __post_init__(self) -> None:
        self.device.listeners.append(self._command)
        self.device.memory_listeners.append(self._memory)

    def finish(self) -> None:
        """Stop listening. Taking the lock gives back the memory of tensors that nothing holds any more."""
        with self.device.lock:
            self.device.listeners.remove(self._command)
            self.device.memory_listeners.remove(self._memory)

    def _memory(self, what: str, place: Place, spec: Spec, by: str) -> None:
        """Memory taken and given back outside commands."""
        if what == "allocate":
            self._taken.append(_memory(place))
        else:
            self._give(place)

    def _give(self, place: Place) -> None:
        if self.steps:
            self.steps[-1].frees.append(_memory(place))

    def _command(self, command: Command) -> None:
        """One whose only step is a move to where its tensor was has memory given back and taken, and no step."""
        if command.plan is None:
            return
        call = LiveCall(command.name)
        if command.steps:
            self.calls.append(call)
        happened = list(happenings(command.plan, command.steps, command.places))
        for one in happened:
            if isinstance(one, Taken):
                self._taken.append(_memory(one.place))
            elif isinstance(one, Given):
                self._give(one.place)
            elif isinstance(one, Ran):
                call.steps += 1
                self.steps.append(_step(command, one.placed, len(self.calls) - 1, self._taken))
                self._taken = []
        call.peak = peak_of(happened)


def _step(command: Command, placed: PlacedStep, call: int, taken: list[Memory]) -> LiveStep:
    step = placed.step
    pairs = list(zip(step.buffers, placed.buffer_addresses, strict=True))
    return LiveStep(
        op=step.op,
        factory=step.factory,
        call=call,
        layer=command.layer,
        inputs=[_spec(command, slot) for slot in step.inputs],
        outputs=[_spec(command, slot) for slot in step.outputs],
        cbs=[[at, b.bytes, int(b.alias is not None), ranges_of(b.cores)] for b, at in pairs if not b.dataflow],
        staging=[
            [b.bytes, int(b.alias is not None), ranges_of(b.cores)] for b, _ in pairs if b.dataflow and not b.scratch
        ],
        buffers=taken,
        cached=command.cached,
    )


def _memory(place: Place) -> Memory:
    return [place.buffer_type.value, place.address, place.bank_bytes]


def _spec(command: Command, slot: Slot) -> dict[str, Any]:
    """As `graph_reading.tensor_spec` reads it."""
    config = slot.spec.memory_config
    spec: dict[str, Any] = {
        "shape": list(slot.spec.shape),
        "dtype": slot.spec.dtype.name,
        "layout": slot.spec.layout.name,
        "memory_layout": config.memory_layout.name,
        "buffer_type": config.buffer_type.name,
    }
    if config.shard_spec is not None:
        spec["shard_shape"] = list(config.shard_spec.shape)
        spec["orientation"] = config.shard_spec.orientation.name
        spec["grid"] = ranges_of(config.shard_spec.grid)
    spec["address"] = command.places[slot.buffer].address
    return spec


def plan_only(device: MeshDevice) -> None:
    """From now on the card plans, places and computes nothing; what is read from it is zeros."""
    enqueue = device.enqueue

    def planned(command: Command, wait: bool = False) -> int:
        if command.plan is not None or any(access.write for access in command.accesses):
            command.run = _nothing
        return enqueue(command, wait)

    setattr(device, "enqueue", planned)  # noqa: B010  (a method of one card, not of the class)


def _nothing() -> None:
    """What a command without data does."""
