# SPDX-License-Identifier: Apache-2.0
"""Layouts, cores and blocks of all convolutions together: moves between neighbours, skips and concats count too."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.builder.placement_configuration import PlacementConfiguration
from tt_cnn.builder.sharding import (
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import L1FullSliceStrategyConfiguration, channel_slices
from tt_cnn.optimizer.graph.calls import read_graph
from tt_cnn.optimizer.graph.options import blocks_and_buffers, layouts_and_blocks, layouts_blocks_and_buffers
from tt_cnn.optimizer.graph.plans import Plans
from tt_cnn.optimizer.graph.proposals import RecordingPredictor
from tt_cnn.optimizer.graph.searching import search_graph
from tt_cnn.optimizer.repair import repaired
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step

_MOST_MEMORIES = 6
"""That are tried for one placement."""
_CONVOLUTION, _PLACEMENT = ConvolutionConfiguration, PlacementConfiguration
_KINDS = {
    "block": BlockShardedStrategyConfiguration,
    "height": HeightShardedStrategyConfiguration,
    "width": WidthShardedStrategyConfiguration,
}


@register_step
class ShardingStep(OptimizationStep):
    """Whole-network moves, then proposals of the search over the graph, each planned as a whole model."""

    name = "sharding"
    may_change = "layouts, core grids, blocks and double buffers of convolutions; where placed tensors wait"

    def run(self, search: Search) -> None:
        if search.goal == "memory":  # what is fastest is proposed here, and that takes memory
            return
        lists = [partial(_into_l1, search), partial(_stages, search)]
        search.attempt_in_turn(self.name, lists, refined=partial(repaired, search))
        if isinstance(search.predictor, RecordingPredictor):
            self._over_the_graph(search, search.predictor)

    def _over_the_graph(self, search: Search, predictor: RecordingPredictor) -> None:
        """What gains most in least time first, then all of it together with what was placed elsewhere."""
        plans = Plans(predictor.device.card)
        for candidates in (layouts_and_blocks, blocks_and_buffers):
            search_graph(search, predictor, self.name, candidates, plans)
        for layer in search.layers(PlacementConfiguration):
            search.attempt_in_turn(self.name, [partial(_placements, search, predictor, layer)])
        search_graph(search, predictor, self.name, layouts_blocks_and_buffers, plans)


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


def _placements(search: Search, predictor: RecordingPredictor, layer: str) -> Iterator[Candidate]:
    """A tensor where it comes from, in either memory, or in the shards of others that are as large."""
    graph = read_graph(predictor.record(search.best.assignment), predictor.device)
    moved = [graph.calls[number].inputs[0].spec for number in graph.calls_of(layer)]
    shapes = {spec.shape for spec in moved}
    alike = [spec.memory_config for spec in graph.specs.values() if spec.shape in shapes and spec.is_sharded]
    now = search.configuration(layer)
    assert isinstance(now, PlacementConfiguration)
    known = [now.memory_config]
    for config in (None, ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG, *alike):
        if config not in known and len(known) <= _MOST_MEMORIES:
            known.append(config)
            words = "where it comes from" if config is None else f"in {_memory_words(config)}"
            yield Candidate({layer: {"memory_config": config}}, f"{layer} {words}")


def _memory_words(config: Any) -> str:
    layout = config.memory_layout.name.removesuffix("_SHARDED").lower()
    shards = f"{layout} shards on {config.shard_spec.grid.num_cores()} cores" if config.is_sharded() else "all banks"
    return f"{config.buffer_type.name}, {shards}"


def _stages(search: Search) -> Iterator[Candidate]:
    """The convolutions of a stage in shards of one kind: the first deals its input out, or all do where it is needed,
    or none does and the stage takes its input as it comes."""
    for stage in _stages_of(search):
        convolutions = [name for name in stage if isinstance(search.predictor.configurations[name], _CONVOLUTION)]
        places = [name for name in stage if isinstance(search.predictor.configurations[name], PlacementConfiguration)]
        for kind, make in _KINDS.items():
            words = f"{convolutions[0]} to {convolutions[-1]} in {kind} shards"
            first = {n: {"sharding_strategy": make(reshard_if_not_optimal=n == convolutions[0])} for n in convolutions}
            every = {n: {"sharding_strategy": make(reshard_if_not_optimal=True)} for n in convolutions}
            yield Candidate(first, words)
            yield Candidate(every, f"{words}, distributed where needed")
            if places:
                plain: dict[str, LayerSettings] = {n: {"sharding_strategy": make()} for n in convolutions}
                plain |= {name: {"memory_config": None} for name in places}
                yield Candidate(plain, f"{words}, from where its input comes")


def _stages_of(search: Search) -> list[list[str]]:
    """Layers that follow each other and have one image size, or one module of the model; with several convolutions."""
    own = search.predictor.configurations
    names = [name for name in own if search.may_change(name) and isinstance(own[name], (_CONVOLUTION, _PLACEMENT))]
    sizes: dict[str, tuple[int, int]] = {}
    size = (0, 0)
    for name in reversed(names):  # a placement belongs to what follows it
        configuration = own[name]
        size = configuration.output_size if isinstance(configuration, _CONVOLUTION) else size
        sizes[name] = size
    found: dict[tuple[str, ...], None] = {}
    for key in (sizes.__getitem__, lambda name: name.partition(".")[0]):
        for _, group in groupby(names, key=key):
            stage = tuple(group)
            if sum(isinstance(own[name], _CONVOLUTION) for name in stage) > 1:
                found[stage] = None
    return [list(stage) for stage in found]
