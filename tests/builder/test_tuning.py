# SPDX-License-Identifier: Apache-2.0
"""AutoTunedStrategyConfiguration: the layer takes the fastest of all strategies for the input that it is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    AutoTunedStrategyConfiguration,
    ChannelSliceStrategyConfiguration,
    Configuration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    L1FullSliceStrategyConfiguration,
    TtConv2d,
    TtConvTranspose2d,
    configuration_from_dict,
)
from tt_cnn.builder.tuning import native, strategies_for
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.testing import assert_with_pcc
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.types import enums

SHAPES = [(28, 28, 128, 128, (3, 3)), (14, 14, 512, 256, (1, 1)), (56, 56, 32, 64, (3, 3)), (7, 7, 256, 512, (3, 3))]


def convolution(shape: Any, **settings: Any) -> Conv2dConfiguration:
    height, width, inner, outer, kernel = shape
    return Conv2dConfiguration.with_random_weights(
        height,
        width,
        inner,
        outer,
        1,
        kernel,
        padding=(kernel[0] // 2, kernel[0] // 2),
        **{
            "sharding_strategy": AutoTunedStrategyConfiguration(),
            "slice_strategy": L1FullSliceStrategyConfiguration(),
            **settings,
        },
    )


def input_of(configuration: Conv2dConfiguration, device: Any) -> Any:
    pixels = configuration.input_height * configuration.input_width
    zeros = torch.zeros(1, 1, pixels, configuration.in_channels)
    host = ttnn.from_torch(zeros, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    return ttnn.to_device(host, device, memory_config=ttnn.L1_MEMORY_CONFIG)


def time_of(layer: Any, x: Any, device: PlanningCard) -> float | None:
    """Kernels of one call of the layer, as the card runs it."""
    commands: list[Any] = []
    device.listeners.append(commands.append)
    try:
        layer(x)
    except RuntimeError:
        return None
    finally:
        device.listeners.remove(commands.append)
    return sum(kernel_cost(placed.step, device.card).ns for command in commands for placed in command.steps)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_layer_is_as_fast_as_the_best_of_all_tried_by_hand(shape: Any) -> None:
    configuration = convolution(shape)
    device = PlanningCard("n150", l1_small_size=65536)
    device.advises = False
    try:
        x = input_of(configuration, device)
        tuned = TtConv2d(configuration, device)
        assert tuned.strategy is None
        own = time_of(tuned, x, device)
        times = []
        for strategy in strategies_for(configuration, device.card.grid):
            device.clear_program_cache()
            times.append(time_of(TtConv2d(replace(configuration, sharding_strategy=strategy), device), x, device))
        fitting = [ns for ns in times if ns is not None]
        assert len(fitting) >= 3 and max(fitting) > 1.05 * min(fitting), "there must be something to choose from"
        assert own == pytest.approx(min(fitting))
    finally:
        device.close()


def test_a_transposed_convolution_is_tuned_too() -> None:
    configuration = ConvTranspose2dConfiguration.with_random_weights(
        16, 16, 64, 32, 1, (2, 2), stride=(2, 2), sharding_strategy=AutoTunedStrategyConfiguration()
    )
    device = PlanningCard("n150", l1_small_size=65536)
    device.advises = False
    try:
        x = input_of(configuration, device)  # type: ignore[arg-type]
        tuned = TtConvTranspose2d(configuration, device)
        own = time_of(tuned, x, device)
        automatic = replace(configuration, sharding_strategy=AutoShardedStrategyConfiguration())
        assert own is not None
        assert own <= (time_of(TtConvTranspose2d(automatic, device), x, device) or own)
        assert tuned.strategy is not None
    finally:
        device.close()


def test_values_are_those_of_the_convolution(card: Any) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(32, 64, 3, padding=1)
    images = torch.randn(1, 32, 14, 14)
    configuration = Conv2dConfiguration.from_torch(layer, 14, 14, 1, sharding_strategy=AutoTunedStrategyConfiguration())
    rows = images.permute(0, 2, 3, 1).reshape(1, 1, 196, 32)
    x = ttnn.from_torch(rows, dtype=ttnn.bfloat16)
    output = ttnn.to_torch(TtConv2d(configuration, card)(x)).float()
    assert_with_pcc(layer(images).permute(0, 2, 3, 1).reshape(1, 1, 196, 64).detach(), output[..., :64], 0.99)


def test_where_nothing_fits_the_error_is_that_of_ttnns_own_choice() -> None:
    configuration = convolution((240, 320, 512, 512, (7, 7)))
    device = PlanningCard("n150", l1_small_size=65536)
    device.advises = False
    try:
        zeros = torch.zeros(1, 1, 240 * 320, 512)
        x = ttnn.to_device(ttnn.from_torch(zeros, dtype=ttnn.bfloat16), device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        layer = TtConv2d(configuration, device)
        with pytest.raises(RuntimeError):
            layer(x)
        assert layer.strategy == AutoShardedStrategyConfiguration()
    finally:
        device.close()


def test_json_and_rules() -> None:
    strategy: Configuration = AutoTunedStrategyConfiguration()
    assert configuration_from_dict(strategy.to_dict()) == strategy
    with pytest.raises(ValueError, match=r"sharding_strategy .* another strategy with channel slicing"):
        convolution(SHAPES[0], slice_strategy=ChannelSliceStrategyConfiguration(2))


def test_values_of_ttnn_are_found_by_their_names() -> None:
    """The real library's enumerations are other objects of the same names."""
    layout = type("TensorMemoryLayout", (), {"name": "BLOCK_SHARDED"})()
    assert native(layout) is enums.TensorMemoryLayout.BLOCK_SHARDED
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 1))])
    assert native(grid) == grid
    leaky = ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.5)
    assert native(leaky) == (ttnn.UnaryOpType.LEAKY_RELU, (0.5,))
