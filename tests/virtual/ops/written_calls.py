"""Recorded calls written as data, whatever the op: `tests/golden/data/parameters.jsonl.gz`.

case = {"op", "inputs": [tensor, ...], "args": [...], "kwargs": {...}}
tensor = {"shape", "dtype", "layout", "memory"}
memory = {"kind": "dram" | "l1"} or {"kind": "height" | "width" | "block", "ranges", "shard", "orient"}
Values: {"$t": i} input i, {"$mem": memory}, {"$e": name} a name of `ttnn`, {"$o": name, "a": [...], "k": {...}} an
object made of it, {"$ck": {...}} a compute kernel config, {"$tuple": [...]}.

`library` is the TT-NN that a call is made on: the virtual card here, the real library where it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import answer, describe
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn

_LAYOUTS = {"height": "HEIGHT_SHARDED", "width": "WIDTH_SHARDED", "block": "BLOCK_SHARDED"}

_WHOLE_NAMES = {"SDPA": "SDPAOperation"}


def name_of(library: Any, name: str) -> Any:
    return reduce(getattr, name.split("."), library)


def memory_config(library: Any, memory: dict[str, Any]) -> Any:
    if memory["kind"] in ("dram", "l1"):
        return getattr(library, f"{memory['kind'].upper()}_MEMORY_CONFIG")
    ranges = [
        library.CoreRange(library.CoreCoord(*first), library.CoreCoord(*last)) for first, last in memory["ranges"]
    ]
    orientation = getattr(library.ShardOrientation, memory.get("orient", "ROW_MAJOR"))
    shard = library.ShardSpec(library.CoreRangeSet(ranges), memory["shard"], orientation)
    layout = getattr(library.TensorMemoryLayout, _LAYOUTS[memory["kind"]])
    return library.MemoryConfig(layout, getattr(library.BufferType, memory.get("buffer", "L1")), shard)


def inputs(library: Any, device: Any, case: dict[str, Any]) -> list[Any]:
    return [
        library.allocate_tensor_on_device(
            library.Shape(spec["shape"]),
            getattr(library, spec["dtype"]),
            getattr(library.Layout, spec["layout"]),
            device,
            memory_config(library, spec["memory"]),
        )
        for spec in case["inputs"]
    ]


def call(library: Any, device: Any, case: dict[str, Any], tensors: list[Any]) -> Any:
    """All that the call returns."""

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(one) for one in value]
        return makers[next(iter(value))](value) if isinstance(value, dict) else value

    def compute(value: dict[str, Any]) -> Any:
        return library.init_device_compute_kernel_config(
            device.arch(), **{name: made(option) for name, option in value["$ck"].items()}
        )

    makers: dict[str, Callable[[Any], Any]] = {
        "$t": lambda value: tensors[value["$t"]],
        "$mem": lambda value: memory_config(library, value["$mem"]),
        "$e": lambda value: name_of(library, value["$e"]),
        "$o": lambda value: name_of(library, value["$o"])(
            *made(value["a"]), **{name: made(one) for name, one in value["k"].items()}
        ),
        "$ck": compute,
        "$tuple": lambda value: tuple(made(value["$tuple"])),
    }
    named = {name: made(value) for name, value in case["kwargs"].items()}
    return name_of(library, case["op"])(*made(case["args"]), **named)


def replay(record: dict[str, Any]) -> dict[str, Verdict]:
    """The verdict on each recorded field of one call, made on a clean virtual card."""
    card = PlanningCard(record["card"])
    tensors = inputs(ttnn, card, record["case"])
    returned: list[Any] = []

    def first() -> Any:
        result = call(ttnn, card, record["case"], tensors)
        returned.extend(result if isinstance(result, (list, tuple)) else [result])
        return returned[0]

    found = answer(card, first)
    verdicts = compare(_with_whole_names(record["result"]), found)
    if verdicts["status"].agrees and "more" in record["result"]:
        more = [{**describe(one), "address": one.buffer_address()} for one in returned[1:]]
        verdicts["more"] = Verdict(record["result"]["more"] == more, record["result"]["more"], more)
    return verdicts


def _with_whole_names(result: dict[str, Any]) -> dict[str, Any]:
    """This corpus leaves `Operation` off the names of steps, which some have without `Device` before it."""
    steps = [{**step, "op": _WHOLE_NAMES.get(step["op"], step["op"])} for step in result.get("ops", [])]
    return {**result, "ops": steps} if steps else result
