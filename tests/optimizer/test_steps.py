# SPDX-License-Identifier: Apache-2.0
"""Each step cures the bottleneck that it is for, planted in a model that has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.optimizer.mixed_model import NAME as MIXED
from tests.optimizer.mixed_model import mixed_entry
from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    Assignment,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    HeightShardedStrategyConfiguration,
    PlacementConfiguration,
)
from tt_cnn.models import registry
from tt_cnn.models.picture import PictureConfiguration
from tt_cnn.optimizer.alike import groups_of_alike, listed
from tt_cnn.optimizer.prediction import PlannedNetwork, Prediction, Refusal, planned_network
from tt_cnn.optimizer.repair import repaired
from tt_cnn.optimizer.search import Budget, Candidate, Search
from tt_cnn.optimizer.steps import STEPS
from tt_cnn.optimizer.words import described

Settings = Mapping[str, Mapping[str, Any]]


def cured(network: PlannedNetwork, step: str, planted: Settings) -> tuple[float, float, Search]:
    """The time of the model as it is, and with something planted in it after the step; the latter's search."""
    own = network.predict(Assignment())
    assert isinstance(own, Prediction)
    search = Search.starting_from(network, Assignment(planted), budget=Budget(seconds=None))
    assert search.best.device_ns > own.device_ns, "what is planted costs time"
    STEPS[step]().run(search)
    return own.device_ns, search.best.device_ns, search


def test_small_blocks_and_single_buffers_are_found() -> None:
    with planned_network("vanilla_unet", "n150") as network:
        slow = HeightShardedStrategyConfiguration(act_block_h_override=32)
        single = {"enable_act_double_buffer": False, "enable_weights_double_buffer": False}
        layers = ("encoder1.conv2", "decoder2.conv2")
        own, found, search = cured(network, "conv2d", {name: {"sharding_strategy": slow, **single} for name in layers})
    assert found <= own
    assert {name for attempt in search.journal.kept for name in attempt.changes} >= set(layers)


def test_averages_of_whole_images_become_products() -> None:
    with planned_network("resnet50", "p150", batch_size=16) as network:
        search = Search.starting_from(network, Assignment(), budget=Budget(seconds=None))
        before = search.prediction.layer_ns["avgpool"]
        STEPS["pools"]().run(search)
        assert search.best.assignment == Assignment({"avgpool": {"as_mean": True}})
        assert 2 * search.prediction.layer_ns["avgpool"] < before


def test_a_stage_that_starts_in_dram_is_found() -> None:
    with planned_network("resnet50", "n150", batch_size=8) as network:
        assert isinstance(network.configurations["layer2.input"], PlacementConfiguration)
        planted = {"layer2.input": {"memory_config": ttnn.DRAM_MEMORY_CONFIG}}
        own, found, _ = cured(network, "memory", planted)
    assert found < 1.1 * own, "DRAM more than doubles the model's time"


def test_linear_layers_on_few_cores_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._ENTRIES, MIXED, mixed_entry())
    with planned_network(MIXED, "n150") as network:
        one_core = {"core_grid": ttnn.CoreGrid(x=1, y=1), "memory_config": ttnn.DRAM_MEMORY_CONFIG}
        own, found, search = cured(network, "linear", {"qkv": one_core, "project": one_core})
    assert found <= own
    assert {name for attempt in search.journal.kept for name in attempt.changes} >= {"qkv", "project"}


def test_activations_apart_from_their_sums_are_fused() -> None:
    with planned_network("resnet50", "n150") as network:
        sums = [name for name, one in network.configurations.items() if isinstance(one, AddConfiguration)]
        assert len(sums) == 16
        own, found, search = cured(network, "fusing", {name: {"fuse_activation": False} for name in sums})
    assert found <= own and len(search.journal.kept) == 1, "all at once"


def test_an_image_on_few_cores_is_found() -> None:
    with planned_network("mobilenetv2", "n150") as network:
        assert isinstance(network.configurations["picture"], PictureConfiguration)
        few = ttnn.num_cores_to_corerangeset(28, ttnn.CoreCoord(8, 8), True)
        own, found, _ = cured(network, "input", {"picture": {"cores": few}})
    assert found <= own


def test_room_is_made_in_the_layer_that_is_refused() -> None:
    """All of layer3 in height shards is refused for the sake of its downsampling alone."""
    with planned_network("resnet50", "n150", batch_size=16) as network:
        height = {"sharding_strategy": HeightShardedStrategyConfiguration()}
        changes: dict[str, Any] = {
            name: height
            for name, one in network.configurations.items()
            if name.startswith("layer3.") and isinstance(one, Conv2dConfiguration)
        }
        candidate = Candidate({**changes, "layer3.input": {"memory_config": None}}, "layer3 in height shards")
        refused = network.predict(Assignment(candidate.changes))
        assert isinstance(refused, Refusal) and refused.layer in changes
        search = Search.starting_from(network, budget=Budget(seconds=None))
        fitting = repaired(search, candidate)
        assert isinstance(network.predict(Assignment(fitting.changes)), Prediction)
        assert refused.layer in fitting.words and "room made" in fitting.words
        wrong = replace(candidate, changes={"conv1": {"groups": 7}})
        assert repaired(search, wrong) is wrong, "nothing helps against refusals of another kind"


def test_layers_that_are_alike_are_changed_together() -> None:
    with planned_network("resnet50", "n150") as network:
        search = Search.starting_from(network, budget=Budget(seconds=None))
        groups = groups_of_alike(search, search.layers(Conv2dConfiguration, ConvTranspose2dConfiguration))
    assert sorted(name for group in groups for name in group) == sorted(
        name for name, one in network.configurations.items() if isinstance(one, Conv2dConfiguration)
    )
    assert ["layer3.1.conv2", "layer3.2.conv2"] in [sorted(group)[:2] for group in groups]
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a and 2 like it"]


def test_a_frozen_layer_is_not_proposed() -> None:
    with planned_network("vanilla_unet", "n150") as network:
        search = Search.starting_from(network, budget=Budget(seconds=None), freeze=("encoder*", "picture", "skip*"))
        for step in ("input", "memory", "conv2d"):
            STEPS[step]().run(search)
        changed = {name for attempt in search.journal.attempts for name in attempt.changes}
    assert changed and not [name for name in changed if name.startswith(("encoder", "picture", "skip"))]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"enable_act_double_buffer": True}, "enable_act_double_buffer=True"),
        ({"sharding_strategy": HeightShardedStrategyConfiguration()}, "HeightSharded"),
        (
            {"sharding_strategy": HeightShardedStrategyConfiguration(act_block_h_override=64)},
            "HeightSharded(act_block_h_override=64)",
        ),
        ({"memory_config": ttnn.DRAM_MEMORY_CONFIG}, "memory_config=DRAM interleaved"),
    ],
)
def test_settings_in_words(settings: dict[str, Any], words: str) -> None:
    assert described(settings) == words
