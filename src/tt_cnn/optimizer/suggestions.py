# SPDX-License-Identifier: Apache-2.0
"""Candidates that are known before any step proposes: of earlier searches, or of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.optimizer.accuracy import PRECISION_SETTINGS
from tt_cnn.optimizer.record import TuningRecord
from tt_cnn.optimizer.result import Task
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.settings import changed_settings, is_lossless, settings_in_force
from tt_cnn.optimizer.steps.base import OptimizationStep


class Suggestions(OptimizationStep):
    """A list of candidates, tried one after the other before all steps."""

    name: ClassVar[str] = "suggestions"
    may_change = "what the suggestions say"
    when: ClassVar[Literal["first", "rounds", "last"]] = "first"

    def __init__(self, name: str, candidates: Sequence[Candidate]) -> None:
        self.name = name  # type: ignore[misc]
        self._candidates = candidates

    def run(self, search: Search) -> None:
        for candidate in self._candidates:
            allowed = {layer: own for layer, own in candidate.changes.items() if search.may_change(layer)}
            if allowed:
                search.attempt(self.name, Candidate(allowed, candidate.words, candidate.lossless))


def recorded_candidates(record: TuningRecord, task: Task, search: Search) -> Sequence[Candidate]:
    """What earlier searches found: for this very model, else for layers of the same signatures."""
    configurations = search.predictor.configurations
    in_force = settings_in_force(configurations, search.best.assignment)
    found: list[Candidate] = []
    whole = record.best_of_model(task)
    if whole is not None and all(name in configurations for name in whole):
        found += _with_and_without_loss(whole, in_force, "what an earlier search of this model found")
    layers: dict[str, LayerSettings] = {}
    for name, configuration in configurations.items():
        known = record.best_of_layer(configuration, task.card)
        if known is not None:
            layers[name] = known
    if layers:
        words = f"what is known of {len(layers)} layers"
        found += _with_and_without_loss(_differing(configurations, layers), in_force, words)
    return found


def _differing(configurations: Mapping[str, Configuration], layers: Mapping[str, LayerSettings]) -> Assignment:
    """What is not as the model has it; entries that a configuration refuses are left out."""
    kept: dict[str, LayerSettings] = {}
    for name, settings in layers.items():
        try:
            kept.update(changed_settings(configurations, {name: settings}))
        except ValueError:
            continue  # recorded with settings that this version has not
    return Assignment(kept)


def _with_and_without_loss(
    changes: Mapping[str, LayerSettings], in_force: Assignment, words: str
) -> Iterator[Candidate]:
    """All of it; and, where that changes values, all but that."""
    if not changes:
        return
    lossless = is_lossless(changes, in_force)
    yield Candidate(changes, words, lossless)
    if not lossless:
        rest = Assignment(
            {
                n: {key: value for key, value in own.items() if key not in PRECISION_SETTINGS}
                for n, own in changes.items()
            }
        )
        if rest:
            yield Candidate(rest, f"{words}, values kept", True)


def read_suggestions(path: Path, configurations: Mapping[str, Configuration]) -> list[Candidate]:
    """Of a `config.json`, or of findings: an object or list whose entries have `changes` by layer.

    All changes at once come first, then each alone, so that one that is refused does not keep the others out.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no JSON file: {error}") from error
    in_force = settings_in_force(configurations, Assignment())
    found: list[Candidate] = []
    for words, layers in _entries(data, path):
        changes = changed_settings(configurations, Assignment.from_dict(layers))
        if changes:
            found.append(Candidate(changes, words, is_lossless(changes, in_force)))
    if len(found) > 1:
        together = Assignment()
        for candidate in reversed(found):  # of two that change the same, the first counts
            together = together.with_all(candidate.changes)
        found.insert(0, Candidate(together, f"all {len(found)} together", all(one.lossless for one in found)))
    return found


def _entries(data: Any, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(data, dict) and isinstance(data.get("profile"), dict):
        data = data["profile"]
    if isinstance(data, dict) and isinstance(data.get("findings"), list):
        data = data["findings"]
    if isinstance(data, list):
        entries = [one for one in data if isinstance(one, dict) and one.get("changes")]
        if not entries:
            raise ValueError(f"{path} has no finding with `changes` by layer")
        for one in entries:
            yield str(one.get("advice") or one.get("words") or one.get("kind") or "a finding"), one["changes"]
    elif isinstance(data, dict) and isinstance(data.get("layers"), dict):
        yield f"the settings of {path.name}", data["layers"]
    else:
        raise ValueError(f"{path} is neither a config.json (`layers`) nor findings (a list with `changes` by layer)")
