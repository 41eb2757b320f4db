# SPDX-License-Identifier: Apache-2.0
"""What a convolution can be set to: few settings, none of them the layer's own, and TT-NN takes most of them."""

from __future__ import annotations

import pytest

from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.overrides import with_settings
from tt_cnn.builder.strategy_candidates import block_heights, strategies
from tt_cnn.optimizer.candidates import blocks, buffers, convolution_candidates, deallocations, shardings, slices
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.ops.conv2d.blocks import blocks_of
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.sliding_window.parallel import HEIGHT, parallel_config, sharded_memory_config

N150 = card_by_name("n150")
SHAPES = [
    (120, 160, 32, 64, 1, (3, 3)),
    (14, 14, 256, 256, 16, (3, 3)),
    (10, 10, 1024, 512, 1, (1, 1)),
    (80, 80, 3, 32, 1, (3, 3)),
]


def convolution(*shape: object, **settings: object) -> Conv2dConfiguration:
    padding = shape[5][0] // 2  # type: ignore[index]
    return Conv2dConfiguration.with_random_weights(*shape, padding=(padding, padding), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_candidates_are_few_valid_and_change_something(shape: tuple[object, ...]) -> None:
    own = convolution(*shape, sharding_strategy=HeightShardedStrategyConfiguration())
    found = convolution_candidates(own, N150)
    made = [with_settings(own, settings) for settings in found]
    assert own not in made
    assert len(shardings(own, N150)) == len({repr(s) for s in shardings(own, N150)}) <= 16
    assert len(found) <= 48


def test_topics_change_only_their_own_settings() -> None:
    own = convolution(*SHAPES[0])
    changed = {topic: {key for one in topic(own, N150) for key in one} for topic in (buffers, deallocations, slices)}
    assert changed[buffers] == {"enable_act_double_buffer", "enable_weights_double_buffer"}
    assert changed[deallocations] == {"deallocate_activation", "reallocate_halo_output"}
    assert changed[slices] == {"slice_strategy"}
    assert blocks(own, N150) == [], "an automatic strategy has no blocks to choose"


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_block_heights_are_those_that_ttnn_takes_as_they_are(shape: tuple[object, ...]) -> None:
    """Another height would be rounded down to one of these: TT-NN takes the largest divisor of what a core has."""
    own = convolution(*shape)
    height, width = own.output_size
    pixels = own.batch_size * height * width
    cores = parallel_config(HEIGHT, pixels, own.in_channels, own.out_channels, 32, N150.grid)
    output = sharded_memory_config(pixels, own.out_channels, cores, 32)
    for rows in block_heights(own, HeightShardedStrategyConfiguration(), N150.grid)[1:]:
        settings = Settings(act_block_h_override=rows)
        found = blocks_of(output, cores, own.in_channels, own.kernel_size, width, settings, False, False)
        assert found.act_h * 32 == rows


def test_cores_are_inside_the_grid_and_none_is_empty() -> None:
    for name in ("n150", "p150"):
        grid = card_by_name(name).grid
        for shape in SHAPES:
            for strategy in strategies(convolution(*shape), grid):
                cores = None if isinstance(strategy, AutoShardedStrategyConfiguration) else strategy.override_core_grid
                if cores is None:
                    continue
                end = cores.bounding_box().end
                assert end.x < grid[0] and end.y < grid[1]


def test_width_shards_are_cut_where_parts_stay_whole() -> None:
    own = convolution(10, 10, 1024, 512, 1, (3, 3), sharding_strategy=WidthShardedStrategyConfiguration())
    assert all(one["sharding_strategy"].act_block_w_div > 1 for one in blocks(own, N150))
