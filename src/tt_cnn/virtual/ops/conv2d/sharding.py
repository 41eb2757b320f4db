# SPDX-License-Identifier: Apache-2.0
"""Where a convolution's input goes before it runs: its cores, its shards, or the ones it already has.

The rules are those of `get_conv_padded_input_shape_and_mem_config` in TT-NN's conv2d_utils.cpp.
"""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.sliding_window.parallel import (
    BLOCK,
    COL_MAJOR,
    ROW_MAJOR,
    WIDTH,
    ParallelConfig,
    output_parallel_config,
    parallel_config,
    sharded_memory_config,
)
from tt_cnn.virtual.types.enums import Layout, ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

Grid = tuple[int, int]
_SMALLEST_STICK = 8
"""Channels of the smallest row-major stick: 16 B (the L1 alignment) of bfloat16."""


def channel_alignment(
    memory_layout: TensorMemoryLayout, layout: Layout, sliced: bool, matmul: bool, config: MemoryConfig | None
) -> int:
    """Multiple to which input channels are padded on each core."""
    if matmul or memory_layout is WIDTH or not (layout is Layout.ROW_MAJOR or sliced):
        return TILE_SIZE
    if config is None or not config.is_sharded():
        return _SMALLEST_STICK
    assert config.shard_spec is not None
    width = config.shard_spec.shape[1]
    return next((a for a in (TILE_SIZE, 16, _SMALLEST_STICK) if width % a == 0), TILE_SIZE)


def block_orientation(settings: Settings) -> ShardOrientation:
    return COL_MAJOR if settings.transpose_shards else ROW_MAJOR


def shards_for(
    parallel: ParallelConfig, pixels: int, channels: int, alignment: int, input_layout: Layout
) -> MemoryConfig:
    """The shards of an input on given cores (`determine_input_memory_config`)."""
    multiple = 1 if parallel.layout is WIDTH and input_layout is Layout.ROW_MAJOR else TILE_SIZE
    rows = round_up(pixels, parallel.cores_nhw * multiple)
    return sharded_memory_config(rows, round_up(channels, parallel.cores_c * alignment), parallel, multiple)


def shards_of_part(
    conv: Convolution, layout: TensorMemoryLayout, settings: Settings, input_layout: Layout, sliced: bool, grid: Grid
) -> MemoryConfig:
    """The shards that a part of an input in DRAM is put into; `conv` is the part's own."""
    alignment = channel_alignment(layout, input_layout, sliced, False, None)
    channels = conv.in_channels, conv.out_channels
    parallel = parallel_config(layout, conv.output_pixels, *channels, alignment, grid, block_orientation(settings))
    return shards_for(parallel, conv.window.input_pixels, conv.in_channels, alignment, input_layout)


class InputShards(NamedTuple):
    """What becomes of the input: its memory config, whether it must be moved there, and the output's cores."""

    config: MemoryConfig
    reshard: bool
    inputs: ParallelConfig
    outputs: ParallelConfig


def input_shards(
    spec: Spec, on_host: bool, settings: Settings, conv: Convolution, matmul: bool, grid: Grid
) -> InputShards:
    """What becomes of an input that is on the card, or on the host."""
    fatal(
        on_host or spec.is_sharded or settings.shard_layout is not None,
        "Tensor must be sharded or shard_layout must be set.",
    )
    layout = settings.shard_layout or TensorMemoryLayout.INTERLEAVED
    held = spec.memory_config
    alignment = channel_alignment(held.memory_layout, spec.layout, False, matmul, held)
    have: ParallelConfig | None = None
    reshard = on_host or not held.is_sharded()
    if not reshard:
        have = ParallelConfig.of(held)
        reshard, layout = _must_reshard(spec, have, settings, layout, alignment, conv.in_channels, matmul)
    orientation = block_orientation(settings)
    parallel = have
    if settings.reshard_if_not_optimal or reshard:
        parallel = parallel_config(
            layout,
            conv.output_pixels,
            conv.in_channels,
            conv.out_channels,
            alignment,
            grid,
            orientation,
            not matmul,
            block_height=settings.act_block_h_override,
        )
        if settings.override_sharding_config:
            fatal(settings.core_grid is not None, "Core grid must be provided when overriding sharding config")
            assert settings.core_grid is not None
            parallel = ParallelConfig(settings.core_grid, layout, orientation if layout is BLOCK else ROW_MAJOR)
        reshard = reshard or parallel != have
    assert parallel is not None
    config = held
    if reshard:
        rows, channels = spec.logical_2d
        aligned = channel_alignment(layout, spec.layout, False, matmul, None)
        config = shards_for(parallel, rows, channels, aligned, spec.layout)
    outputs = output_parallel_config(parallel, output_grid(settings, parallel, grid), conv.out_channels, matmul)
    return InputShards(config, reshard, parallel, outputs)


def _must_reshard(
    spec: Spec,
    have: ParallelConfig,
    settings: Settings,
    layout: TensorMemoryLayout,
    alignment: int,
    input_channels: int,
    matmul: bool,
) -> tuple[bool, TensorMemoryLayout]:
    """Whether a sharded input's shards cannot be used as they are, and the layout to reshard to."""
    height, width = spec.shard.shape
    reshard = (have.layout is not BLOCK and have.orientation is not ROW_MAJOR) or width % alignment != 0
    if matmul and have.layout is BLOCK and input_channels != have.cores_c * width:
        reshard, layout = True, BLOCK
    if matmul and height % TILE_SIZE:
        reshard = True
    if settings.override_sharding_config:
        fatal(
            settings.core_grid is not None,
            "If override_sharding_config is set, core_grid must be set as well.",
        )
        fatal(
            settings.shard_layout is not None,
            "If override_sharding_config is set, shard_layout must be set as well.",
        )
        transposed = have.orientation is COL_MAJOR
        reshard = (
            reshard
            or settings.core_grid != have.grid
            or layout is not have.layout
            or (layout is BLOCK and settings.transpose_shards != transposed)
        )
    return reshard, layout


def output_grid(settings: Settings, inputs: ParallelConfig, grid: Grid) -> Grid:
    """The grid for the output's channels; `override_output_sharding_config` takes it from `core_grid`."""
    if not settings.override_output_sharding_config:
        return grid
    fatal(
        settings.core_grid is not None,
        "When override_output_sharding_config is set to true, core_grid must have a value.",
    )
    fatal(inputs.layout is BLOCK, "Output sharding config override is only supported for BLOCK_SHARDED layout.")
    assert settings.core_grid is not None
    size = settings.core_grid.bounding_box().grid_size()
    fatal(
        grid[0] >= size.x and grid[1] >= size.y,
        f"Invalid core grid override: {size.x}x{size.y} for device compute grid size: {grid[0]}x{grid[1]}",
    )
    fatal(
        (size.y if inputs.orientation is ROW_MAJOR else size.x) == inputs.cores_nhw,
        "NHW cores must match for input and output when overriding the grid size.",
    )
    return size.x, size.y
