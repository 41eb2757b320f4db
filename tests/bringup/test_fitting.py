# SPDX-License-Identifier: Apache-2.0
"""Fitting: what is done about a refusal follows from its reason, and nothing is kept that has become needless."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

from tests.bringup.bringing import Written, bring_up
from tt_cnn import ttnn
from tt_cnn.bringup.accuracy import RUNGS, arithmetic_settings
from tt_cnn.bringup.fitting import Fitted, _from_dram, fit, fit_fastest
from tt_cnn.bringup.lowering.program import Program
from tt_cnn.bringup.lowering.skips import place_skips
from tt_cnn.builder import Conv2dConfiguration
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.overrides import Assignment, overriding
from tt_cnn.builder.sharding import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import WidthSliceStrategyConfiguration
from tt_cnn.optimizer.prediction import Prediction, Refusal
from tt_cnn.virtual.arch import card_by_name

NO_ROOM = "Out of Memory: Not enough space to allocate 1 B L1 buffer"
WRONG_SHARDS = "Conv2d supports Height, Block or Width Sharded Layouts but got TensorMemoryLayout::INTERLEAVED"
DRAM = ttnn.DRAM_MEMORY_CONFIG


class Card:
    """A predictor by a rule of the test's: a refusal, or a time."""

    def __init__(self, configurations: Mapping[str, Configuration], rule: Callable[[Assignment], Any]) -> None:
        self.configurations, self.rule = configurations, rule
        self.card = card_by_name("n150")

    def predict(self, assignment: Assignment) -> Prediction | Refusal:
        found = self.rule(assignment)
        return found if isinstance(found, Refusal) else Prediction(found, 1, {})


def u_shaped(model: Any, x: torch.Tensor) -> torch.Tensor:
    large = model.first(x)
    small = model.second(model.first_down(nn.functional.max_pool2d(large, 2)))
    return model.last(torch.cat([nn.functional.interpolate(small, scale_factor=2), large], 1))


def lowered(device: Any) -> tuple[Program, Mapping[str, Configuration]]:
    convs = {name: nn.Conv2d(32, 32, 3, padding=1) for name in ("first", "first_down", "second")}
    model = Written(u_shaped, **convs, last=nn.Conv2d(64, 8, 1))
    program, kind = bring_up(model, (1, 32, 16, 16), place_skips)
    with overriding(None) as building:
        kind(model, device, batch_size=1)
    return program, {layer.name: layer.configuration for layer in building.layers}


def fitted(device: Any, rule: Callable[[Assignment], Any], run: Callable[..., Fitted] = fit) -> Fitted:
    program, configurations = lowered(device)
    return run(Card(configurations, rule), program, Assignment())  # type: ignore[arg-type]


def test_a_skip_waits_in_dram_where_a_layer_beside_it_has_no_room(device: Any) -> None:
    def rule(assignment: Assignment) -> Any:
        return 1.0 if assignment.get("skip") else Refusal(NO_ROOM, "second")

    found = fitted(device, rule)
    assert found.assignment == Assignment({"skip": {"memory_config": DRAM}})
    assert [each.layer for each in found.misfits] == ["second"]


def test_room_is_no_remedy_for_shards_that_do_not_suit(device: Any) -> None:
    def rule(assignment: Assignment) -> Any:
        strategy = assignment.get("second", {}).get("sharding_strategy")
        suits = isinstance(strategy, BlockShardedStrategyConfiguration)
        return 1.0 if suits else Refusal(WRONG_SHARDS, "second")

    found = fitted(device, rule)
    assert set(found.assignment) == {"second"} and set(found.assignment["second"]) == {"sharding_strategy"}


def test_what_a_later_change_has_made_needless_is_taken_back(device: Any) -> None:
    """Room is first made in DRAM; then the layer behind is sharded so that it would have fitted anyway."""

    def rule(assignment: Assignment) -> Any:
        narrow = "sharding_strategy" in assignment.get("last", {})
        moved = bool(assignment.get("skip"))
        if not narrow and not moved:
            return Refusal(NO_ROOM, "second")
        if not narrow:
            return Refusal(NO_ROOM, "last")
        return 3.0 if moved else 2.0

    found = fitted(device, rule)
    assert set(found.assignment) == {"last"} and found.prediction == Prediction(2.0, 1, {})
    assert [each.layer for each in found.misfits] == ["last"]


