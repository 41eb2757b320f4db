# SPDX-License-Identifier: Apache-2.0
"""The graph of a model's calls, the search over it, and the step that proposes what it found."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.optimizer.chains import Chain, Link, planned_chain, random_chain
from tt_cnn import ttnn
from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.graph.calls import NOBODY, read_graph
from tt_cnn.optimizer.graph.dynamic import Solver
from tt_cnn.optimizer.graph.options import layouts_and_blocks, options_of
from tt_cnn.optimizer.graph.plans import Plans
from tt_cnn.optimizer.graph.proposals import propose
from tt_cnn.optimizer.graph.searching import search_graph
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction, Refusal, planned_network
from tt_cnn.optimizer.search import Budget, Search
from tt_cnn.optimizer.steps.base import STEPS
from tt_cnn.optimizer.steps.sharding import ShardingStep
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.planning.plan import FreeMemory

SKIPS = Chain(28, 64, (Link(64, 3, 1, "add"), Link(64, 1, 1, "concat"), Link(128, 3, 2, ""), Link(128, 3, 1, "add")))
FEW_CORES = Chain(14, 256, (Link(256, 3, 1, ""), Link(256, 3, 1, ""), Link(256, 3, 1, "")))
"""Seven tiles of rows: height shards run on seven cores."""
APART = Chain(14, 128, (Link(128, 3, 1, ""), Link(128, 3, 1, "concat"), Link(64, 3, 1, "")))
"""The concat is interleaved: what comes before it does not matter to what comes after it."""


def search_of(network: PlannedNetwork, **options: object) -> Search:
    return Search.starting_from(network, budget=Budget(seconds=None), **options)


def check_memory(network: PlannedNetwork) -> None:
    """The recorded way, walked call by call, finds the memory that the calls found on the card."""
    assignment = Assignment()
    network.predict(assignment)
    graph = read_graph(network.record(assignment), network.device)
    profile = network.profile(assignment)
    solver = Solver(graph, Plans(network.device.card), {}, network.device.memory)
    state = solver.start
    for index, call in enumerate(graph.calls):
        ready = solver.walker.ready(state, index)
        assert ready is not None
        assert FreeMemory.of(ready.memory).l1_blocks == profile.calls[index].memory.l1_blocks, f"{index} {call.layer}"
        after = solver.walker.follow(ready, index)
        assert after is not None
        state = after
    assert state.ns == pytest.approx(profile.device_ns)


@pytest.mark.parametrize("whole", [False, True])
def test_layers_that_may_be_cut_are_tried_in_slices_along_either_side(whole: bool) -> None:
    slicing = L1FullSliceStrategyConfiguration() if whole else None
    configuration = Conv2dConfiguration.with_random_weights(32, 32, 64, 64, 1, (3, 3), slice_strategy=slicing)
    every = layouts_and_blocks("conv", configuration, card_by_name("p150"))
    cuts = {type(one["slice_strategy"]) for one in every if "slice_strategy" in one}
    all_cuts = {HeightSliceStrategyConfiguration, WidthSliceStrategyConfiguration, L1FullSliceStrategyConfiguration}
    assert cuts == (set() if whole else all_cuts)


def test_the_walk_finds_the_memory_that_the_calls_found() -> None:
    with planned_chain(SKIPS) as network:
        check_memory(network)


@pytest.mark.parametrize("name", ["mobilenetv2", "resnet50", "yolov8s"])
def test_so_it_does_in_whole_models(name: str) -> None:
    with planned_network(name, "n150") as network:
        check_memory(network)


def test_tensors_are_made_before_they_are_read_and_read_before_they_go() -> None:
    with planned_chain(SKIPS) as network:
        network.predict(Assignment())
        graph = read_graph(network.record(Assignment()), network.device)
        alive = set(graph.given)
        for call in graph.calls:
            alive -= set(call.freed)
            assert {operand.tensor for operand in call.inputs} <= alive
            alive -= call.consumed
            alive |= {operand.tensor for operand in call.outputs} - {NOBODY}
        last = graph.last_uses()
        skip = graph.calls[graph.calls_of("conv0")[0]].inputs[0].tensor
        adds = [i for i, call in enumerate(graph.calls) if call.operation == "add"]
        assert last[skip] == adds[0], "the skip waits for the sum"


def test_along_chains_the_proposal_is_what_the_whole_model_takes() -> None:
    source = random.Random(7)
    proposed = 0
    for _ in range(8):
        chain = random_chain(source, 4)
        plain = chain._replace(links=tuple(link._replace(join="") for link in chain.links))
        with planned_chain(plain) as network:
            if not isinstance(network.predict(Assignment()), Prediction):
                continue
            proposal = propose(network, Assignment(), network.configurations, Plans(network.device.card))
            assert proposal is not None
            predicted = network.predict(Assignment(proposal.changes))
            assert isinstance(predicted, Prediction)
            assert predicted.device_ns == pytest.approx(proposal.ns)
            assert sum(segment.saves_ns for segment in proposal.segments) == pytest.approx(
                proposal.recorded_ns - proposal.ns
            )
            proposed += bool(proposal.changes)
    assert proposed >= 3


def test_a_beam_of_one_is_no_worse_than_the_recorded_way() -> None:
    with planned_chain(SKIPS) as network:
        network.predict(Assignment())
        graph = read_graph(network.record(Assignment()), network.device)
        plans = Plans(network.device.card)
        options = options_of(graph, network.configurations, plans, layouts_and_blocks)
        found = [Solver(graph, plans, options, network.device.memory, beam).solve() for beam in (1, 24)]
        narrow, wide = found
        assert narrow is not None and wide is not None
        assert wide.ns <= narrow.ns <= narrow.recorded_ns


def test_a_stage_on_few_cores_is_found_and_cured() -> None:
    with planned_chain(FEW_CORES) as network:
        search = search_of(network)
        before = search.best.device_ns
        ShardingStep().run(search)
        assert search.best.device_ns < 0.6 * before
        found = [search.configuration(layer) for layer in ("conv0", "conv1", "conv2")]
        kinds = {type(one.sharding_strategy) for one in found}  # type: ignore[attr-defined]
        assert HeightShardedStrategyConfiguration not in kinds
        assert any("in block shards" in attempt.words for attempt in search.journal.attempts)


def test_a_network_in_dram_is_brought_into_l1() -> None:
    with planned_chain(SKIPS, memory_config=ttnn.DRAM_MEMORY_CONFIG) as network:
        from_dram = {"sharding_strategy": AutoShardedStrategyConfiguration(), "slice_strategy": None}
        start = Assignment({name: from_dram for name in network.configurations if name.startswith("conv")})
        search = Search.starting_from(network, start, budget=Budget(seconds=None))
        before = search.best.device_ns
        ShardingStep().run(search)
        assert search.best.device_ns < 0.8 * before
        moved = next(one for one in search.journal.attempts if one.words == "everything from DRAM into L1")
        assert moved.outcome == "kept"


def test_a_skip_that_waits_in_dram_is_brought_back() -> None:
    with planned_chain(SKIPS, skips=ttnn.DRAM_MEMORY_CONFIG) as network:
        search = search_of(network, only=("skip*",))
        before = search.best.device_ns
        ShardingStep().run(search)
        assert search.best.device_ns < 0.96 * before
        assert set(search.best.assignment) <= {"skip0", "skip1", "skip3"}
        moved = [search.configuration(f"skip{i}").memory_config for i in (0, 1, 3)]  # type: ignore[attr-defined]
        assert all(config is None or config.is_l1() for config in moved)


def test_what_is_frozen_stays() -> None:
    with planned_chain(FEW_CORES) as network:
        search = search_of(network, freeze=("conv1",))
        ShardingStep().run(search)
        assert "conv1" not in search.best.assignment
        assert {"conv0", "conv2"} & set(search.best.assignment)


def test_nothing_is_tried_where_memory_is_the_goal() -> None:
    with planned_chain(FEW_CORES) as network:
        search = search_of(network, goal="memory")
        ShardingStep().run(search)
        assert search.journal.attempts == []


def test_what_the_model_refuses_is_tried_in_parts() -> None:
    """A model that does not take block shards in its first layer: the rest of the proposal is kept."""

    class Choosy(PlannedNetwork):
        def predict(self, assignment: Assignment) -> Prediction | Refusal:
            first = assignment.get("conv0", {}).get("sharding_strategy")
            if isinstance(first, BlockShardedStrategyConfiguration):
                return Refusal("no blocks here", "conv0")
            return super().predict(assignment)

    with planned_chain(FEW_CORES) as network:
        choosy = Choosy(network.planned)
        search = search_of(choosy)
        before = search.best.device_ns
        search_graph(search, choosy, "sharding")
        assert search.journal.attempts[0].outcome == "refused"
        assert search.best.device_ns < 0.6 * before
        assert isinstance(search.configuration("conv1").sharding_strategy, BlockShardedStrategyConfiguration)  # type: ignore[attr-defined]


def test_what_the_model_is_slower_with_is_taken_back() -> None:
    """A model that loses time with other shards in its last layer, which no graph can know."""

    class Slower(PlannedNetwork):
        def predict(self, assignment: Assignment) -> Prediction | Refusal:
            predicted = super().predict(assignment)
            own = self.configurations["conv2"].sharding_strategy  # type: ignore[attr-defined]
            if isinstance(predicted, Refusal) or assignment.get("conv2", {}).get("sharding_strategy", own) == own:
                return predicted
            return replace(predicted, device_ns=predicted.device_ns + 15_000.0)

    with planned_chain(APART) as network:
        slower = Slower(network.planned)
        search = search_of(slower)
        search_graph(search, slower, "sharding")
        first = search.journal.attempts[0]
        assert first.outcome == "kept" and set(first.changes) >= {"conv0", "conv2"}
        assert any(one.outcome == "kept" and "as before" in one.words for one in search.journal.attempts)
        own = search.predictor.configurations["conv2"].sharding_strategy  # type: ignore[attr-defined]
        assert search.configuration("conv2").sharding_strategy == own  # type: ignore[attr-defined]
        assert "conv0" in search.best.assignment


def test_the_step_is_registered() -> None:
    assert STEPS["sharding"] is ShardingStep
