# SPDX-License-Identifier: Apache-2.0
"""The tuning record: what searches found, kept in the user's cache, so that later ones start from it.

One JSON object per line, appended under a lock, read line by line. Lines that are damaged or of another version are
passed over; a cache that takes no files only means that nothing is remembered. The least time of each key counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tt_cnn import cache_folder
from tt_cnn.builder.codec import encode
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.evaluation.weights import SEEDED
from tt_cnn.optimizer.journal_file import versions
from tt_cnn.optimizer.settings import changed_settings, settings_in_force, signature, tunable

if TYPE_CHECKING:
    from tt_cnn.optimizer.result import OptimizationResult, Task

FILE = "tuning.jsonl"
SCHEMA = 1
LARGEST = 8 << 20
"""Bytes; a longer file is written again with the best of each key."""


@dataclass
class TuningRecord:
    """The file is read once, when something is first asked of it."""

    path: Path = field(default_factory=lambda: cache_folder.folder("tuning") / FILE)
    _known: dict[str, dict[str, Any]] | None = None

    def best_of_model(self, task: Task) -> Assignment | None:
        """Settings that an earlier search of the same task returned."""
        return _assignment(self._entries().get(_model_key(task)))

    def best_of_layer(self, configuration: Configuration, card: str) -> LayerSettings | None:
        """Settings of the quickest layer with the same signature on the same card."""
        found = _assignment(self._entries().get(_layer_key(configuration, card)))
        return found["layer"] if found is not None and "layer" in found else None

    def add(self, result: OptimizationResult) -> None:
        """What a search found: the whole of it, and each layer's settings with the layer's time."""
        lines = [
            _entry(_model_key(result.task), result.value_after, result.after.assignment.to_dict(), result.task.model)
        ]
        in_force = settings_in_force(result.configurations, result.after.assignment)
        changed = changed_settings(result.configurations, result.after.assignment)
        for name, configuration in result.configurations.items():
            ns = result.after.prediction.layer_ns.get(name)
            if ns and name in changed:
                settings = {key: encode(value) for key, value in tunable(in_force[name]).items()}
                key = _layer_key(configuration, result.task.card)
                lines.append(_entry(key, ns, {"layer": settings}, f"{result.task.model} {name}"))
        self._append([line for line in lines if self._is_better(line)])

    def _is_better(self, line: dict[str, Any]) -> bool:
        known = self._entries().get(line["key"])
        return known is None or line["value"] < known["value"]

    def _entries(self) -> dict[str, dict[str, Any]]:
        if self._known is None:
            self._known = _best_of(_read(self.path))
        return self._known

    def _append(self, lines: list[dict[str, Any]]) -> None:
        """All lines in one writing; a half line that another process left is ended first."""
        if not lines:
            return
        said = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
        try:
            with cache_folder.locked(self.path.parent):
                handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    size = os.fstat(handle).st_size
                    whole = size == 0 or os.pread(handle, 1, size - 1) == b"\n"
                    os.write(handle, said if whole else b"\n" + said)
                finally:
                    os.close(handle)
                if size > LARGEST:
                    best = _best_of(_read(self.path)).values()
                    text = "".join(json.dumps(one, sort_keys=True) + "\n" for one in best)
                    cache_folder.write(self.path, text.encode())
        except OSError as error:
            cache_folder.say(f"{self.path} takes no entries ({error.strerror or error})")
        self._known = None


def _entry(key: str, value: float, layers: dict[str, Any], of: str) -> dict[str, Any]:
    return {"schema": SCHEMA, "key": key, "value": value, "layers": layers, "of": of, "versions": versions()}


def _model_key(task: Task) -> str:
    height, width = task.resolution
    measured = "measured" if task.measured else "predicted"
    return _digest(
        [
            *("model", task.model, task.card, height, width, task.batch_size, task.precision, task.goal, task.min_pcc),
            *(measured, versions()),
            *((task.weights, task.min_metric) if task.weights != SEEDED else ()),
        ]
    )


def _layer_key(configuration: Configuration, card: str) -> str:
    return _digest(["layer", signature(configuration), card, versions()])


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """The entries that are whole and of this version."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    for line in content.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if _is_entry(entry):
            yield entry


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("schema") == SCHEMA
        and isinstance(entry.get("key"), str)
        and isinstance(entry.get("value"), (int, float))
        and isinstance(entry.get("layers"), dict)
        and entry.get("versions") == versions()
    )


def _best_of(entries: Iterator[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for entry in entries:
        known = best.get(entry["key"])
        if known is None or entry["value"] < known["value"]:
            best[entry["key"]] = entry
    return best


def _assignment(entry: dict[str, Any] | None) -> Assignment | None:
    if entry is None:
        return None
    try:
        return Assignment.from_dict(entry["layers"])
    except (ValueError, TypeError, AttributeError, KeyError):
        return None  # damaged inside of a whole line
