# SPDX-License-Identifier: Apache-2.0
"""The sharding strategies and activation blocks that a convolution can sensibly be given on a grid of cores.

Few, and the likely ones first: searches plan each of them. The rules for cores are TT-NN's own, so this loads the
virtual card; configurations alone do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.sharding import (
    TILE,
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    ShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig, parallel_config
from tt_cnn.virtual.types.enums import TensorMemoryLayout
from tt_cnn.virtual.types.geometry import div_up

Grid = tuple[int, int]
"""Columns and rows of cores."""

_LAYOUTS = {
    HeightShardedStrategyConfiguration: HEIGHT,
    BlockShardedStrategyConfiguration: BLOCK,
    WidthShardedStrategyConfiguration: WIDTH,
}
_BLOCK_GRIDS = 3
_WIDTH_GRIDS = 2
_MOST_BLOCKS = 6
"""Heights of activation blocks that are tried of one strategy."""
_WIDTH_DIVISORS = (2, 4)


def runs_as_matmul(configuration: ConvolutionConfiguration) -> bool:
    """A 1x1 convolution that touches every pixel once: no blocks, no halo, unless it is width sharded."""
    config = configuration
    return config.kernel_size == config.stride == config.dilation == (1, 1) and not any(config.padding)


def strategies(configuration: ConvolutionConfiguration, grid: Grid) -> list[ShardedStrategyConfiguration]:
    """Layouts with the cores that TT-NN chooses, on the input's own shards and redistributed, then other cores."""
    found: list[ShardedStrategyConfiguration] = []
    for kind in _LAYOUTS:
        found += [kind(reshard_if_not_optimal=False), kind(reshard_if_not_optimal=True)]
    return [*found, *_on_other_cores(configuration, grid)]


def with_blocks(
    configuration: ConvolutionConfiguration, strategy: ShardedStrategyConfiguration, grid: Grid
) -> list[ShardedStrategyConfiguration]:
    """The strategy with each block that divides what a core has; the whole of it, which is 0 or 1, first."""
    if isinstance(strategy, WidthShardedStrategyConfiguration):
        inner = div_up(configuration.in_channels, TILE) * configuration.kernel_size[0] * configuration.kernel_size[1]
        parts = inner // max(1, _cores(configuration, strategy, grid).cores_c)
        divisors = [1, *(n for n in _WIDTH_DIVISORS if parts % n == 0 and parts > n)]
        return [replace(strategy, act_block_w_div=n) for n in divisors]
    if not isinstance(strategy, (HeightShardedStrategyConfiguration, BlockShardedStrategyConfiguration)):
        return [strategy]
    if runs_as_matmul(configuration):
        return [replace(strategy, act_block_h_override=0)]
    return [replace(strategy, act_block_h_override=rows) for rows in block_heights(configuration, strategy, grid)]


def block_heights(
    configuration: ConvolutionConfiguration, strategy: ShardedStrategyConfiguration, grid: Grid
) -> list[int]:
    """0, which is all rows of a core, and the multiples of 32 that divide them, the largest first."""
    tiles = div_up(_output_tiles(configuration), _cores(configuration, strategy, grid).cores_nhw)
    divisors = [n for n in range(tiles - 1, 0, -1) if tiles % n == 0]
    if len(divisors) > _MOST_BLOCKS:  # spread over all sizes
        divisors = [divisors[i * (len(divisors) - 1) // (_MOST_BLOCKS - 1)] for i in range(_MOST_BLOCKS)]
    return [0, *(TILE * n for n in divisors)]


def _output_tiles(configuration: ConvolutionConfiguration) -> int:
    height, width = configuration.output_size
    return div_up(configuration.batch_size * height * width, TILE)


def _cores(
    configuration: ConvolutionConfiguration, strategy: ShardedStrategyConfiguration, grid: Grid
) -> ParallelConfig:
    """Of its input: those that it names, or those that TT-NN chooses."""
    layout = _LAYOUTS[type(strategy)]
    chosen: Any = strategy.override_core_grid  # type: ignore[attr-defined]
    default = _default_cores(configuration, layout, grid)
    if chosen is None:
        return default
    return ParallelConfig(chosen, layout, default.orientation)


def _default_cores(configuration: ConvolutionConfiguration, layout: TensorMemoryLayout, grid: Grid) -> ParallelConfig:
    height, width = configuration.output_size
    pixels = configuration.batch_size * height * width
    channels = configuration.in_channels, configuration.out_channels
    matmul = runs_as_matmul(configuration) and layout is not WIDTH
    return parallel_config(layout, pixels, *channels, TILE, grid, pad_channels=not matmul)


def _on_other_cores(configuration: ConvolutionConfiguration, grid: Grid) -> Iterator[ShardedStrategyConfiguration]:
    """Height shards of equal size; block shards that give the busiest core least to do; fewer width shards."""
    tiles, outer = _output_tiles(configuration), div_up(configuration.out_channels, TILE)
    inner = div_up(configuration.in_channels, TILE)
    rows_of = _default_cores(configuration, HEIGHT, grid).cores_nhw
    even = max(n for n in range(1, min(grid[0] * grid[1], tiles) + 1) if tiles % n == 0)
    if even != rows_of:
        yield HeightShardedStrategyConfiguration(override_core_grid=_in_rows(even, grid))
    for columns, rows in _block_grids(configuration, grid, tiles, inner, outer):
        cores = _rectangle(columns, rows)
        yield BlockShardedStrategyConfiguration(override_core_grid=cores)
        if outer % columns == 0:
            yield BlockShardedStrategyConfiguration(override_core_grid=cores, override_output_sharding_config=True)
    default = _default_cores(configuration, WIDTH, grid).cores_c
    counts = [n for n in range(min(inner, grid[0] * grid[1]), 1, -1) if inner % n == 0 and n != default]
    for count in counts[:_WIDTH_GRIDS]:
        if count <= grid[0] or count % grid[0] == 0:  # TT-NN multicasts along whole rows
            yield WidthShardedStrategyConfiguration(override_core_grid=_in_rows(count, grid))


def _block_grids(
    configuration: ConvolutionConfiguration, grid: Grid, tiles: int, inner: int, outer: int
) -> list[tuple[int, int]]:
    """Columns and rows without empty cores, those first whose busiest core has least to multiply; one of each width."""
    default = _default_cores(configuration, BLOCK, grid)
    known = (default.cores_c, default.cores_nhw)
    exact = runs_as_matmul(configuration)
    sizes = [
        (columns, rows)
        for columns in range(1, grid[0] + 1)
        for rows in range(1, grid[1] + 1)
        if not _leaves_empty(tiles, rows)
        and not _leaves_empty(inner, columns)
        and (not exact or (inner % columns == 0 and outer % columns == 0))
        and (columns, rows) != known
    ]

    def work(size: tuple[int, int]) -> tuple[int, int]:
        columns, rows = size
        return div_up(tiles, rows) * div_up(outer, columns), columns * rows

    best: dict[int, tuple[int, int]] = {}
    for size in sorted(sizes, key=work):
        best.setdefault(size[0], size)
    return list(best.values())[:_BLOCK_GRIDS]


def _leaves_empty(parts: int, cores: int) -> bool:
    """Whether the last core gets nothing when each takes the same number of parts."""
    return (cores - 1) * div_up(parts, cores) >= parts


def _in_rows(count: int, grid: Grid) -> Any:
    return ShardedStrategyConfiguration.get_core_grid_from_num_cores(count, *grid)


def _rectangle(columns: int, rows: int) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))])
