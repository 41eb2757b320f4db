# SPDX-License-Identifier: Apache-2.0
"""The recorded `ops` cases as calls: the inputs are made, and the call itself is what comes back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tt_cnn.conformance.answer import Call
from tt_cnn.conformance.convolution_calls import conv_transpose2d_plan
from tt_cnn.conformance.making import dtype, flipped, look_up, memory_config, pool, zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import DataType, Layout

Case = dict[str, Any]


def _input(card: PlanningCard, case: Case, shape: list[int], shard_width: int | None = None) -> Tensor:
    config = memory_config(case["memory"], shape, shard_width)
    return zeros(card, shape, dtype(case["dtype"]), Layout[case["layout"]], config)


def _rows(case: Case) -> list[int]:
    return [1, 1, case["args"]["rows"], case["args"]["c"]]


def _unary(card: PlanningCard, case: Case) -> Call:
    function = look_up(case["op"])
    slope = (0.1,) if case["op"] == "leaky_relu" else ()
    return partial(function, _input(card, case, _rows(case)), *slope)


def _add(card: PlanningCard, case: Case) -> Call:
    function = look_up("add")
    return partial(function, _input(card, case, _rows(case)), _input(card, case, _rows(case)))


def _to_layout(card: PlanningCard, case: Case) -> Call:
    function = look_up("to_layout")
    x = _input(card, case, _rows(case))
    return partial(function, x, flipped(x.layout))


def _to_memory_config(card: PlanningCard, case: Case) -> Call:
    function = look_up("to_memory_config")
    shape = _rows(case)
    x = _input(card, case, shape)
    return partial(function, x, memory_config(case["args"]["to"], shape))


def _concat(card: PlanningCard, case: Case) -> Call:
    function = look_up("concat")
    rows, widths = case["args"]["rows"], case["args"]["cs"]
    inputs = [_input(card, case, [1, 1, rows, c], c) for c in widths]
    total = sum(widths)
    return partial(function, inputs, 3, memory_config=memory_config(case["memory"], [1, 1, rows, total], total))


def _pool(card: PlanningCard, case: Case) -> Call:
    look_up(case["op"])
    a = case["args"]
    x = _input(card, case, [1, 1, a["n"] * a["h"] * a["w"], a["c"]])
    image = [a[side] for side in "nhwc"]
    return partial(pool, case["op"], x, image, a["k"], a["s"], a["p"], ceil_mode=a["ceil"])


def _upsample(card: PlanningCard, case: Case) -> Call:
    function = look_up("upsample")
    a = case["args"]
    shape = [a["n"], a["h"], a["w"], a["c"]]
    x = zeros(card, shape, DataType.BFLOAT16, Layout.ROW_MAJOR, memory_config(case["memory"], shape))
    return partial(function, x, a["scale"], mode=a["mode"])


CALLS: dict[str, Callable[[PlanningCard, Case], Call]] = {
    "add": _add,
    "avg_pool2d": _pool,
    "concat": _concat,
    "conv_transpose2d": conv_transpose2d_plan,
    "max_pool2d": _pool,
    "to_layout": _to_layout,
    "to_memory_config": _to_memory_config,
    "upsample": _upsample,
}


def prepare_operation(card: PlanningCard, case: Case) -> Call:
    """Any op without a form of its own is taken for a unary one."""
    return CALLS.get(case["op"], _unary)(card, case)
