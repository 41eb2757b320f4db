# SPDX-License-Identifier: Apache-2.0
"""Recorded element-wise calls of the real library, replayed: every field of every call agrees.

A case names the op, its input tensors and its arguments; `{"tensor": i}`, `{"dtype": ...}`, `{"memory": ...}` and
`{"activations": ...}` stand for values that JSON does not have. Results are as in the other corpora.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import Answer, answer
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

RECORDS = Path(__file__).parents[2] / "golden" / "data" / "plans_eltwise.jsonl.gz"
_SHARDED = {
    "height": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    "width": ttnn.TensorMemoryLayout.WIDTH_SHARDED,
    "block": ttnn.TensorMemoryLayout.BLOCK_SHARDED,
}


def read_records() -> list[dict[str, Any]]:
    with gzip.open(RECORDS, "rt") as lines:
        return [json.loads(line) for line in lines]


def memory_config(memory: dict[str, Any]) -> Any:
    if memory["kind"] not in _SHARDED:
        return ttnn.DRAM_MEMORY_CONFIG if memory["kind"] == "dram" else ttnn.L1_MEMORY_CONFIG
    place = ttnn.BufferType.DRAM if memory.get("buffer") == "dram" else ttnn.BufferType.L1
    if "shard" not in memory:
        return ttnn.MemoryConfig(_SHARDED[memory["kind"]], place)
    (x, y), (width, height) = memory.get("start", [0, 0]), memory["grid"]
    ranges = [ttnn.CoreRange(ttnn.CoreCoord(x, y), ttnn.CoreCoord(x + width - 1, y + height - 1))]
    if "rest" in memory:
        ranges.append(ttnn.CoreRange(ttnn.CoreCoord(x, y + height), ttnn.CoreCoord(x + memory["rest"] - 1, y + height)))
    orientation = ttnn.ShardOrientation[memory.get("orientation", "ROW_MAJOR")]
    shard = ttnn.ShardSpec(ttnn.CoreRangeSet(ranges), memory["shard"], orientation)
    return ttnn.MemoryConfig(_SHARDED[memory["kind"]], place, shard)


def value(encoded: Any, tensors: list[Tensor]) -> Any:
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()
    if kind == "activations":
        return [ttnn.UnaryWithParam(ttnn.UnaryOpType[name], *params) for name, *params in content]
    return {
        "tensor": lambda: tensors[content],
        "dtype": lambda: getattr(ttnn, content),
        "memory": lambda: memory_config(content),
        "sigmoid_mode": lambda: ttnn.SigmoidMode[content],
    }[kind]()


def given(card: PlanningCard, tensor: dict[str, Any]) -> Tensor:
    layout = ttnn.Layout[tensor["layout"]]
    spec = Spec(Shape(tensor["shape"]), getattr(ttnn, tensor["dtype"]), layout, memory_config(tensor["memory"]))
    return Tensor.on_device(spec, card.give(spec))


def replay(record: dict[str, Any]) -> Answer:
    card, case = PlanningCard(record["card"]), record["case"]
    try:
        tensors = [given(card, tensor) for tensor in case["inputs"]]
    except CardError as error:
        return Answer("error", error.message)
    args = [value(one, tensors) for one in case["args"]]
    kwargs = {name: value(one, tensors) for name, one in case["kwargs"].items()}
    return answer(card, lambda: getattr(ttnn, case["op"])(*args, **kwargs))


@pytest.fixture(scope="module")
def verdicts() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(record, compare(record["result"], replay(record))) for record in read_records()]


@pytest.mark.parametrize("field", ["status", "message", "output", "address", "steps", "cores", "cbs", "peak"])
def test_every_recorded_call_agrees(field: str, verdicts: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    judged = [(record["case"], found[field]) for record, found in verdicts if field in found]
    assert len(judged) > 100
    wrong = [f"{case}\n  recorded {v.recorded}\n  found    {v.found}" for case, v in judged if not v.agrees]
    assert not wrong, f"{len(wrong)} of {len(judged)} differ, the first:\n{wrong[0]}"


def test_the_records_are_diverse() -> None:
    records = read_records()
    cards = Counter(record["card"] for record in records)
    assert cards["n150"] >= 300 and cards["p150"] >= 60
    assert len({record["case"]["op"] for record in records}) > 80
    assert {len(tensor["shape"]) for record in records for tensor in record["case"]["inputs"]} >= {1, 2, 3, 4, 5}
