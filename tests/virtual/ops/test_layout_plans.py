# SPDX-License-Identifier: Apache-2.0
"""Replays recordings of TT-NN 0.81.1: calls of the layout ops, several in a row on one card, with frees between.

A step makes a tensor, frees one, or calls an op; of each the library's answer is known: spec and address, message,
dispatched steps with their variants, buffers and cores. The recording keeps a few answers that the virtual card does
not give (`reshard` of rows that need too many kernel arguments, a five-dimensional tensor whose shards lose width):
each field must agree in 99.5 % of the cases.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn.conformance.answer import describe, ranges_of
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.planning.placement import PlacedStep

RECORDING = Path(__file__).parents[2] / "golden" / "data" / "plans_layout.jsonl.gz"
Check = Callable[[str, Any, Any], None]


def cores(ranges: list[Any]) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*a), ttnn.CoreCoord(*b)) for a, b in ranges])


def memory(m: dict[str, Any]) -> Any:
    layout, buffer = ttnn.TensorMemoryLayout[m["layout"]], ttnn.BufferType[m["buffer"]]
    if "shard" not in m:
        return ttnn.MemoryConfig(layout, buffer)
    orientation = ttnn.ShardOrientation[m.get("orientation", "ROW_MAJOR")]
    return ttnn.MemoryConfig(layout, buffer, ttnn.ShardSpec(cores(m["grid"]), m["shard"], orientation))


def value(card: PlanningCard, tensors: dict[int, Any], given: Any) -> Any:
    """Arguments are plain values, or one-entry dictionaries that say what they stand for."""
    if not isinstance(given, dict):
        return given
    ((kind, of),) = given.items()
    makers: dict[str, Callable[[], Any]] = {
        "tensor": lambda: tensors[of],
        "dtype": lambda: getattr(ttnn, of),
        "layout": lambda: ttnn.Layout[of],
        "memory": lambda: memory(of),
        "cores": lambda: cores(of),
        "core": lambda: ttnn.CoreCoord(*of),
        "shape": lambda: ttnn.Shape(of),
        "scheme": lambda: ttnn.TensorMemoryLayout[of],
        "orientation": lambda: ttnn.ShardOrientation[of],
        "device": lambda: card,
    }
    return makers[kind]()


def make(card: PlanningCard, m: dict[str, Any]) -> Any:
    dtype, layout = getattr(ttnn, m["dtype"]), ttnn.Layout[m["layout"]]
    return ttnn.allocate_tensor_on_device(ttnn.Shape(m["shape"]), dtype, layout, card, memory(m["memory"]))


def masked(message: str) -> str:
    return re.sub(r"in program \d+", "in program N", message)


def buffers(placed: PlacedStep) -> dict[str, Any]:
    pairs = list(zip(placed.step.buffers, placed.buffer_addresses, strict=True))
    return {
        "cbs": sorted([0 if b.alias else a, b.bytes, int(b.alias is not None)] for b, a in pairs if not b.dataflow),
        "staging": sorted([b.bytes, int(b.alias is not None)] for b, _ in pairs if b.dataflow and not b.scratch),
        "scratch": sorted(b.bytes for b, _ in pairs if b.scratch),
        "cores": sorted(sorted(ranges_of(b.cores)) for b, _ in pairs),
    }


def recorded_buffers(op: dict[str, Any]) -> dict[str, Any]:
    cbs, staging, scratch = op.get("cbs", []), op.get("staging", []), op.get("scratch", [])
    return {
        "cbs": sorted([0 if alias else address, size, alias] for address, size, alias, _ in cbs),
        "staging": sorted([size, alias] for size, alias, _ in staging),
        "scratch": sorted(size for size, _ in scratch),
        "cores": sorted(sorted(buffer[-1]) for buffer in [*cbs, *staging, *scratch]),
    }


def check_tensor(check: Check, tensor: Any, recorded: dict[str, Any]) -> None:
    if recorded.get("host"):
        mine = {k: v for k, v in describe(tensor).items() if k in recorded}
        check("output", mine, {k: v for k, v in recorded.items() if k != "host"})
        return
    check("output", describe(tensor), {k: v for k, v in recorded.items() if k != "address"})
    check("address", tensor.buffer_address(), recorded["address"])


def check_steps(check: Check, placed: list[PlacedStep], recorded: list[dict[str, Any]]) -> None:
    names = [p.step.op for p in placed]
    check("steps", names, [op["op"] for op in recorded])
    if names != [op["op"] for op in recorded]:
        return
    for mine, op in zip(placed, recorded, strict=True):
        check("factory", mine.step.factory, op.get("factory", ""))
        if op.keys() & {"cbs", "staging", "scratch"}:
            check("buffers", buffers(mine), recorded_buffers(op))


def replay(record: dict[str, Any], check: Check) -> None:
    card = PlanningCard(record["card"])
    tensors: dict[int, Any] = {}
    for step, recorded in zip(record["case"]["steps"], record["result"]["steps"], strict=False):
        if "free" in step:
            ttnn.deallocate(tensors[step["free"]])
            continue
        accepted = recorded["status"] == "ok"
        start = card.memory.snapshot()
        with card.record_commands() as commands:
            try:
                made = make(card, step["make"]) if "make" in step else call(card, tensors, step)
            except (CardError, RuntimeError, TypeError) as error:
                check("status", "refused", "ok" if accepted else "refused")
                if not accepted and not isinstance(error, TypeError):
                    check("message", masked(getattr(error, "message", str(error))), masked(recorded["message"]))
                check("no leak", card.memory.snapshot(), start)
                return
        check("status", "ok", "ok" if accepted else "refused")
        if not accepted:
            return
        check_tensor(check, made, recorded["output"])
        if "call" in step:
            check_steps(check, [p for command in commands for p in command.steps], recorded["ops"])
        tensors[step.get("out", -1)] = made


def call(card: PlanningCard, tensors: dict[int, Any], step: dict[str, Any]) -> Any:
    positional = [value(card, tensors, a) for a in step["args"]]
    named = {name: value(card, tensors, a) for name, a in step["kwargs"].items()}
    return getattr(ttnn, step["call"])(*positional, **named)


@pytest.fixture(scope="module")
def agreement() -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = defaultdict(list)
    differences: list[str] = []
    for line in gzip.decompress(RECORDING.read_bytes()).splitlines():
        record = json.loads(line)

        def check(field: str, mine: Any, real: Any, record: dict[str, Any] = record) -> None:
            found[field].append(mine == real)
            if mine != real:
                differences.append(f"{field}: {mine} instead of {real} for {json.dumps(record['case'])}")

        replay(record, check)
    print("\n".join(differences))
    return found


@pytest.mark.parametrize("field", ["status", "message", "output", "address", "steps", "factory", "buffers", "no leak"])
def test_plans_agree_with_the_real_library(agreement: dict[str, list[bool]], field: str) -> None:
    answers = agreement[field]
    assert len(answers) > 200
    assert sum(answers) >= 0.995 * len(answers)


def test_a_made_tensor_is_in_no_program(agreement: dict[str, list[bool]]) -> None:
    """zeros, full, arange and the like are written from the host: their recordings dispatch nothing."""
    card = PlanningCard("n150")
    with card.record_commands() as commands:
        ttnn.full([1, 1, 50, 64], 3.0, device=card)
    assert all(not command.steps for command in commands)
    assert torch.equal(ttnn.full([2, 3], 2.5).to_torch(), torch.full((2, 3), 2.5, dtype=torch.bfloat16))
