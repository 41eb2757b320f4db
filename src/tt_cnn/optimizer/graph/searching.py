# SPDX-License-Identifier: Apache-2.0
"""Proposals of the graph, tried on the whole model: all of one, and where it is not what was predicted, its parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.optimizer.graph.dynamic import Proposal, Segment
from tt_cnn.optimizer.graph.options import CandidatesOf, layouts_and_blocks
from tt_cnn.optimizer.graph.plans import Plans
from tt_cnn.optimizer.graph.proposals import RecordingPredictor, propose
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.virtual.arch import Card

_ROUNDS = 8
"""Proposals, each from the best of the one before: a model's code may do something else with other shards."""
_MOST_FAILURES = 3
"""Proposals of which nothing was kept."""
_LEAST_GAIN = 0.001
"""Share of the time that a proposal must save to be tried."""
_AS_PREDICTED = 1.002
"""How far a whole model may be above its proposal; beyond, parts of the proposal are tried alone."""


def search_graph(
    search: Search,
    predictor: RecordingPredictor,
    step: str,
    candidates: CandidatesOf = layouts_and_blocks,
    plans: Plans | None = None,
) -> None:
    """Better the search's best by proposals over the graph of its calls. `step` is who asks, for the journal; `plans`
    are those of searches before it."""
    tried = _Tried(search, step, candidates)
    plans = plans or Plans(predictor.device.card)
    failures = 0
    for _ in range(_ROUNDS):
        free = {name: search.configuration(name) for name in search.layers(ConvolutionConfiguration)}
        proposal = propose(predictor, search.best.assignment, free, plans, tried.others)
        if proposal is None or proposal.ns > (1 - _LEAST_GAIN) * proposal.recorded_ns:
            return
        failures += not tried.proposal(proposal)
        if failures == _MOST_FAILURES:
            return


@dataclass
class _Tried:
    """What was tried, so that what the whole model did not take is not proposed again."""

    search: Search
    step: str
    candidates: CandidatesOf
    refused: set[tuple[str, Assignment]] = field(default_factory=set)
    """Settings of single layers."""

    def others(self, layer: str, configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
        """The candidates of a layer without those that were refused."""
        found = self.candidates(layer, configuration, card)
        if not any(name == layer for name, _ in self.refused):
            return found
        return [one for one in found if (layer, Assignment({layer: one})) not in self.refused]

    def proposal(self, proposal: Proposal) -> bool:
        """Whether anything of it was kept."""
        saved = 1 - proposal.ns / proposal.recorded_ns
        count = len(proposal.changes)
        words = f"{count} convolution{'s' * (count > 1)} set otherwise, by the graph {saved:.1%} faster"
        before = self.search.best.assignment
        attempt = self.search.attempt(self.step, Candidate(proposal.changes, words))
        segments = sorted(proposal.segments, key=lambda one: -one.saves_ns)
        if attempt.outcome != "kept" or attempt.device_ns is None:
            self.search.expect(segment.changes for segment in segments)
            return any([self._segment(segment) for segment in segments])
        if attempt.device_ns > _AS_PREDICTED * proposal.ns:
            for segment in segments if len(segments) > 1 else ():
                self._take_back(segment, before)
        return True

    def _take_back(self, segment: Segment, before: Assignment) -> None:
        """The segment as it was, where the model is faster so."""
        own = self.search.predictor.configurations
        changes = {
            layer: {key: before.get(layer, {}).get(key, getattr(own[layer], key)) for key in settings}
            for layer, settings in segment.changes.items()
        }
        attempt = self.search.attempt(self.step, Candidate(changes, f"{_words(list(changes))} as before"))
        if attempt.outcome == "kept" and len(changes) == 1:
            self.refused.update((layer, Assignment({layer: settings})) for layer, settings in segment.changes.items())

    def _segment(self, segment: Segment) -> bool:
        """Layers that go together; where the card refuses them or they save nothing, each half of them."""
        changed = {layer: own for layer, own in segment.changes.items() if self._is_new(layer, own)}
        if not changed:
            return False
        names = list(changed)
        attempt = self.search.attempt(self.step, Candidate(changed, f"{_words(names)} set otherwise"))
        if attempt.outcome == "kept":
            return True
        if len(names) == 1:
            self.refused.add((names[0], Assignment({names[0]: changed[names[0]]})))
            return False
        middle = len(names) // 2
        halves = [Segment({name: changed[name] for name in half}, 0.0) for half in (names[:middle], names[middle:])]
        return any([self._segment(half) for half in halves])

    def _is_new(self, layer: str, settings: LayerSettings) -> bool:
        now = self.search.best.assignment.get(layer, {})
        return any(now.get(key) != value for key, value in settings.items())


def _words(layers: list[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
