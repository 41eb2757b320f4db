# SPDX-License-Identifier: Apache-2.0
"""The cores of a pool: those of its sharded input, those that a scheme gives, or the scheme that needs least L1.

The rules are those of `get_pool_input_memory_config` (generic_pools.cpp) and `determine_pool_config_for_auto_shard`
(pool_utils.cpp).
"""

from __future__ import annotations

from functools import lru_cache

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.pool.buffers import buffers_of, need_of_buffers, output_width
from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.ops.sliding_window.parallel import (
    BLOCK,
    HEIGHT,
    WIDTH,
    ParallelConfig,
    parallel_config,
    sharded_memory_config,
)
from tt_cnn.virtual.types.enums import Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

Grid = tuple[int, int]
_SMALLEST_STICK = 8
_NARROW = 16
"""Row-major shards may be this narrow; tiled ones are whole tiles."""


@lru_cache(maxsize=8192)
def input_config(
    pool: Pool, wish: Wish, rows: int, layout: Layout, grid: Grid, output_pixels: int | None = None
) -> MemoryConfig:
    """The shards of an interleaved input of so many rows; `output_pixels` are fewer for a slice of the output."""
    tiled = layout is Layout.TILE
    alignment = TILE_SIZE if tiled else _SMALLEST_STICK
    if wish.scheme is not None:
        fatal(
            wish.scheme in (HEIGHT, WIDTH, BLOCK),
            "Only height, width, or block sharding strategies are supported.",
        )
        parallel = _parallel(pool, wish, wish.scheme, alignment, tiled, grid, output_pixels)
    else:
        parallel = _least(pool, wish, tiled, grid)
    channels = round_up(pool.channels, parallel.cores_c * alignment)
    return sharded_memory_config(rows, channels, parallel, TILE_SIZE if tiled else 1)


def best_scheme(pool: Pool, wish: Wish, layout: Layout, grid: Grid) -> TensorMemoryLayout:
    return _least(pool, wish, layout is Layout.TILE, grid).layout


def _parallel(
    pool: Pool,
    wish: Wish,
    scheme: TensorMemoryLayout,
    alignment: int,
    tiled: bool,
    grid: Grid,
    output_pixels: int | None = None,
) -> ParallelConfig:
    return parallel_config(
        scheme,
        output_pixels or pool.window.output_pixels,
        pool.channels,
        pool.channels,
        alignment,
        grid,
        pad_channels=False,
        tile_height=TILE_SIZE if wish.tiled else 1,
        tile_width=TILE_SIZE if tiled or wish.tiled else _NARROW,
    )


def _least(pool: Pool, wish: Wish, tiled: bool, grid: Grid) -> ParallelConfig:
    """Width and block win only where they need less."""
    needs = {}
    for scheme in (HEIGHT, WIDTH, BLOCK):
        parallel = _parallel(pool, wish, scheme, TILE_SIZE, tiled, grid)
        needs[scheme] = _need(pool, wish, parallel), parallel
    best = WIDTH if needs[HEIGHT][0] > needs[WIDTH][0] else HEIGHT
    if needs[best][0] > needs[BLOCK][0]:
        best = BLOCK
    return needs[best][1]


def _need(pool: Pool, wish: Wish, parallel: ParallelConfig) -> int:
    """`calculate_L1_usage`, of shards whose rows are whole tiles and whose channels are faces, whatever the layout.

    Width shards keep their rows: of fewer than 32 the library counts no tile of the output (recorded).
    """
    channels = round_up(pool.channels, parallel.cores_c * TILE_SIZE)
    shard = sharded_memory_config(pool.window.output_pixels, channels, parallel, TILE_SIZE).shard_spec
    assert shard is not None
    rows, width = shard.shape[0], output_width(div_up(pool.channels, parallel.cores_c), False)
    return need_of_buffers(pool, wish, buffers_of(pool, wish, parallel.cores_c, (rows, width), wish.dtype), rows)


def kept_parallel(spec: Spec, wish: Wish) -> ParallelConfig:
    """The cores of an input that is sharded already."""
    fatal(wish.scheme is None, "A sharding scheme should not be specified for a sharded input tensor.")
    parallel = ParallelConfig.of(spec.memory_config)
    fatal(spec.shard.row_wise, "Only row major orientation is supported.")
    return parallel
