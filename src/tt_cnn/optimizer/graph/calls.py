# SPDX-License-Identifier: Apache-2.0
"""The calls of one recorded pass: tensors by their memory, who makes them, who reads them, when they go.

Only what was dispatched is recorded. A view (`reshape` of shards) has no call of its own: whoever reads it names the
same tensor with another spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tt_cnn.reports.recording import Recorded
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.planning.plan import Allocate, Plan, Slot
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import LiveBuffer
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

CONVOLUTIONS = ("conv2d", "conv_transpose2d")
NOBODY = -1
"""In the place of a tensor: an output that goes at once."""

_Key = tuple[BufferType, int]


@dataclass(frozen=True)
class Operand:
    """A tensor as a call sees it."""

    tensor: int
    spec: Spec


@dataclass(frozen=True)
class GraphCall:
    """One dispatched call."""

    operation: str
    """`conv2d`"""
    layer: str
    attributes: Mapping[str, Any]
    """Of a convolution: with its weights on the host, as when the model is made."""
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    """Without prepared weights; one that is written in place, or a view, names the input's tensor."""
    consumed: frozenset[int]
    """Inputs that the call gives back."""
    freed: tuple[int, ...]
    """Tensors that went before the call came."""
    ns: float
    """Predicted kernels, as recorded."""

    @property
    def numbering(self) -> tuple[int, ...]:
        """Inputs that share memory have the same number: that of the first of them."""
        first: dict[int, int] = {}
        return tuple(first.setdefault(one.tensor, i) for i, one in enumerate(self.inputs))


@dataclass(frozen=True)
class CallGraph:
    """All calls in order."""

    calls: tuple[GraphCall, ...]
    given: Mapping[int, LiveBuffer] = field(repr=False)
    """What was in memory before the first call: the input, weights, constants."""
    specs: Mapping[int, Spec] = field(repr=False)
    """Of every tensor as it was made."""

    @property
    def ns(self) -> float:
        return sum(call.ns for call in self.calls)

    def last_uses(self) -> dict[int, int]:
        """The number of the last call that reads or writes a tensor."""
        return {one.tensor: i for i, call in enumerate(self.calls) for one in (*call.inputs, *call.outputs)}

    def calls_of(self, layer: str) -> list[int]:
        return [i for i, call in enumerate(self.calls) if call.layer == layer]


def read_graph(recorded: Sequence[Recorded], device: MeshDevice) -> CallGraph:
    """The graph of commands that `tt_cnn.reports.recording.recorded` noted."""
    return _Reader(device).read(recorded)


class _Reader:
    def __init__(self, device: MeshDevice) -> None:
        self.card = device.card
        self.calls: list[GraphCall] = []
        self.given: dict[int, LiveBuffer] = {}
        self.specs: dict[int, Spec] = {}
        self.alive: dict[int, LiveBuffer] = {}
        """After the call before."""

    def read(self, recorded: Sequence[Recorded]) -> CallGraph:
        for one in recorded:
            if one.command.plan is not None:
                self._read(one.command, one.command.plan, one.live)
        return CallGraph(tuple(self.calls), self.given, self.specs)

    def _read(self, command: Command, plan: Plan, live: Mapping[int, LiveBuffer]) -> None:
        made = {_key(command.places[a.slot.buffer]) for a in plan.actions if isinstance(a, Allocate)}
        fresh = {serial: one for serial, one in live.items() if serial not in self.alive}
        ours = {_key(one.place): serial for serial, one in fresh.items() if _key(one.place) in made}
        for serial in fresh.keys() - set(ours.values()):  # written from the host
            self.given[serial] = self.alive[serial] = fresh[serial]
            self.specs[serial] = fresh[serial].spec
        gone_later = {_key(command.places[slot.buffer]) for slot in plan.consumed}
        before = {
            _key(one.place): serial
            for serial, one in self.alive.items()
            if serial in live or _key(one.place) in gone_later
        }
        freed = tuple(serial for serial in self.alive if serial not in before.values())
        tensors = {slot.buffer: before[_key(command.places[slot.buffer])] for slot in plan.inputs}
        consumed = frozenset(tensors[slot.buffer] for slot in plan.consumed)
        outputs = [Operand(self._made(slot, tensors, ours, command), slot.spec) for slot in plan.outputs]
        call = GraphCall(
            operation=command.name.removeprefix("ttnn."),
            layer=command.layer,
            attributes=command.attributes,
            inputs=tuple(Operand(tensors[slot.buffer], slot.spec) for slot in plan.inputs),
            outputs=tuple(outputs),
            consumed=consumed,
            freed=freed,
            ns=sum(kernel_cost(placed.step, self.card).ns for placed in command.steps),
        )
        self.calls.append(_with_host_weights(call) if call.operation in CONVOLUTIONS else call)
        self.alive = dict(live)

    def _made(self, slot: Slot, tensors: Mapping[int, int], ours: Mapping[_Key, int], command: Command) -> int:
        """The tensor of an output, its spec noted; `NOBODY` where no one held it."""
        serial = tensors.get(slot.buffer, ours.get(_key(command.places[slot.buffer]), NOBODY))
        if serial != NOBODY:
            self.specs.setdefault(serial, slot.spec)
        return serial


def _key(place: Place) -> _Key:
    return place.buffer_type, place.address


def _with_host_weights(call: GraphCall) -> GraphCall:
    """Weights and bias as when the model is made: another configuration wants them in another form."""
    given = call.attributes
    conv: Convolution = given["conv"]
    outer, inner = conv.out_channels, conv.in_channels
    if isinstance(conv, TransposedConvolution):
        outer, inner = inner, outer
    weight, bias = Shape((outer, inner // conv.groups, *conv.kernel)), Shape((1, 1, 1, conv.out_channels))
    on_card = isinstance(given["input"], int)
    attributes = {
        **given,
        "input": 0 if on_card else given["input"],
        "weight": _on_host(weight),
        "bias": None if given["bias"] is None else _on_host(bias),
    }
    inputs = (call.inputs[given["input"]],) if on_card else ()
    return replace(call, attributes=attributes, inputs=inputs, outputs=call.outputs[:1])


def _on_host(shape: Shape) -> HostOperand:
    return HostOperand(Spec(shape, DataType.FLOAT32, Layout.ROW_MAJOR))
