"""Layouts, cores and blocks of all convolutions together: moves between neighbours, skips and concats count too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.builder.placement_configuration import PlacementConfiguration
from tt_cnn.builder.sharding import (
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import L1FullSliceStrategyConfiguration, channel_slices
from tt_cnn.optimizer.graph.dynamic import Proposal, Segment
from tt_cnn.optimizer.graph.options import layouts_and_blocks
from tt_cnn.optimizer.graph.plans import Plans
from tt_cnn.optimizer.graph.proposals import RecordingPredictor, propose
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.virtual.arch import Card

_ROUNDS = 8
"""Proposals, each from the best of the one before: a model's code may do something else with other shards."""
_LEAST_GAIN = 0.001
"""Share of the time that a proposal must save to be tried."""
_MOST_FAILURES = 3
"""Proposals of which nothing was kept."""
_AS_PREDICTED = 1.002
"""How far a whole model may be above its proposal; beyond, parts of the proposal are tried alone."""
_KINDS = {
    "block": BlockShardedStrategyConfiguration,
    "height": HeightShardedStrategyConfiguration,
    "width": WidthShardedStrategyConfiguration,
}


@register_step
class ShardingStep(OptimizationStep):
    """Whole-network moves, then proposals of the search over the graph, each planned as a whole model."""

    name = "sharding"
    may_change = "layouts, core grids and activation blocks of convolutions; L1 in the place of DRAM"

    def run(self, search: Search) -> None:
        if search.goal == "memory":  # what is fastest is proposed here, and that takes memory
            return
        search.attempt_all(self.name, _into_l1(search))
        search.attempt_all(self.name, _stages(search))
        if isinstance(search.predictor, RecordingPredictor):
            self._over_the_graph(search, search.predictor)

    def _over_the_graph(self, search: Search, predictor: RecordingPredictor) -> None:
        """What the whole model did not take is left out of later proposals."""
        plans, refused = Plans(predictor.device.card), Refused()
        failures = 0
        for _ in range(_ROUNDS):
            free = {name: search.configuration(name) for name in search.layers(ConvolutionConfiguration)}
            proposal = propose(predictor, search.best.assignment, free, plans, refused.others)
            if proposal is None or proposal.ns > (1 - _LEAST_GAIN) * proposal.recorded_ns:
                return
            failures += not self._try(search, proposal, refused)
            if failures == _MOST_FAILURES:
                return

    def _try(self, search: Search, proposal: Proposal, refused: Refused) -> bool:
        """The whole, and where it is not what was predicted, its parts; whether anything was kept."""
        saved = 1 - proposal.ns / proposal.recorded_ns
        whole = Candidate(proposal.changes, f"{len(proposal.changes)} convolutions, by the graph {saved:.1%} faster")
        attempt = search.attempt(self.name, whole)
        kept = attempt.outcome == "kept"
        if kept and attempt.device_ns is not None and attempt.device_ns <= _AS_PREDICTED * proposal.ns:
            return True
        for segment in sorted(proposal.segments, key=lambda one: -one.saves_ns):
            kept = self._try_segment(search, segment, refused) or kept
        return kept

    def _try_segment(self, search: Search, segment: Segment, refused: Refused) -> bool:
        """Layers that go together; where the card refuses them or they save nothing, each half of them."""
        changed = {
            layer: settings
            for layer, settings in segment.changes.items()
            if any(search.best.assignment.get(layer, {}).get(key) != value for key, value in settings.items())
        }
        if not changed:
            return False
        names = list(changed)
        words = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        attempt = search.attempt(self.name, Candidate(changed, f"{words} in other shards"))
        if attempt.outcome == "kept":
            return True
        if len(names) == 1:
            refused.add(names[0], changed[names[0]])
            return False
        middle = len(names) // 2
        halves = [Segment({name: changed[name] for name in half}, 0.0) for half in (names[:middle], names[middle:])]
        return any([self._try_segment(search, half, refused) for half in halves])


class Refused:
    """Settings of single layers that the whole model did not take, or was no faster with."""

    def __init__(self) -> None:
        self._known: set[tuple[str, Assignment]] = set()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, layer: str, settings: LayerSettings) -> None:
        self._known.add((layer, Assignment({layer: settings})))

    def others(self, layer: str, configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
        """The candidates of a layer without them."""
        found = layouts_and_blocks(layer, configuration, card)
        return [one for one in found if (layer, Assignment({layer: one})) not in self._known] if self._known else found


def _into_l1(search: Search) -> Iterator[Candidate]:
    """Nothing is cut and nothing waits in DRAM."""
    changes: dict[str, LayerSettings] = {}
    for name in search.layers(ConvolutionConfiguration, PlacementConfiguration):
        configuration = search.configuration(name)
        if isinstance(configuration, ConvolutionConfiguration):
            cut = not isinstance(configuration.slice_strategy, L1FullSliceStrategyConfiguration)
            if cut and channel_slices(configuration.slice_strategy) == 1:
                changes[name] = {"slice_strategy": L1FullSliceStrategyConfiguration()}
        elif isinstance(configuration, PlacementConfiguration):
            memory = configuration.memory_config
            if memory is not None and memory.is_dram():
                changes[name] = {"memory_config": None}
    if changes:
        yield Candidate(changes, "everything from DRAM into L1")


def _stages(search: Search) -> Iterator[Candidate]:
    """The convolutions of one image size in shards of one kind; the first of them deals its input out."""
    own = search.predictor.configurations
    layers = {name: one for name, one in own.items() if isinstance(one, ConvolutionConfiguration)}
    for size, names in groupby(layers, key=lambda name: layers[name].output_size):
        stage = [name for name in names if search.may_change(name)]
        for kind in _KINDS if len(stage) > 1 else ():
            yield Candidate(_alike(stage, kind), f"{stage[0]} to {stage[-1]} ({size[0]}x{size[1]}) in {kind} shards")


def _alike(stage: list[str], kind: str) -> Mapping[str, LayerSettings]:
    make = _KINDS[kind]
    return {name: {"sharding_strategy": make(reshard_if_not_optimal=name == stage[0])} for name in stage}
