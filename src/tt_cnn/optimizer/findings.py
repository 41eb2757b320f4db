# SPDX-License-Identifier: Apache-2.0
"""Findings of a whole model, each planned with all its layers, and what they save together.

A profile's own findings (`tt_cnn.reports.findings`) plan one call in place of another. Here their settings are
given to the layers, so that what neighbours do then is counted too; rules about several layers come with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.builder.sharding import ShardedStrategyConfiguration
from tt_cnn.optimizer.model_rules import Proposal, proposals
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction, Refusal
from tt_cnn.reports.findings import LEAST_NS, find
from tt_cnn.reports.findings_file import read_findings
from tt_cnn.reports.records import Finding, Profile, Together
from tt_cnn.reports.replanning import LEAST_SHARE

_Changes = Mapping[str, LayerSettings]


def find_in_model(network: PlannedNetwork, profile: Profile | None = None, start: Assignment | None = None) -> Profile:
    """The profile (the network's own where none is given) with its findings, and what they save together.

    `start` are settings that the model has already, in the profile too; findings come on top of them.
    A finding about layers whose change the whole model does not take, or is not faster with, is left out. One that
    only the model's own code could follow stays as it was found, with the gain of its calls alone.
    """
    settings = start or Assignment()
    return _Judge(network, profile or network.profile(settings), settings).judged()


def apply(
    source: Profile | Path | str, *, kinds: Sequence[str] | None = None, layers: Sequence[str] | None = None
) -> Assignment:
    """The settings that findings advise, to be given to `create_tt(..., config=)` or to start a search from.

    `source` is a profile, its folder, its `profile.json`, or the `findings.json` beside it. What was planned together
    is taken as it is. `kinds` and `layers` take only findings of these kinds, or about these layers: they are put
    together in the order of what they save, and one that says otherwise of a setting than one before it is left out.
    """
    findings, together = (
        (tuple(source.findings or ()), source.together) if isinstance(source, Profile) else read_findings(Path(source))
    )
    if together is not None and kinds is None and layers is None:
        return Assignment.from_dict(together.changes)
    chosen = [
        one
        for one in findings
        if (kinds is None or one.kind in kinds) and (layers is None or any(name in layers for name in one.changes))
    ]
    merged: dict[str, dict[str, Any]] = {}
    for one in chosen:
        _merge(merged, one.changes)
    return Assignment.from_dict(merged)


def _merge(merged: dict[str, dict[str, Any]], changes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Add settings in their JSON form; False, and nothing is added, where some of them are set otherwise already."""
    for layer, own in changes.items():
        known = merged.get(layer, {})
        if any(name in known and known[name] != value for name, value in own.items()):
            return False
    for layer, own in changes.items():
        merged.setdefault(layer, {}).update(own)
    return True


class _Judge:
    def __init__(self, network: PlannedNetwork, profile: Profile, start: Assignment) -> None:
        baseline = network.predict(start)
        if isinstance(baseline, Refusal):
            raise ValueError(f"the model is refused as it is: {baseline.layer}: {baseline.reason}")
        self.network, self.profile, self.baseline, self.start = network, profile, baseline, start
        self.gap = min((row.gap_ns for row in profile.rows[1:]), default=0.0)
        self.least_ns = max(LEAST_NS, LEAST_SHARE * profile.device_ns)

    def judged(self) -> Profile:
        calls, layers = find(self.profile), list(proposals(self.profile))
        self.network.expect(self.start.with_all(way) for way in _all_ways(calls, layers))
        alone = [one for finding in calls for one in self._of_calls(finding)]
        several = [one for ways in layers for one in self._of_layers(ways)]
        alone = [one for one in alone if not any(_covers(other, one) for other in several)]
        findings = sorted([*alone, *several], key=lambda one: (-one.saves_ns, one.rows, one.kind))
        return replace(self.profile, findings=tuple(findings), together=self._together(findings))

    def saves(self, changes: _Changes) -> float | None:
        """Of one input, with the gaps between steps; None where the model is refused with them."""
        predicted = self.network.predict(self.start.with_all(changes))
        return None if isinstance(predicted, Refusal) else self._less(predicted)

    def _less(self, predicted: Prediction) -> float:
        before, after = self.baseline, predicted
        return before.device_ns - after.device_ns + self.gap * (before.steps - after.steps)

    # --- single calls -----------------------------------------------------------------------------------------------

    def _of_calls(self, finding: Finding) -> Iterator[Finding]:
        if not finding.changes:
            yield finding
            return
        ways = list(_with_and_without_reshards(Assignment.from_dict(finding.changes)))
        gains = [(self.saves(way) or 0.0, way) for way in ways]
        saves, way = max(gains, key=lambda pair: pair[0])
        if saves >= self.least_ns:
            yield replace(finding, saves_ns=saves, changes=Assignment(way).to_dict())

    # --- several layers ---------------------------------------------------------------------------------------------

    def _of_layers(self, ways: Sequence[Proposal]) -> Iterator[Finding]:
        """The best of the ways."""
        found = []
        for way in ways:
            changes: _Changes = way.changes
            saves = self.saves(changes)
            if saves is None and way.partial:
                changes = self._taken(way.changes)
                saves = self.saves(changes)
            if saves is not None and saves >= self.least_ns and changes:
                found.append((saves, way, changes))
        if found:
            saves, way, changes = max(found, key=lambda one: one[0])
            settings = Assignment(changes).to_dict()
            yield Finding(way.kind, way.where, way.problem, way.advice, saves, way.rows, changes=settings)

    def _taken(self, changes: _Changes) -> _Changes:
        """Those layers' settings with which the model is taken and gets faster."""
        groups = [Assignment({name: own}).to_dict() for name, own in changes.items()]
        kept, _ = self._added(groups, range(len(groups)), {}, ())
        return Assignment.from_dict(kept)

    # --- all of them ------------------------------------------------------------------------------------------------

    def _together(self, findings: Sequence[Finding]) -> Together | None:
        able = [number for number, one in enumerate(findings) if one.changes]
        if not able:
            return None
        changes, applied = self._added([one.changes for one in findings], able, {}, ())
        return Together(self.saves(Assignment.from_dict(changes)) or 0.0, applied, changes)

    def _added(
        self,
        settings: Sequence[Mapping[str, Mapping[str, Any]]],
        numbers: Sequence[int],
        kept: dict[str, dict[str, Any]],
        applied: tuple[int, ...],
    ) -> tuple[dict[str, dict[str, Any]], tuple[int, ...]]:
        """All that can be added, tried at once, and in halves where the model does not get faster with all."""
        merged = {layer: dict(own) for layer, own in kept.items()}
        fitting = [number for number in numbers if _merge(merged, settings[number])]
        if not fitting:
            return kept, applied
        before = self.saves(Assignment.from_dict(kept)) or 0.0
        after = self.saves(Assignment.from_dict(merged))
        if after is not None and after > before:
            return merged, (*applied, *fitting)
        if len(fitting) == 1:
            return kept, applied
        half = len(fitting) // 2
        kept, applied = self._added(settings, fitting[:half], kept, applied)
        return self._added(settings, fitting[half:], kept, applied)


def _all_ways(calls: Sequence[Finding], layers: Sequence[Sequence[Proposal]]) -> Iterator[_Changes]:
    """What is planned for each finding at least."""
    for finding in calls:
        yield from _with_and_without_reshards(Assignment.from_dict(finding.changes)) if finding.changes else ()
    for ways in layers:
        yield from (way.changes for way in ways)


def _covers(several: Finding, alone: Finding) -> bool:
    """The same of one layer, or of calls whose layers can be given it: it saves less by itself."""
    same = alone.kind == several.kind and several.saves_ns >= alone.saves_ns
    return same and (alone.changes.keys() <= several.changes.keys() if alone.changes else alone.kind == "DRAM")


def _with_and_without_reshards(changes: Assignment) -> Iterator[_Changes]:
    """A layer that gets another sharding may have to move its input first."""
    yield changes
    moved = {}
    for layer, own in changes.items():
        strategy = own.get("sharding_strategy")
        if isinstance(strategy, ShardedStrategyConfiguration) and not getattr(strategy, "reshard_if_not_optimal", True):
            moved[layer] = {**own, "sharding_strategy": replace(strategy, reshard_if_not_optimal=True)}  # type: ignore[type-var]
    if moved:
        yield {**changes, **moved}
