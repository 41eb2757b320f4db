# SPDX-License-Identifier: Apache-2.0
"""Recorded calls of data-movement ops as calls of the virtual card.

A case names the op, its inputs (shape, dtype, layout, memory) and its arguments; a memory has a kind, and for shards
their grid and shape. Arguments that JSON has no word for are written as `{"tensor": 0}`, `{"memory": {...}}`, ...
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tt_cnn.conformance.agreement import comparable, compare
from tt_cnn.conformance.answer import Answer, answer, describe
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.tensor_spec import Spec

DTYPES = {d.name.lower(): d for d in ttnn.DataType}
KINDS = {
    "height": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    "width": ttnn.TensorMemoryLayout.WIDTH_SHARDED,
    "block": ttnn.TensorMemoryLayout.BLOCK_SHARDED,
}


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def grid(ranges: list[Any]) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*a), ttnn.CoreCoord(*b)) for a, b in ranges])


def memory(written: dict[str, Any]) -> Any:
    if written["kind"] == "dram":
        return ttnn.DRAM_MEMORY_CONFIG
    if written["kind"] == "l1":
        return ttnn.L1_MEMORY_CONFIG
    where = ttnn.BufferType[written.get("buffer", "L1")]
    if "shard" not in written:
        return ttnn.MemoryConfig(KINDS[written["kind"]], where)
    orientation = ttnn.ShardOrientation[written.get("orientation", "ROW_MAJOR")]
    return ttnn.MemoryConfig(
        KINDS[written["kind"]], where, ttnn.ShardSpec(grid(written["grid"]), written["shard"], orientation)
    )


def argument(written: Any, tensors: list[Tensor]) -> Any:
    if isinstance(written, list):
        return [argument(one, tensors) for one in written]
    if not isinstance(written, dict):
        return written
    ((kind, value),) = written.items()
    return {
        "memory": lambda: memory(value),
        "tensor": lambda: tensors[value],
        "tensors": lambda: [tensors[i] for i in value],
        "shape": lambda: ttnn.Shape(value),
        "tuple": lambda: tuple(argument(one, tensors) for one in value),
        "slice": lambda: slice(*value),
        "ellipsis": lambda: Ellipsis,
        "grid": lambda: grid(value),
    }[kind]()


def inputs_of(card: PlanningCard, case: dict[str, Any]) -> list[Tensor]:
    tensors = []
    for one in case["inputs"]:
        spec = Spec(ttnn.Shape(one["shape"]), DTYPES[one["dtype"]], ttnn.Layout[one["layout"]], memory(one["memory"]))
        tensors.append(Tensor.on_device(spec, card.give(spec)))
    return tensors


def call(case: dict[str, Any], tensors: list[Tensor]) -> Any:
    positional = argument(case["args"], tensors)
    named = {name: argument(value, tensors) for name, value in case.get("kwargs", {}).items()}
    if case["op"] == "getitem":
        return tensors[0][positional[0]]
    return getattr(ttnn, case["op"])(*positional, **named)


def replay(record: dict[str, Any]) -> dict[str, Verdict]:
    """Each field's verdict; lists of outputs are compared as a list."""
    recorded, case = record["result"], record["case"]
    card = PlanningCard(record["card"])
    try:
        tensors = inputs_of(card, case)
    except RuntimeError as error:
        found = Answer("error", str(getattr(error, "message", error)))
        return compare(recorded, found)
    made: list[Tensor] = []

    def first_output() -> Tensor:
        made[:] = _listed(call(case, tensors))
        return made[0]

    found = answer(card, first_output)
    verdicts = compare(recorded, found)
    if "outputs" in recorded and verdicts["status"].agrees:
        want = [{k: v for k, v in one.items() if k != "address"} for one in recorded["outputs"]]
        have = [describe(t) for t in made]
        verdicts["output"] = Verdict(want == have, want, have)
        places = [one["address"] for one in recorded["outputs"]]
        verdicts["address"] = Verdict(
            places == [t.buffer_address() for t in made], places, [t.buffer_address() for t in made]
        )
    return verdicts


def _listed(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


__all__ = ["comparable", "read", "replay"]
