"""The recorded `ops` cases as calls: what each op was given, and how it was called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tt_cnn.conformance.convolution_calls import conv_transpose2d_plan
from tt_cnn.conformance.making import dtype, flipped, look_up, memory_config, zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import DataType, Layout

Case = dict[str, Any]


def _input(card: PlanningCard, case: Case, shape: list[int], shard_width: int | None = None) -> Tensor:
    config = memory_config(case["memory"], shape, shard_width)
    return zeros(card, shape, dtype(case["dtype"]), Layout[case["layout"]], config)


def _rows(case: Case) -> list[int]:
    return [1, 1, case["args"]["rows"], case["args"]["c"]]


def _unary(card: PlanningCard, case: Case) -> Tensor:
    function = look_up(case["op"])
    x = _input(card, case, _rows(case))
    result: Tensor = function(x, 0.1) if case["op"] == "leaky_relu" else function(x)
    return result


def _add(card: PlanningCard, case: Case) -> Tensor:
    function = look_up("add")
    a, b = _input(card, case, _rows(case)), _input(card, case, _rows(case))
    result: Tensor = function(a, b)
    return result


def _to_layout(card: PlanningCard, case: Case) -> Tensor:
    function = look_up("to_layout")
    x = _input(card, case, _rows(case))
    result: Tensor = function(x, flipped(x.layout))
    return result


def _to_memory_config(card: PlanningCard, case: Case) -> Tensor:
    function = look_up("to_memory_config")
    shape = _rows(case)
    x = _input(card, case, shape)
    result: Tensor = function(x, memory_config(case["args"]["to"], shape))
    return result


def _concat(card: PlanningCard, case: Case) -> Tensor:
    function = look_up("concat")
    rows, widths = case["args"]["rows"], case["args"]["cs"]
    inputs = [_input(card, case, [1, 1, rows, c], c) for c in widths]
    total = sum(widths)
    result: Tensor = function(inputs, 3, memory_config=memory_config(case["memory"], [1, 1, rows, total], total))
    return result


def _pool(card: PlanningCard, case: Case) -> Tensor:
    function = look_up(case["op"])
    a = case["args"]
    x = _input(card, case, [1, 1, a["n"] * a["h"] * a["w"], a["c"]])
    arguments: dict[str, Any] = {
        "input_tensor": x,
        "batch_size": a["n"],
        "input_h": a["h"],
        "input_w": a["w"],
        "channels": a["c"],
        "kernel_size": [a["k"], a["k"]],
        "stride": [a["s"], a["s"]],
        "padding": [a["p"], a["p"]],
        "ceil_mode": a["ceil"],
    }
    if case["op"] == "max_pool2d":
        arguments["dilation"] = [1, 1]
    result: Tensor = function(**arguments)
    return result


def _upsample(card: PlanningCard, case: Case) -> Tensor:
    function = look_up("upsample")
    a = case["args"]
    shape = [a["n"], a["h"], a["w"], a["c"]]
    x = zeros(card, shape, DataType.BFLOAT16, Layout.ROW_MAJOR, memory_config(case["memory"], shape))
    result: Tensor = function(x, a["scale"], mode=a["mode"])
    return result


CALLS: dict[str, Callable[[PlanningCard, Case], Tensor]] = {
    "add": _add,
    "avg_pool2d": _pool,
    "concat": _concat,
    "conv_transpose2d": conv_transpose2d_plan,
    "max_pool2d": _pool,
    "to_layout": _to_layout,
    "to_memory_config": _to_memory_config,
    "upsample": _upsample,
}


def call_operation(card: PlanningCard, case: Case) -> Tensor:
    """Any op without a form of its own is taken for a unary one."""
    return CALLS.get(case["op"], _unary)(card, case)
