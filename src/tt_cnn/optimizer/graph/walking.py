# SPDX-License-Identifier: Apache-2.0
"""One call after another, planned again on whatever its inputs have become.

A model's code may look at its tensors and call something else then: what is known of that (shards that are collected
before a concat, memories that are those of an input) is followed here, the rest is found out when the whole model is
planned with the settings that were found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tt_cnn.optimizer.graph.calls import NOBODY, CallGraph, GraphCall, Operand
from tt_cnn.optimizer.graph.plans import Plans, Request
from tt_cnn.optimizer.graph.state import Held, State
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.planning.placement import Place, ProgramIds, place
from tt_cnn.virtual.types.enums import BufferType, TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import L1_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_JOINED = (TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.BLOCK_SHARDED)
"""Shards that a concat joins along their width."""


class _Every:
    """Programs are cached: their tables are in L1_SMALL already."""

    def __contains__(self, key: object) -> bool:
        return True


class Walker:
    def __init__(self, graph: CallGraph, plans: Plans) -> None:
        self.graph, self.plans, self.card = graph, plans, plans.card
        self.last_uses = graph.last_uses()
        self.placed = 0
        """Plans that were put into memory."""
        self._ids = ProgramIds()
        self._given = {
            number: Held(live.spec, live.place)
            for number, live in graph.given.items()
            if live.place.buffer_type is not BufferType.L1 or not live.place.bank_bytes
        }
        self._requests: dict[tuple[int, MemoryConfig | None], Request] = {}
        self._models = _models(graph)

    def held(self, state: State, tensor: int) -> Held | None:
        return state.tensors.get(tensor) or self._given.get(tensor)

    def ready(self, state: State, index: int) -> State | None:
        """The state when the call comes, with inputs in the shapes that it takes."""
        here = state
        for operand in self.graph.calls[index].inputs:
            shaped = self._shaped(here, operand)
            if shaped is None:
                return None
            here = shaped
        return here

    def specs(self, state: State, call: GraphCall) -> tuple[Spec, ...]:
        """Of the inputs as they are; `ready` made sure that all are there."""
        return tuple(self._spec(state, operand) for operand in call.inputs)

    def follow(self, state: State, index: int) -> State | None:
        """The call as the model's code makes it."""
        call = self.graph.calls[index]
        specs = self.specs(state, call)
        if call.operation == "sharded_to_interleaved" and not specs[0].is_sharded:
            return self._left_out(state, index, call)
        request = self._request(state, index, call, specs)
        made = self.make(state, index, call, request)
        return made or self._repaired(state, index, call)

    def make(self, state: State, index: int, call: GraphCall, request: Request) -> State | None:
        """The state after a call, when the next one comes; None where the card refuses it, or where something is given
        back that is still read. `index` is less than 0 for calls that are not in the recording."""
        specs = self.specs(state, call)
        plan = self.plans.plan(request, specs, state.memory)
        if plan is None:
            return None
        given = {}
        for number, operand in zip(request.numbering, call.inputs, strict=True):
            held = self.held(state, operand.tensor)
            assert held is not None
            given[number] = held.place
        after = state.branch()
        self.placed += 1
        try:
            placement = place(plan, after.memory, given, _Every(), self._ids)
        except CardError:
            return None
        after.ns += sum(kernel_cost(one.step, self.card).ns for one in placement.steps)
        tensors = dict(zip(request.numbering, (operand.tensor for operand in call.inputs), strict=True))
        consumed = {tensors[slot.buffer] for slot in plan.consumed}
        if any(one not in call.consumed and self.last_uses.get(one, -1) > index for one in consumed):
            return None
        for one in consumed:
            after.forget(one)
        for operand, slot in zip(call.outputs, plan.outputs, strict=False):
            where = placement.places[slot.buffer]
            known = self._given.get(operand.tensor)
            if operand.tensor == NOBODY:
                _drop(after, where)
            elif known is None or known.place != where:
                after.hold(operand.tensor, slot.spec, where)
        for slot in plan.outputs[len(call.outputs) :]:  # prepared weights stay in DRAM, which has room for them
            _drop(after, placement.places[slot.buffer])
        after.release(call.consumed - consumed - {operand.tensor for operand in call.outputs})
        self._release(after, index)
        return after

    def _release(self, state: State, index: int) -> None:
        """What goes before the next call is gone: ways that differ in nothing else are alike."""
        if 0 <= index < len(self.graph.calls) - 1:
            state.release(self.graph.calls[index + 1].freed)

    # --- inputs -------------------------------------------------------------------------------------------------

    def _spec(self, state: State, operand: Operand) -> Spec:
        held = self.held(state, operand.tensor)
        assert held is not None
        return operand.spec if held.spec == self.graph.specs[operand.tensor] else held.spec

    def _shaped(self, state: State, operand: Operand) -> State | None:
        """The state with a view where the call reads one: of other shards it may be a copy."""
        held = self.held(state, operand.tensor)
        if held is None:
            return None
        as_made = held.spec == self.graph.specs[operand.tensor]
        if as_made or held.spec.shape == operand.spec.shape:
            return state
        call = _inserted("reshape", operand.tensor, held.spec)
        attributes = {
            "shape": operand.spec.shape,
            "padded_shape": None,
            "memory_config": None,
            "pad_value": None,
            "cores": None,
        }
        return self.make(state, -1, call, self.plans.request("reshape", (0,), attributes))

    def _left_out(self, state: State, index: int, call: GraphCall) -> State:
        """The output is the input."""
        after = state.branch()
        held = self.held(after, call.inputs[0].tensor)
        assert held is not None
        after.tensors[call.outputs[0].tensor] = held
        self._release(after, index)
        return after

    # --- what the model's code makes of its tensors ---------------------------------------------------------------

    def _request(self, state: State, index: int, call: GraphCall, specs: tuple[Spec, ...]) -> Request:
        """With the memory for the output that follows from other tensors', where the recorded one did."""
        config = self._output_memory(state, index, call, specs)
        key = index, config
        if key not in self._requests:
            attributes: Mapping[str, Any] = call.attributes
            if config is not None:
                attributes = {**attributes, "memory_config": config}
            self._requests[key] = self.plans.request(call.operation, call.numbering, attributes)
        return self._requests[key]

    def _output_memory(self, state: State, index: int, call: GraphCall, specs: tuple[Spec, ...]) -> MemoryConfig | None:
        """Another memory for the output than the recorded one; None where it is the same."""
        recorded = tuple(operand.spec for operand in call.inputs)
        if call.operation == "concat" and recorded != specs:
            asked = call.attributes["memory_config"]
            if asked is not None and asked.is_sharded() and asked == _side_by_side(recorded):
                return _side_by_side(specs) or L1_MEMORY_CONFIG
        model = self._models.get(index)
        held = None if model is None else self.held(state, model)
        if held is None or held.spec == self.graph.specs[model]:  # type: ignore[index]
            return None
        return held.spec.memory_config

    def _repaired(self, state: State, index: int, call: GraphCall) -> State | None:
        """Inputs that are elsewhere than in the recording are brought there first."""
        here: State | None = state
        moved = False
        for operand in call.inputs:
            assert here is not None
            spec = self._spec(here, operand)
            if spec.memory_config == operand.spec.memory_config:
                continue
            attributes = {"memory_config": operand.spec.memory_config, "dtype": None}
            request = self.plans.request("to_memory_config", (0,), attributes)
            here = self.make(here, -1, _inserted("to_memory_config", operand.tensor, spec), request)
            if here is None:
                return None
            moved = True
        if not moved or here is None:
            return None
        return self.make(here, index, call, self._request(here, index, call, self.specs(here, call)))


