# SPDX-License-Identifier: Apache-2.0
"""A whole replay on a pretended op: what is called, what is read from the commands, what is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.virtual.stand_in import StandIn
from tt_cnn.conformance.corpus import CorpusError, read_corpus
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import Tally
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Operation
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import Layout


class Pretended(Operation):
    """Copies a tensor through two circular buffers; refuses ROW_MAJOR."""

    name = "pretended"

    def arguments(self, input_tensor: Tensor) -> Call:
        return Call([input_tensor])

    def plan(self, planner: Planner, x: Slot) -> list[Slot]:
        fatal(x.spec.layout is Layout.TILE, "Only tiles!")
        output = planner.allocate(x.spec)
        buffers = [CircularBuffer(4096, planner.grid), CircularBuffer(2048, planner.grid)]
        planner.dispatch(StandIn(op="Copy", factory="F", cores=planner.grid, buffers=tuple(buffers)), [x], [output])
        return [output]

    def numbers(self, context: Any, x: torch.Tensor) -> list[torch.Tensor]:
        raise AssertionError("a plan computes nothing")


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, "pretended", Pretended())


def record(layout: str = "TILE", **changes: Any) -> dict[str, Any]:
    cores = [[[0, 0], [7, 7]]]
    address = 1_433_600 - 2 * 2048
    output = {
        "shape": [1, 1, 2048, 32],
        "padded_shape": [1, 1, 2048, 32],
        "dtype": "BFLOAT16",
        "layout": layout,
        "memory_layout": "HEIGHT_SHARDED",
        "buffer_type": "L1",
        "address": address,
        "shard_shape": [32, 32],
        "orientation": "ROW_MAJOR",
        "grid": cores,
    }
    cbs = [[105824, 4096, 0, cores], [109920, 2048, 0, cores]]
    result = {
        "status": "ok",
        "output": output,
        "ops": [{"op": "Copy", "cbs": cbs, "staging": []}],
        "peak": {"cb": 6144, "l1": 2048, "staging": 0, "total": 8192},
    }
    case = {
        "op": "pretended",
        "dtype": "bfloat16",
        "layout": layout,
        "memory": {"kind": "height", "grid": [8, 8], "shard": [32, 32]},
        "args": {"rows": 2048, "c": 32},
    }
    return {"card": "n150", "case": case | changes.get("case", {}), "result": result | changes.get("result", {})}


def tally_of(tmp_path: Path, *records: dict[str, Any], ops: tuple[str, ...] = ()) -> Tally:
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    tally = Tally()
    list(replay(read_corpus(path), tally, ops))
    return tally


def agreeing(tally: Tally) -> dict[str, tuple[int, int]]:
    return {name: (count.agree, count.total) for name, count in tally.counts.items()}


def test_every_field_of_a_call_that_agrees(tmp_path: Path) -> None:
    tally = tally_of(tmp_path, record())
    assert not tally.differences
    fields = ("status", "output", "address", "steps", "cores", "cbs", "peak", "graph_peak")
    assert agreeing(tally) == dict.fromkeys(fields, (1, 1))
    assert set(tally.by_op) == {"pretended"}


def test_a_difference_says_where_and_what(tmp_path: Path) -> None:
    wrong = record()
    wrong["result"]["output"]["address"] += 32
    tally = tally_of(tmp_path, record(), wrong)
    [difference] = tally.differences["address"]
    assert difference.place == "corpus.jsonl:2"
    assert difference.recorded == difference.found + 32
    assert agreeing(tally)["address"] == (1, 2)


def test_a_refusal_of_the_op_and_of_its_input(tmp_path: Path) -> None:
    nothing = {"cb": 0, "l1": 0, "staging": 0, "total": 0}
    refused = record("ROW_MAJOR", result={"status": "error", "message": "Only tiles!", "peak": nothing})
    bad_shards = {"memory": {"kind": "height", "grid": [8, 8], "shard": [31, 32]}}
    message = "Physical shard shape (31, 32) must be tile {32, 32} sized!"
    no_input = record(case=bad_shards, result={"status": "input_error", "message": message})
    agreed = {"status": (2, 2), "message": (2, 2), "graph_peak": (1, 1)}
    assert agreeing(tally_of(tmp_path, refused, no_input)) == agreed


def test_an_op_that_is_not_there_disagrees_and_is_listed(tmp_path: Path) -> None:
    tally = tally_of(tmp_path, record(case={"op": "not_there"}), record())
    assert tally.missing == {"ttnn.not_there": 1}
    assert agreeing(tally)["status"] == (1, 2)
    assert tally.records == 2
    assert tally.as_json()["not_implemented"] == {"ttnn.not_there": 1}


def test_an_op_that_breaks_agrees_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Pretended, "plan", breaks)
    for status in ("ok", "error", "crash"):
        tally = tally_of(tmp_path, record(result={"status": status, "message": "x"}))
        assert agreeing(tally) == {"status": (0, 1)}
        assert tally.differences["status"][0].found == "broken: KeyError: 'oops'"


def test_selecting_by_op(tmp_path: Path) -> None:
    tally = tally_of(tmp_path, record(), record(case={"op": "not_there"}), ops=("pretended",))
    assert tally.records == 1 and not tally.missing


def test_a_record_without_what_it_needs_is_a_corpus_error(tmp_path: Path) -> None:
    no_status, bad_buffers, no_such_card = record(), record(), record() | {"card": "n151"}
    del no_status["result"]["status"]
    bad_buffers["result"]["ops"][0]["cbs"] = [[1, 2]]
    for broken, words in ((no_status, "status"), (bad_buffers, "out of range"), (no_such_card, "card is 'n151'")):
        with pytest.raises(CorpusError, match=rf"corpus\.jsonl:1: .*{words}"):
            tally_of(tmp_path, broken)


def test_chains_count_step_by_step_until_the_first_difference_in_status(tmp_path: Path) -> None:
    step = {"op": "to_dram", "in": [0], "out": 1, "args": {}, "free": []}
    calls = [{"op": "pretended", "in": [0], "out": 1, "args": {}, "free": [0]}, step | {"in": [1], "out": 2}]
    chain = {
        "card": "n150",
        "case": {"input": [1, 4, 8, 32], "steps": calls},
        "result": {"status": "ok", "steps": [{"status": "ok"}, {"status": "ok"}]},
    }
    tally = tally_of(tmp_path, chain)  # the first input is ROW_MAJOR, which the op refuses
    assert agreeing(tally) == {"status": (0, 1)}
    chain["result"]["steps"][0] = {"status": "error", "message": "Only tiles!"}
    assert agreeing(tally_of(tmp_path, chain)) == {"status": (1, 1), "message": (1, 1)}


def test_a_clean_card_for_each_record_and_no_values() -> None:
    card = PlanningCard("p150")
    assert card.card.name == "p150"
    assert not card.program_cache.enabled
    assert card.l1_small_size == 65536
    assert all(queue._worker is None for queue in card.queues)
