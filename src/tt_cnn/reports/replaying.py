# SPDX-License-Identifier: Apache-2.0
"""All calls of a profile planned again one after the other, each on what those before it leave.

A finding about the whole program is judged so, also where no layers could be given other settings: tensors that lie
elsewhere change what the calls after them dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tt_cnn.reports.records import CallRecord
from tt_cnn.reports.replanning import CONVOLUTIONS, Planned, Replanner
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.ops.conv2d.alternatives import from_host
from tt_cnn.virtual.ops.operation import OPERATIONS, plan_call
from tt_cnn.virtual.planning.placement import Place, ProgramIds, place
from tt_cnn.virtual.planning.plan import Allocate, FreeMemory, Plan
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

Change = Callable[[int, CallRecord], Mapping[str, Any]]
"""The attributes of a call, by its number, that are others now."""


@dataclass
class _Tensor:
    """A buffer of the profile as it is now."""

    place: Place
    memory_config: MemoryConfig | None = None
    """None: as it was."""


def replayed(replanner: Replanner, change: Change) -> Planned | None:
    """All that is dispatched then; None where the card refuses a call. What no longer moves is not dispatched."""
    try:
        return _Replay(replanner).run(change)
    except CardError:
        return None


class _Replay:
    def __init__(self, replanner: Replanner) -> None:
        self.replanner, self.profile = replanner, replanner.profile
        self.card = replanner.card
        self.memory: Memory = self.profile.calls[0].memory.as_memory(self.card)
        self.tensors: dict[int, _Tensor] = {
            number: _Tensor(Place(BufferType.L1, one.address, one.bank_bytes))
            for number, one in enumerate(self.profile.buffers)
            if one.born_before and one.buffer_type == BufferType.L1.name
        }
        self.ids = ProgramIds()
        self.last_row = {number: one.last_row for number, one in enumerate(self.profile.buffers)}

    def run(self, change: Change) -> Planned:
        steps, output = [], None
        for number, rows in self.replanner.calls.items():
            call = self.profile.calls[number]
            self._free_before(rows[0].index, {call.buffers[slot.buffer] for slot in call.plan.inputs})
            plan, inputs = self._planned(call, change(number, call))
            for action in plan.actions:
                if isinstance(action, Allocate):
                    check_shard_grid(self.card, action.slot.spec)
            placed = place(plan, self.memory, inputs, (), self.ids, keep_configs=False)
            steps += [one.step for one in placed.steps]
            self._leave(call, plan, placed.places)
            output = plan.outputs[0].spec
        assert output is not None
        return Planned(tuple(steps), output, sum(kernel_cost(step, self.card).ns for step in steps))

    def _free_before(self, row: int, needed: set[int]) -> None:
        """What was given back before the call; what it consumes it gives back itself."""
        for number in [number for number in self.tensors if self.last_row[number] < row and number not in needed]:
            here = self.tensors.pop(number).place
            self.memory.free(here.buffer_type, here.address)

    def _planned(self, call: CallRecord, changed: Mapping[str, Any]) -> tuple[Plan, dict[int, Place]]:
        slots = list(call.plan.inputs)
        attributes = {**call.attributes, **changed}
        if call.operation in CONVOLUTIONS and isinstance(attributes["input"], int):
            slots = [slots[attributes["input"]]]
            attributes |= {"input": 0, **from_host(attributes)}
        first: dict[int, int] = {}
        numbering = [first.setdefault(call.buffers[slot.buffer], n) for n, slot in enumerate(slots)]
        tensors = [self._tensor(call, slot.buffer, slot.spec) for slot in slots]
        specs = [
            slot.spec if tensor.memory_config is None else _in(slot.spec, tensor.memory_config)
            for slot, tensor in zip(slots, tensors, strict=True)
        ]
        free = FreeMemory.of(self.memory)
        plan = plan_call(self.card, OPERATIONS[call.operation], specs, numbering, attributes, free)
        return plan, {n: tensor.place for n, tensor in zip(numbering, tensors, strict=True)}

    def _tensor(self, call: CallRecord, buffer: int, spec: Spec) -> _Tensor:
        """A tensor that the call is given."""
        number = call.buffers[buffer]
        if number not in self.tensors:  # in DRAM, before the first call
            need = self.memory.footprint(spec)
            self.tensors[number] = _Tensor(Place(need.buffer_type, self.memory.allocate(need), need.bank_bytes))
        return self.tensors[number]

    def _leave(self, call: CallRecord, plan: Plan, places: Mapping[int, Place]) -> None:
        """What the call gives back and what it makes, under the profile's numbers."""
        for slot in plan.consumed:
            self.tensors = {n: one for n, one in self.tensors.items() if one.place != places[slot.buffer]}
        for before, now in zip(call.plan.outputs, plan.outputs, strict=False):
            if now.id >= len(plan.inputs):
                self.tensors[call.buffers[before.buffer]] = _Tensor(places[now.buffer], now.spec.memory_config)


def _in(spec: Spec, memory_config: MemoryConfig) -> Spec:
    return Spec(spec.shape, spec.dtype, spec.layout, memory_config, spec.alignment)
