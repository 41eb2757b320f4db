# SPDX-License-Identifier: Apache-2.0
"""Shards of tiles: they must be cut at tiles."""

from __future__ import annotations

from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up
from tt_cnn.virtual.types.shard_spec import ShardSpec


def is_whole_tiles(shard: ShardSpec) -> bool:
    height, width = shard.shape
    return height % TILE_SIZE == 0 and width % TILE_SIZE == 0


def in_whole_tiles(shard: ShardSpec) -> ShardSpec:
    """The next larger shards that are, on the same cores."""
    height, width = shard.shape
    return ShardSpec(shard.grid, (round_up(height, TILE_SIZE), round_up(width, TILE_SIZE)), shard.orientation)


def cut_tiles(shard: ShardSpec) -> str:
    """What TT-NN says of shards that are not."""
    height, width = shard.shape
    return f"Physical shard shape ({height}, {width}) must be tile {{32, 32}} sized!"