def test_what_is_still_of_use_stays(device: Any) -> None:
    def rule(assignment: Assignment) -> Any:
        if not assignment.get("skip"):
            return Refusal(NO_ROOM, "second")
        return 2.0 if "sharding_strategy" in assignment.get("last", {}) else Refusal(NO_ROOM, "last")

    assert set(fitted(device, rule).assignment) == {"skip", "last"}


def test_the_fastest_beginning_is_taken(device: Any) -> None:
    def rule(assignment: Assignment) -> Any:
        strategies = [assignment.get(name, {}).get("sharding_strategy") for name in ("first", "second", "last")]
        return 1.0 if all(isinstance(each, HeightShardedStrategyConfiguration) for each in strategies) else 2.0

    found = fitted(device, rule, fit_fastest)
    assert found.prediction == Prediction(1.0, 1, {}) and not found.misfits


@pytest.mark.parametrize("on_cores, kept", [(1.0, True), (3.0, False)])
def test_linear_layers_are_put_on_all_cores_where_that_is_faster(on_cores: float, kept: bool, device: Any) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    program, kind = bring_up(model, (2, 64))
    with overriding(None) as building:
        kind(model, device, batch_size=2)
    configurations = {layer.name: layer.configuration for layer in building.layers}
    layers = [name for name, each in configurations.items() if isinstance(each, LinearConfiguration)]
    assert len(layers) == 2

    def rule(assignment: Assignment) -> Any:
        grids = [assignment.get(name, {}).get("core_grid") for name in layers]
        return on_cores if all(grid is not None and (grid.x, grid.y) == (8, 8) for grid in grids) else 2.0

    found = fit_fastest(Card(configurations, rule), program, Assignment())  # type: ignore[arg-type]
    assert bool(found.assignment) is kept and found.prediction == Prediction(min(on_cores, 2.0), 1, {})


def test_a_refusal_that_nothing_helps_against_is_the_result(device: Any) -> None:
    found = fitted(device, lambda assignment: Refusal(NO_ROOM, "second"), fit_fastest)
    assert found.prediction == Refusal(NO_ROOM, "second")


def test_convolutions_of_images_compute_finer_but_in_the_cheapest_arithmetic(device: Any) -> None:
    _, configurations = lowered(device)
    cheapest, *others = RUNGS
    settings = arithmetic_settings(cheapest, configurations, {"first"})
    assert settings["first"] == settings["second"] and settings["second"]["output_dtype"] == ttnn.bfloat8_b
    for rung in others:
        settings = arithmetic_settings(rung, configurations, {"first"})
        assert settings["first"]["math_fidelity"] == ttnn.MathFidelity.HiFi4
        assert settings["first"]["weights_dtype"] == ttnn.bfloat16
    assert not {"weights_dtype", "output_dtype"} & set(settings["second"]), "the last one computes in bfloat16"


@pytest.mark.parametrize("side, channels, first", [(8, 256, "WidthSlice"), (64, 32, "Auto")])
def test_from_dram_layers_of_many_channels_run_in_slices_of_block_shards(side: int, channels: int, first: str) -> None:
    """Dilated convolutions of small images, whose windows reach far, need it."""
    configuration = Conv2dConfiguration.with_random_weights(side, side, channels, channels, 1, (3, 3))
    settings, *_ = [changes["conv"] for changes in _from_dram("conv", configuration)]
    assert settings["input_memory_config"] == DRAM
    if first == "Auto":
        assert isinstance(settings["sharding_strategy"], AutoShardedStrategyConfiguration)
    else:
        assert isinstance(settings["sharding_strategy"], BlockShardedStrategyConfiguration)
        assert isinstance(settings["slice_strategy"], WidthSliceStrategyConfiguration)
