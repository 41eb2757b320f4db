# SPDX-License-Identifier: Apache-2.0
"""Advice in TT-NN's terms as settings of a layer."""

from __future__ import annotations

from typing import Any

import pytest

from tt_cnn import ttnn
from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    GlobalAvgPool2dConfiguration,
    HeightShardedStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.advice import settings_for, strategy_of
from tt_cnn.builder.overrides import Assignment, with_settings
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum, Slicing

BLOCK, WIDTH = ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.TensorMemoryLayout.WIDTH_SHARDED


def convolution(**settings: Any) -> Conv2dConfiguration:
    return Conv2dConfiguration.with_random_weights(8, 8, 32, 32, 1, (3, 3), padding=(1, 1), **settings)


HEIGHT = HeightShardedStrategyConfiguration(reshard_if_not_optimal=True, act_block_h_override=64)
CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"weights_dtype": ttnn.bfloat8_b}, {"weights_dtype": ttnn.bfloat8_b}),
    ({"math_fidelity": ttnn.MathFidelity.HiFi4}, {"math_fidelity": ttnn.MathFidelity.HiFi4}),
    ({"enable_act_double_buffer": True}, {"enable_act_double_buffer": True}),
    ({"dtype": ttnn.bfloat8_b}, {"output_dtype": ttnn.bfloat8_b}),
    (
        {"act_block_h_override": 128},
        {"sharding_strategy": HeightShardedStrategyConfiguration(True, act_block_h_override=128)},
    ),
    (
        {"shard_layout": BLOCK, "act_block_h_override": 0, "memory_config": ttnn.L1_MEMORY_CONFIG},
        {"sharding_strategy": BlockShardedStrategyConfiguration(reshard_if_not_optimal=True)},
    ),
    (
        {"shard_layout": WIDTH, "act_block_h_override": 0, "override_sharding_config": False, "core_grid": None},
        {"sharding_strategy": WidthShardedStrategyConfiguration(reshard_if_not_optimal=True)},
    ),
    (
        {"slice_config": Slicing(SliceTypeEnum.DRAMSliceHeight, 4)},
        {"slice_strategy": HeightSliceStrategyConfiguration(4)},
    ),
    (
        {"slice_config": None, "shard_layout": None, "act_block_h_override": 0},
        {"slice_strategy": None, "sharding_strategy": AutoShardedStrategyConfiguration()},
    ),
]


@pytest.mark.parametrize(("change", "settings"), CHANGES)
def test_a_change_of_a_convolution(change: dict[str, Any], settings: dict[str, Any]) -> None:
    configuration = convolution(sharding_strategy=HEIGHT)
    found = settings_for(configuration, change)
    assert found == settings
    assert with_settings(configuration, found) == with_settings(configuration, settings)
    assert Assignment.from_dict(Assignment({"a": found}).to_dict()) == Assignment({"a": settings})


def test_what_a_configuration_cannot_say_is_none() -> None:
    automatic = convolution(sharding_strategy=AutoShardedStrategyConfiguration())
    assert settings_for(automatic, {"act_block_h_override": 64}) is None
    assert settings_for(convolution(), {"memory_config": ttnn.L1_MEMORY_CONFIG}) is None
    assert settings_for(convolution(), {"leave out": ("ttnn.relu",)}) is None
    pool = MaxPool2dConfiguration(8, 8, 32, 1, kernel_size=(2, 2))
    assert settings_for(pool, {"weights_dtype": ttnn.bfloat8_b}) is None
    assert settings_for(pool, {}) is None and settings_for(convolution(), {}) is None


def test_changes_of_other_layers() -> None:
    linear = LinearConfiguration.with_random_weights(32, 64)
    found = settings_for(linear, {"core_grid": (8, 8)})
    assert found is not None and (found["core_grid"].x, found["core_grid"].y) == (8, 8)
    assert with_settings(linear, found).core_grid.x == 8
    average = GlobalAvgPool2dConfiguration(7, 7, 64, 1)
    assert settings_for(average, {"as_mean": True}) == {"as_mean": True}


def test_a_strategy_takes_the_options_that_it_has() -> None:
    assert strategy_of(WIDTH, act_block_h_override=64, reshard_if_not_optimal=True) == (
        WidthShardedStrategyConfiguration(reshard_if_not_optimal=True)
    )
    assert strategy_of(None, act_block_h_override=64) == AutoShardedStrategyConfiguration()


def test_what_is_no_setting_is_not_taken_for_one() -> None:
    """Calls that a finding leaves out come as a tuple of names, as a grid comes as a pair of numbers."""
    pool = MaxPool2dConfiguration(8, 8, 32, 1, kernel_size=(2, 2), stride=(2, 2))
    assert settings_for(pool, {"without": ("ttnn.to_layout", "ttnn.to_layout")}) is None
