# SPDX-License-Identifier: Apache-2.0
"""Sharding strategies: how a convolution's activations are spread over the cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, flags, instance, whole

TILE = 32

_COMMON_RULES = (
    *flags("reshard_if_not_optimal"),
    instance("override_core_grid", None, ttnn.CoreRangeSet),
)
_BLOCK_HEIGHT_RULES = (
    whole("act_block_h_override", at_least=0),
    Rule(
        "act_block_h_override",
        lambda c: c.act_block_h_override % TILE == 0,
        f"a multiple of {TILE}, or 0 to let TT-NN choose",
    ),
)
_BLOCK_WIDTH_RULES = (whole("act_block_w_div"),)


class ShardedStrategyConfiguration(Configuration):
    """Base of the sharding strategies."""

    memory_layout: ClassVar[Any]

    def get_tensor_memory_layout(self) -> Any:
        """The layout that the strategy asks TT-NN for; None leaves the choice to it."""
        return self.memory_layout

    @staticmethod
    def get_core_grid_from_num_cores(num_cores: int, grid_rows: int, grid_cols: int) -> Any:
        """`num_cores` cores, row by row from (0, 0).

        The names are TT-CNN's: `grid_rows` is how long a row of cores is (the grid's x), `grid_cols` how many rows
        there are (its y).
        """
        if not 1 <= num_cores <= grid_rows * grid_cols:
            raise ValueError(
                f"num_cores is {num_cores}; it must be between 1 and {grid_rows * grid_cols}, "
                f"the cores of a {grid_rows} x {grid_cols} grid."
            )
        full_rows, rest = divmod(num_cores, grid_rows)
        ranges = []
        if full_rows:
            ranges.append(ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid_rows - 1, full_rows - 1)))
        if rest:
            ranges.append(ttnn.CoreRange(ttnn.CoreCoord(0, full_rows), ttnn.CoreCoord(rest - 1, full_rows)))
        return ttnn.CoreRangeSet(ranges)


@dataclass(frozen=True, eq=False)
class AutoShardedStrategyConfiguration(ShardedStrategyConfiguration):
    """TT-NN picks the layout that needs least L1."""

    memory_layout = None


@dataclass(frozen=True, eq=False)
class AutoTunedStrategyConfiguration(ShardedStrategyConfiguration):
    """The fastest layout, cores and blocks for the input that the layer is first called with, found by planning.

    The layer alone is looked at: what comes before and after it may like other shards better.
    """

    memory_layout = None


@dataclass(frozen=True, eq=False)
class HeightShardedStrategyConfiguration(ShardedStrategyConfiguration):
    """Rows of the flattened image (N*H*W) are distributed: for large images with few channels."""

    reshard_if_not_optimal: bool = False
    override_core_grid: Any = None
    act_block_h_override: int = 0

    memory_layout = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    rules = (*_COMMON_RULES, *_BLOCK_HEIGHT_RULES)


@dataclass(frozen=True, eq=False)
class WidthShardedStrategyConfiguration(ShardedStrategyConfiguration):
    """Channels are distributed: for small images with many channels."""

    reshard_if_not_optimal: bool = False
    override_core_grid: Any = None
    act_block_w_div: int = 1

    memory_layout = ttnn.TensorMemoryLayout.WIDTH_SHARDED
    rules = (*_COMMON_RULES, *_BLOCK_WIDTH_RULES)


@dataclass(frozen=True, eq=False)
class BlockShardedStrategyConfiguration(ShardedStrategyConfiguration):
    """Rows are distributed along one side of the grid, channels along the other."""

    reshard_if_not_optimal: bool = False
    override_core_grid: Any = None
    act_block_h_override: int = 0
    act_block_w_div: int = 1
    override_output_sharding_config: bool = False
    """The grid given is the output's too; TT-NN else derives the output's from its channels."""

    memory_layout = ttnn.TensorMemoryLayout.BLOCK_SHARDED
    rules = (
        *_COMMON_RULES,
        *_BLOCK_HEIGHT_RULES,
        *_BLOCK_WIDTH_RULES,
        *flags("override_output_sharding_config"),
        Rule(
            "override_output_sharding_config",
            lambda c: c.override_core_grid is not None or not c.override_output_sharding_config,
            "False without override_core_grid",
        ),
    )


ShardingStrategy = (
    HeightShardedStrategyConfiguration
    | WidthShardedStrategyConfiguration
    | BlockShardedStrategyConfiguration
    | AutoShardedStrategyConfiguration
    | AutoTunedStrategyConfiguration
)
