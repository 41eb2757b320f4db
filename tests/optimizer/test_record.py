# SPDX-License-Identifier: Apache-2.0
"""The tuning record: later searches start from it; damage, other processes and read-only caches do no harm."""

from __future__ import annotations

import json
import multiprocessing
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.builder.overrides import Assignment
from tt_cnn.cache_folder import CacheWarning
from tt_cnn.optimizer import record as record_module
from tt_cnn.optimizer.record import FILE, TuningRecord
from tt_cnn.optimizer.result import OptimizationResult, Task
from tt_cnn.optimizer.run import optimize

pytestmark = pytest.mark.usefixtures("fake_steps")

MODEL = "vanilla_unet"


def searched(**options: Any) -> OptimizationResult:
    return optimize(MODEL, **{"steps": ["fake_blocks"], "budget_seconds": None, **options})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "tuning").mkdir()
    return tmp_path / "tuning" / FILE


def test_a_later_search_starts_from_it(path: Path) -> None:
    first = searched(record=TuningRecord(path))
    again = searched(record=TuningRecord(path), steps=[])
    assert again.value_after == first.value_after < first.value_before
    assert again.journal.attempts[0].step == "record" and again.journal.attempts[0].outcome == "kept"
    assert again.planned <= 3, "only what is known"
    assert TuningRecord(path).best_of_model(first.task) == first.after.assignment


def test_layers_of_equal_signature_are_known_to_other_tasks(path: Path) -> None:
    first = searched(record=TuningRecord(path))
    other = searched(record=TuningRecord(path), steps=[], goal="throughput")
    kept = other.journal.kept
    assert kept and "layers" in kept[0].words, "not this task's, but its layers'"
    name = next(iter(first.after.assignment))
    known = TuningRecord(path).best_of_layer(first.configurations[name], "n150")
    assert known is not None and known["sharding_strategy"] == first.after.assignment[name]["sharding_strategy"]
    assert TuningRecord(path).best_of_layer(first.configurations[name], "p150") is None
    assert not set(known) & {"batch_size", "input_height", "kernel_size"}


def test_frozen_layers_stay_as_they_are(path: Path) -> None:
    searched(record=TuningRecord(path))
    again = searched(record=TuningRecord(path), steps=[], freeze=["decoder*"])
    assert again.journal.attempts and not [name for name in again.after.assignment if name.startswith("decoder")]


def test_a_number_of_candidates_reads_nothing(path: Path) -> None:
    searched(record=TuningRecord(path))
    assert "record" not in {a.step for a in searched(record=TuningRecord(path), candidates=3).journal.attempts}


def test_damaged_lines_are_passed_over(path: Path) -> None:
    first = searched(record=TuningRecord(path))
    whole = path.read_bytes()
    entry = json.loads(whole.splitlines()[0])
    strange = [
        {**entry, "layers": {"x": {"memory_config": {"memory_config": "no"}}}, "value": 0.0},
        {**entry, "layers": 3},
        {**entry, "value": "fast", "schema": 77},
        {**entry, "versions": {"tt-cnn": "0.0"}, "value": 1.0},
    ]
    path.write_bytes(
        b"\xff\x00 no json\n[1]\nnull\n" + "\n".join(map(json.dumps, strange[1:])).encode() + b"\n" + whole[:-40]
    )
    assert TuningRecord(path).best_of_model(first.task) == first.after.assignment
    path.write_bytes(json.dumps(strange[0]).encode() + b"\n")
    assert TuningRecord(path).best_of_model(first.task) is None
    assert searched(record=TuningRecord(path), steps=[]).verification.holds


def test_a_half_line_is_ended_before_the_next(path: Path) -> None:
    path.write_bytes(b'{"schema": 1, "key": "half')
    first = searched(record=TuningRecord(path))
    assert TuningRecord(path).best_of_model(first.task) == first.after.assignment


def test_what_cannot_be_written_only_warns(path: Path) -> None:
    path.mkdir()  # no file can be there, whoever runs the test
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = searched(record=TuningRecord(path), candidates=10)
    assert result.verification.holds
    assert [one for one in said if issubclass(one.category, CacheWarning) and "takes no entries" in str(one.message)]


def test_a_long_file_keeps_the_best_of_each(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = searched(record=TuningRecord(path))
    lines = path.read_text().splitlines()
    worse = [json.dumps({**json.loads(line), "value": 1e12}) for line in lines]
    path.write_text("\n".join(lines + worse * 3) + "\n")
    monkeypatch.setattr(record_module, "LARGEST", 100)
    TuningRecord(path)._append([{**json.loads(lines[0]), "key": "another"}])
    assert len(path.read_text().splitlines()) == len({json.loads(line)["key"] for line in lines}) + 1
    assert TuningRecord(path).best_of_model(first.task) == first.after.assignment


def _write_many(path: str, number: int) -> None:
    for i in range(50):
        task = Task(f"model{number}-{i}")
        entry = record_module._entry(record_module._model_key(task), 1.0, {"a": {"text": "x" * 2000}}, "test")
        TuningRecord(Path(path))._append([entry])
    os._exit(0)


def test_two_processes_lose_nothing(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_many, args=(str(path), number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    record = TuningRecord(path)
    wanted = Assignment({"a": {"text": "x" * 2000}})
    assert all(record.best_of_model(Task(f"model{n}-{i}")) == wanted for n in range(2) for i in range(50))