def _inserted(operation: str, tensor: int, spec: Spec) -> GraphCall:
    """A call on one tensor that is not in the recording."""
    one = (Operand(tensor, spec),)
    return GraphCall(operation, "", {}, one, one, frozenset(), (), 0.0)


def _drop(state: State, where: Place) -> None:
    if not any(held.place == where for held in state.tensors.values()):
        state.memory.free(where.buffer_type, where.address)


def _models(graph: CallGraph) -> dict[int, int]:
    """By call, the tensor whose shards its output was asked to have: an input, or else the youngest that was there."""
    found: dict[int, int] = {}
    alive: dict[int, Spec] = {number: live.spec for number, live in graph.given.items()}
    for index, call in enumerate(graph.calls):
        for tensor in call.freed:
            alive.pop(tensor, None)
        asked = call.attributes.get("memory_config")
        if isinstance(asked, MemoryConfig) and asked.is_sharded():
            inputs = [operand.tensor for operand in call.inputs if operand.spec.memory_config == asked]
            others = [tensor for tensor, spec in reversed(alive.items()) if spec.memory_config == asked]
            if inputs or others:
                found[index] = [*inputs, *others][0]
        for tensor in call.consumed:
            alive.pop(tensor, None)
        alive.update((operand.tensor, operand.spec) for operand in call.outputs)
    return found


def _side_by_side(specs: tuple[Spec, ...]) -> MemoryConfig | None:
    """Parts joined along the channels on the cores where they are."""
    configs = [spec.memory_config for spec in specs]
    shards = [config.shard_spec for config in configs if config.shard_spec is not None]
    layouts = {config.memory_layout for config in configs}
    if len(shards) < len(specs) or len(layouts) > 1 or not layouts <= set(_JOINED):
        return None
    if any(shard.grid != shards[0].grid or shard.shape[0] != shards[0].shape[0] for shard in shards):
        return None
    joined = ShardSpec(shards[0].grid, (shards[0].shape[0], sum(s.shape[1] for s in shards)), shards[0].orientation)
    return configs[0].with_shard_spec(joined).sealed()
