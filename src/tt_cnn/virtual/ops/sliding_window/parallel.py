# SPDX-License-Identifier: Apache-2.0
"""How rows and channels are distributed to cores, as convolutions, pools and bilinear upsampling choose it.

The rules are those of `determine_parallel_config` and its neighbours in TT-NN's conv2d_utils.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.types.enums import BufferType, ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.kept_hash import kept_hash
from tt_cnn.virtual.types.lazy import lazy
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec

HEIGHT, WIDTH, BLOCK = (
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
    TensorMemoryLayout.BLOCK_SHARDED,
)
ROW_MAJOR, COL_MAJOR = ShardOrientation.ROW_MAJOR, ShardOrientation.COL_MAJOR


def largest_divisor(value: int, start: int, other: int | None = None) -> int:
    """The largest number up to `start` that divides `value` (and `other`)."""
    divisor = min(start, value) if value else start
    while value % divisor or (other is not None and other % divisor):
        divisor -= 1
    return divisor


def largest_divisor_with_padding(value: int, start: int, multiple: int = 1) -> int:
    """The largest number of parts up to `start` such that no part is empty when parts are multiples of `multiple`."""
    divisor = start
    while divisor > 1:
        part = -(-value // (divisor * multiple)) * multiple
        if part * divisor - value < part:
            break
        divisor -= 1
    return divisor


@kept_hash
@dataclass(frozen=True)
class ParallelConfig:
    """The cores of a sharded tensor and how its rows and channels are distributed to them."""

    grid: CoreRangeSet
    layout: TensorMemoryLayout
    orientation: ShardOrientation

    @lazy
    def cores_nhw(self) -> int:
        if self.layout is WIDTH:
            return 1
        if self.layout is HEIGHT:
            return self.grid.num_cores()
        size = self.grid.bounding_box().grid_size()
        return size.y if self.orientation is ROW_MAJOR else size.x

    @lazy
    def cores_c(self) -> int:
        if self.layout is HEIGHT:
            return 1
        if self.layout is WIDTH:
            return self.grid.num_cores()
        size = self.grid.bounding_box().grid_size()
        return size.x if self.orientation is ROW_MAJOR else size.y

    @staticmethod
    def of(memory_config: MemoryConfig) -> ParallelConfig:
        shard = memory_config.shard_spec
        fatal(shard is not None, "bad optional access")
        assert shard is not None
        return ParallelConfig(shard.grid, memory_config.memory_layout, shard.orientation)


@lru_cache(maxsize=4096)
def block_grid(cores_nhw: int, cores_c: int, orientation: ShardOrientation) -> CoreRangeSet:
    x, y = (cores_c, cores_nhw) if orientation is ROW_MAJOR else (cores_nhw, cores_c)
    return CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])


@lru_cache(maxsize=4096)
def row_wise_grid(cores: int, grid: tuple[int, int]) -> CoreRangeSet:
    return num_cores_to_corerangeset(cores, CoreCoord(*grid), True)


@lru_cache(maxsize=16384)
def parallel_config(
    layout: TensorMemoryLayout,
    output_pixels: int,
    input_channels: int,
    output_channels: int,
    channel_alignment: int,
    grid: tuple[int, int],
    orientation: ShardOrientation = ROW_MAJOR,
    pad_channels: bool = True,
    tile_height: int = TILE_SIZE,
    tile_width: int = TILE_SIZE,
    block_height: int = 0,
) -> ParallelConfig:
    """The cores for a window op's input. `block_height` (rows) keeps each core's rows a multiple of it.

    `tile_height` 1 and `tile_width` 16 are what pools use; `pad_channels` False (matmuls) divides channels exactly.
    """
    rows = div_up(output_pixels, tile_height)
    out_blocks = div_up(output_channels, tile_width)
    multiple = max(1, block_height // TILE_SIZE)
    if layout is HEIGHT:
        cores = largest_divisor_with_padding(rows, grid[0] * grid[1], multiple)
        return ParallelConfig(row_wise_grid(cores, grid), layout, ROW_MAJOR)
    if layout is BLOCK:
        along_rows, along_channels = (grid[1], grid[0]) if orientation is ROW_MAJOR else grid
        in_blocks = div_up(input_channels, channel_alignment)
        cores_nhw = largest_divisor_with_padding(rows, along_rows, multiple)
        cores_c = (
            largest_divisor_with_padding(in_blocks, along_channels)
            if pad_channels
            else largest_divisor(out_blocks, along_channels, in_blocks)
        )
        return ParallelConfig(block_grid(cores_nhw, cores_c, orientation), layout, orientation)
    if layout is WIDTH:
        in_blocks = div_up(input_channels, tile_width)
        every = grid[0] * grid[1]
        cores = largest_divisor_with_padding(in_blocks, every) if pad_channels else largest_divisor(in_blocks, every)
        return ParallelConfig(row_wise_grid(cores, grid), layout, ROW_MAJOR)
    raise CardError(f"Conv2d supports Height, Block or Width Sharded Layouts but got {layout.native}")


@lru_cache(maxsize=16384)
def output_parallel_config(
    inputs: ParallelConfig, grid: tuple[int, int], output_channels: int, matmul: bool
) -> ParallelConfig:
    """The output keeps its rows' cores; its channels are redistributed. Matmuls keep the input's cores."""
    if matmul or inputs.layout is HEIGHT:
        return inputs
    blocks = div_up(output_channels, TILE_SIZE)
    if inputs.layout is WIDTH:
        cores = largest_divisor_with_padding(blocks, grid[0] * grid[1])
        return ParallelConfig(row_wise_grid(cores, grid), WIDTH, inputs.orientation)
    cores_c = largest_divisor_with_padding(blocks, grid[0] if inputs.orientation is ROW_MAJOR else grid[1])
    return ParallelConfig(block_grid(inputs.cores_nhw, cores_c, inputs.orientation), BLOCK, inputs.orientation)


@lru_cache(maxsize=16384)
def sharded_memory_config(rows: int, channels: int, parallel: ParallelConfig, row_multiple: int) -> MemoryConfig:
    """L1 shards of a (rows, channels) tensor; rows are rounded up so that each core has a multiple."""
    cores_nhw, cores_c = parallel.cores_nhw, parallel.cores_c
    padded = rows if parallel.layout is WIDTH else round_up(rows, cores_nhw * row_multiple)
    fatal(channels % cores_c == 0, f"Channels: {channels}, num core channels: {cores_c}")
    shard = ShardSpec(parallel.grid, (padded // cores_nhw, channels // cores_c), parallel.orientation)
    return MemoryConfig(parallel.layout, BufferType.L1, shard)
