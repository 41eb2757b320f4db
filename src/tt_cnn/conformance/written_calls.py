# SPDX-License-Identifier: Apache-2.0
"""Calls that are written as data: inputs by their specs, arguments by forms such as `{"$t": 0}`, `{"$e": "bfloat16"}`.

A record of such a call says its op by the TT-NN name, so any op can stand there. Short networks have `steps`, each a
call that takes inputs and results of earlier steps by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from tt_cnn.conformance.answer import Answer, Call, attempt
from tt_cnn.conformance.making import INTERLEAVED, SHARD_LAYOUTS, dtype, host_zeros, look_up, zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import (
    BufferType,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    Layout,
    MemoryConfig,
    ShardOrientation,
    ShardSpec,
    init_device_compute_kernel_config,
)

Case = dict[str, Any]
Tensors = Mapping[int | str, Tensor]


def prepare_call(card: PlanningCard, case: Case) -> Call:
    """The one call of a record, on inputs made for it."""
    inputs = _inputs(card, case)
    call = _call(card, case, inputs)

    def with_all_inputs(inputs: Tensors = inputs) -> Any:
        """Inputs that the call does not take are there all the same."""
        return call()

    return with_all_inputs


def replay_written_chain(card: PlanningCard, case: Case) -> Iterator[Answer]:
    """The answers of a chain's steps, up to the first refusal."""
    tensors: dict[int | str, Tensor] = dict(_inputs(card, case))
    for step in case["steps"]:
        found = attempt(card, partial(_call, card, step, tensors))
        yield found
        if found.status != "ok":
            return
        results = found.returned if isinstance(found.returned, list | tuple) else [found.returned]
        found.tensor = found.returned = None
        tensors.update({name: one for name, one in zip(step["out"], results, strict=False) if isinstance(one, Tensor)})
        del results
        for name in step.get("free", ()):
            look_up("deallocate")(tensors.pop(name), force=True)
        tensors.pop(step.get("drop"), None)


def _call(card: PlanningCard, call: Case, tensors: Tensors) -> Call:
    function = look_up(call["op"])
    read = partial(read_value, card=card, tensors=tensors)
    arguments = [read(one) for one in call["args"]]
    return partial(function, *arguments, **{name: read(one) for name, one in call["kwargs"].items()})


def _inputs(card: PlanningCard, case: Case) -> Tensors:
    return {number: _input(card, given) for number, given in enumerate(case["inputs"])}


def _input(card: PlanningCard, given: Case) -> Tensor:
    kind, layout = dtype(given["dtype"]), Layout[given["layout"]]
    if given.get("host"):
        return host_zeros(given["shape"], kind, layout)
    return zeros(card, given["shape"], kind, layout, read_memory(given["memory"]))


def read_memory(memory: Case) -> MemoryConfig:
    kind = memory["kind"]
    if kind in INTERLEAVED:
        return INTERLEAVED[kind]
    buffer_type = BufferType[memory.get("buffer", "L1")]
    if "shard" not in memory:
        return MemoryConfig(SHARD_LAYOUTS[kind], buffer_type)
    cores = [CoreRange(CoreCoord(*start), CoreCoord(*end)) for start, end in memory["ranges"]]
    shard = ShardSpec(CoreRangeSet(cores), memory["shard"], ShardOrientation[memory["orient"]])
    return MemoryConfig(SHARD_LAYOUTS[kind], buffer_type, shard)


def read_value(value: Any, card: PlanningCard, tensors: Tensors) -> Any:
    """An argument from its written form."""
    if isinstance(value, list):
        return [read_value(one, card, tensors) for one in value]
    if not isinstance(value, dict):
        return value
    form = next((key for key in value if key in _FORMS), None)
    if form is None:
        raise KeyError(f"a value written as {value}; the forms are {', '.join(_FORMS)}")
    return _FORMS[form](value, card, tensors)


def _object(value: Case, card: PlanningCard, tensors: Tensors) -> Any:
    read = partial(read_value, card=card, tensors=tensors)
    return look_up(value["$o"])(*map(read, value["a"]), **{name: read(one) for name, one in value["k"].items()})


def _compute_config(value: Case, card: PlanningCard, tensors: Tensors) -> Any:
    options = {name: read_value(one, card, tensors) for name, one in value["$ck"].items()}
    return init_device_compute_kernel_config(card.arch(), **options)


_FORMS: dict[str, Callable[[Case, PlanningCard, Tensors], Any]] = {
    "$t": lambda value, card, tensors: tensors[value["$t"]],
    "$mem": lambda value, card, tensors: read_memory(value["$mem"]),
    "$e": lambda value, card, tensors: look_up(value["$e"]),
    "$o": _object,
    "$ck": _compute_config,
    "$dev": lambda value, card, tensors: card,
    "$slice": lambda value, card, tensors: slice(*value["$slice"]),
    "$ell": lambda value, card, tensors: ...,
    "$tuple": lambda value, card, tensors: tuple(read_value(one, card, tensors) for one in value["$tuple"]),
}
