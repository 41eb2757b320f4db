# SPDX-License-Identifier: Apache-2.0
"""`journal.json`: all attempts of a search, written whole while it runs, read again to go on with it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

from tt_cnn.builder.overrides import Assignment
from tt_cnn.cache_folder import to_disk
from tt_cnn.evaluation.weights import SEEDED
from tt_cnn.optimizer.deployment import Deployment
from tt_cnn.optimizer.journal import Attempt, Outcome, State
from tt_cnn.optimizer.result import OptimizationResult, StepReport, Task
from tt_cnn.optimizer.rounds import Watcher
from tt_cnn.optimizer.search import Search

FILE = "journal.json"
KIND = "tt-cnn journal"
SCHEMA = 1
EVERY_SECONDS = 1.0
"""At most so much is lost to a process that is killed, or what twenty times the writing takes."""

_RESUMED = ("model", "card", "resolution", "batch_size", "precision", "goal", "weights")
"""What a run must have in common with the one that it goes on with."""


def versions() -> dict[str, str]:
    """Of what a prediction depends on."""
    try:
        ours = version("tt-cnn")
    except PackageNotFoundError:
        ours = "unknown"
    return {"tt-cnn": ours, "imitated TT-NN": "0.81.1"}


def attempt_data(attempt: Attempt) -> dict[str, Any]:
    """Plain data for `json.dumps`."""
    data = {f.name: getattr(attempt, f.name) for f in fields(attempt)}
    data["changes"] = Assignment(attempt.changes).to_dict()
    data["pcc"] = dict(attempt.pcc) if attempt.pcc is not None else None
    data["deployment"] = asdict(attempt.deployment) if attempt.deployment is not None else None
    return data


class JournalWriter(Watcher):
    """Keeps `journal.json` in a folder up to date."""

    def __init__(self, make_folder: Callable[[], Path], command: Sequence[str]) -> None:
        self._make_folder, self.command = make_folder, list(command)
        self.folder: Path | None = None
        """Made when the search begins: what is refused before leaves nothing behind."""
        self._attempts: list[str] = []
        self._baseline = 0.0
        self._start: dict[str, Any] = {}
        self._steps: list[dict[str, Any]] = []
        self._next = 0.0

    def began(self, task: Task, search: Search, start: State) -> None:
        self.task, self.folder = task, self._make_folder()
        self._start, self._baseline = start.assignment.to_dict(), start.value
        self._attempts = [json.dumps(attempt_data(attempt)) for attempt in search.journal.attempts]
        self._write("running", None)

    def attempted(self, attempt: Attempt) -> None:
        self._attempts.append(json.dumps(attempt_data(attempt)))
        if time.monotonic() >= self._next:
            self._write("running", None)

    def step_ended(self, report: StepReport) -> None:
        self._steps.append(asdict(report))

    def finished(self, result: OptimizationResult) -> None:
        """The last writing, with the result."""
        self._write(result.end, result_data(result))

    def _write(self, state: str, result: Mapping[str, Any] | None) -> None:
        began = time.monotonic()
        head = {
            "kind": KIND,
            "schema": SCHEMA,
            "state": state,
            "written": datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds"),
            "versions": versions(),
            "command": self.command,
            "task": asdict(self.task),
            "start": self._start,
            "baseline": self._baseline,
            "steps": self._steps,
            "result": result,
        }
        body = ",\n".join(self._attempts)
        said = json.dumps(head, indent=1)[:-2] + f',\n "attempts": [\n{body}\n ]\n}}\n'
        if self.folder is None:
            raise RuntimeError("the search has not begun; there is no folder to write to")
        beside = self.folder / f".{FILE}.new"
        beside.write_text(said, encoding="utf-8")
        to_disk(beside)
        os.replace(beside, self.folder / FILE)  # whole, or as it was before
        now = time.monotonic()
        self._next = now + max(EVERY_SECONDS, 20 * (now - began))


def result_data(result: OptimizationResult) -> dict[str, Any]:
    """The result in short; `config.json` has all of it."""
    return {
        "device_ns": result.after.prediction.device_ns,
        "value": result.value_after,
        "times_better": result.times_better,
        "input_ns": result.after.input_ns,
        "fps": result.after.fps,
        "deployment": asdict(result.after.deployment),
        "layers": result.after.assignment.to_dict(),
        "verified": asdict(result.verification),
        "pcc": dict(result.pcc) if result.pcc is not None else None,
        "metric": asdict(result.metric) if result.metric is not None else None,
        "planned": result.planned,
        "seconds": result.seconds,
    }


@dataclass(frozen=True)
class StoredJournal:
    """A journal that was read."""

    path: Path
    task: Mapping[str, Any]
    state: str
    start: Assignment
    attempts: tuple[Attempt, ...]

    def must_fit(self, task: Task) -> None:
        """Refuse to go on with another task."""
        asked = asdict(task)
        for name in _RESUMED:
            before, now = _plain(self.task.get(name)), _plain(asked[name])
            if before != now:
                raise ValueError(f"{self.path} is of {name} {before}, and {now} is asked for; it cannot be resumed")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def read_journal(where: Path) -> StoredJournal:
    """From a result folder or its journal.json. What is not whole is refused."""
    path = where / FILE if where.is_dir() else where
    if not path.is_file():
        raise ValueError(f"{where} cannot be resumed: there is no {path}")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged or was written only in part: it is not JSON ({error}). Start the search again."
        ) from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise ValueError(f"{path} is not a journal of tt-cnn optimize: its kind is not {KIND!r}")
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {data.get('schema')!r}; this version of tt-cnn reads {SCHEMA}")
    try:
        task = {"weights": SEEDED, **_object(data, "task")}  # journals of before had no others
        missing = [name for name in _RESUMED if name not in task]
        if missing:
            raise ValueError(f"task.{missing[0]} is missing")
        return StoredJournal(
            path,
            task,
            str(data.get("state")),
            Assignment.from_dict(_object(data, "start")),
            tuple(_attempt(one, place) for place, one in enumerate(_list(data, "attempts"))),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _object(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(data.get(name), dict):
        raise ValueError(f"{name} is missing or no object")
    return dict(data[name])


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(data.get(name), list):
        raise ValueError(f"{name} is missing or no list")
    return list(data[name])


_NUMBERS = {"number": False, "best_ns": False, "best_value": False, "seconds": False}
_NUMBERS |= {"device_ns": True, "value": True, "input_ns": True}
"""Fields that are numbers, and whether they may be null."""


def _attempt(data: Any, place: int) -> Attempt:
    where = f"attempts[{place}]"
    if not isinstance(data, dict) or set(data) != {f.name for f in fields(Attempt)}:
        raise ValueError(f"{where} has not the fields of an attempt")
    for name, optional in _NUMBERS.items():
        value = data[name]
        if not (value is None and optional) and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ValueError(f"{where}.{name} is {value!r}; it must be a number")
    if data["number"] != place + 1:
        raise ValueError(f"{where}.number is {data['number']}; it must be {place + 1}")
    if data["outcome"] not in get_args(Outcome):
        raise ValueError(f"{where}.outcome is {data['outcome']!r}; it must be one of {', '.join(get_args(Outcome))}")
    deployment = data["deployment"]
    return Attempt(
        **{
            **data,
            "changes": dict(Assignment.from_dict(data["changes"])),
            "deployment": Deployment(**deployment) if deployment is not None else None,
        }
    )
