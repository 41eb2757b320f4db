# SPDX-License-Identifier: Apache-2.0
"""Calls written as data: every form of an argument, chains with frees, families, and records that cannot be read."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tt_cnn.cli.application import app
from tt_cnn.conformance.answer import NotThere
from tt_cnn.conformance.corpus import CorpusError, read_corpora
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import Tally
from tt_cnn.conformance.written_calls import read_memory, read_value
from tt_cnn.virtual import ttnn

DATA = Path(__file__).parents[1] / "golden" / "data"
INPUT = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "TILE", "memory": {"kind": "dram"}}
ADDRESS = 1_048_640
"""Where the first tensor stands in DRAM."""


def spec(**changes: Any) -> dict[str, Any]:
    known = {
        "shape": [1, 1, 64, 64],
        "padded_shape": [1, 1, 64, 64],
        "dtype": "BFLOAT16",
        "layout": "TILE",
        "memory_layout": "INTERLEAVED",
        "buffer_type": "DRAM",
        "address": ADDRESS + 2048,
    }
    return known | changes


def call(op: str = "relu", result: dict[str, Any] | None = None, **case: Any) -> dict[str, Any]:
    written = {"family": "rectified", "op": op, "inputs": [INPUT], "args": [{"$t": 0}], "kwargs": {}}
    return {"card": "n150", "case": written | case, "result": result or {"status": "ok", "output": spec()}}


def written(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(one) for one in records))
    return path


def tally_of(path: Path) -> Tally:
    tally = Tally()
    for corpus in read_corpora(path):
        list(replay(corpus, tally))
    return tally


def counted(tally: Tally) -> dict[str, tuple[int, int]]:
    return {name: (count.agree, count.total) for name, count in tally.counts.items()}


def test_every_form_of_an_argument() -> None:
    card = PlanningCard("n150")

    def read(value: Any) -> Any:
        return read_value(value, card, {})

    assert read({"$e": "MathFidelity.HiFi2"}) is ttnn.MathFidelity.HiFi2
    assert repr(read({"$o": "CoreGrid", "a": [], "k": {"x": 4, "y": 2}})) == repr(ttnn.CoreGrid(x=4, y=2))
    assert read({"$dev": 1}) is card
    assert read([{"$slice": [None, None, 2]}, {"$ell": 1}]) == [slice(None, None, 2), ...]
    assert read({"$tuple": [1, {"$tuple": []}]}) == (1, ())
    assert read({"$ck": {"math_fidelity": {"$e": "MathFidelity.LoFi"}}}).math_fidelity is ttnn.MathFidelity.LoFi
    assert read({"$mem": {"kind": "l1"}}) == ttnn.L1_MEMORY_CONFIG
    with pytest.raises(NotThere, match=r"ttnn\.no_such"):
        read({"$e": "no_such"})
    with pytest.raises(KeyError, match="the forms are"):
        read({"$unknown": 1})


def test_memory_with_shards_in_dram_and_without_a_shard_spec() -> None:
    ranges = [[[0, 0], [3, 0]], [[0, 2], [3, 2]]]
    sharded = read_memory(
        {"kind": "height", "buffer": "DRAM", "ranges": ranges, "shard": [32, 64], "orient": "COL_MAJOR"}
    )
    assert sharded.buffer_type is ttnn.BufferType.DRAM
    assert sharded.shard_spec.grid.num_cores() == 8
    assert sharded.shard_spec.orientation is ttnn.ShardOrientation.COL_MAJOR
    assert read_memory({"kind": "width"}).shard_spec is None


def test_a_call_and_a_chain_that_frees(tmp_path: Path) -> None:
    steps = [
        {"op": "relu", "args": [{"$t": 0}], "kwargs": {}, "out": ["a"], "free": []},
        {"op": "relu", "args": [{"$t": "a"}], "kwargs": {}, "out": ["b"], "free": ["a"]},
        {"op": "deallocate", "args": [{"$t": "b"}, True], "kwargs": {}, "out": [], "free": [], "drop": "b"},
        {"op": "relu", "args": [{"$t": 0}], "kwargs": {}, "out": ["c"], "free": []},
    ]
    results = [
        {"status": "ok", "output": spec()},
        {"status": "ok", "output": spec(address=ADDRESS + 2 * 2048)},
        {"status": "ok", "rest": [None]},
        {"status": "ok", "output": spec()},
    ]
    chain = {"card": "n150", "case": {"family": "chain", "op": "chain", "inputs": [INPUT], "steps": steps}}
    folder = tmp_path / "corpora"
    folder.mkdir()
    written(folder / "a.jsonl", call())
    written(folder / "b.jsonl", chain | {"result": {"status": "ok", "steps": results}})
    written(folder / "notes.txt", {})
    tally = tally_of(folder)
    assert not tally.differences
    assert counted(tally) == {"status": (5, 5), "output": (4, 4), "address": (4, 4), "rest": (1, 1)}
    assert {name: counts["status"].total for name, counts in tally.by_family.items()} == {"rectified": 1, "chain": 4}


def test_a_refused_input_is_an_answer(tmp_path: Path) -> None:
    memory = {"kind": "height", "ranges": [[[0, 0], [7, 7]]], "shard": [31, 64], "orient": "ROW_MAJOR"}
    message = "Physical shard shape (31, 64) must be tile {32, 32} sized!"
    refused = call(inputs=[INPUT | {"memory": memory}], result={"status": "input_error", "message": message})
    assert counted(tally_of(written(tmp_path / "c.jsonl", refused))) == {"status": (1, 1), "message": (1, 1)}


def test_an_op_that_is_not_there_disagrees(tmp_path: Path) -> None:
    tally = tally_of(written(tmp_path / "c.jsonl", call("no_such"), call()))
    assert counted(tally)["status"] == (1, 2)
    assert tally.missing == {"ttnn.no_such": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        call(args=[{"$t": 3}]),
        call(args=[{"$what": 1}]),
        call(inputs=[{"shape": [1]}]),
        call(kwargs={"x": {"$o": "CoreGrid"}}),
    ],
)
def test_a_record_that_cannot_be_read_is_no_disagreement(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(CorpusError, match=r"c\.jsonl:1: the record cannot be understood"):
        tally_of(written(tmp_path / "c.jsonl", wrong))


def test_recordings_of_another_format_are_an_error_and_not_a_disagreement() -> None:
    with pytest.raises(CorpusError, match=r"plans_conv2d.*cannot be understood"):
        tally_of(DATA / "plans_conv2d.jsonl.gz")


def test_a_folder_without_corpora(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    written(tmp_path / "deeper" / "c.jsonl", call())
    with pytest.raises(CorpusError, match="the folder holds neither corpora"):
        read_corpora(tmp_path)


def test_minimum_of_a_family_of_each_and_of_all(tmp_path: Path) -> None:
    other = call("no_such") | {"case": call("no_such")["case"] | {"family": "other"}}
    path = tmp_path / "c.jsonl.gz"
    written(tmp_path / "c.jsonl", *[call()] * 9, other)
    with (tmp_path / "c.jsonl").open("rb") as plain, gzip.open(path, "wb") as packed:
        shutil.copyfileobj(plain, packed)

    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["conformance", str(path), "--by", "family", *options])

    assert run("--min", "status=90", "--min", "rectified:status=100").exit_code == 0
    missed = run("--min", "each:status=98")
    assert missed.exit_code == 1
    assert "other: status: 0.00 % agree, 98 % are needed" in missed.output
    assert "rectified:" not in missed.output
    assert "no record is of this family" in run("--min", "norm:status=1").output
    assert run("--min", ":status=98").exit_code == run("--min", "each:status").exit_code == 2
