# SPDX-License-Identifier: Apache-2.0
"""The way of sharding that a convolution takes when none is given: the one that needs least L1 on a core.

The rules are those of `determine_conv_config_for_auto_shard` and `calculate_L1_usage_for_conv_op`
(conv2d_utils.cpp).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import CoreWork, Formats, blocks_of
from tt_cnn.virtual.ops.conv2d.buffers import buffers_of
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.sharding import block_orientation, channel_alignment, shards_for
from tt_cnn.virtual.ops.sliding_window.boundaries import shard_boundaries
from tt_cnn.virtual.ops.sliding_window.parallel import (
    BLOCK,
    HEIGHT,
    WIDTH,
    ParallelConfig,
    output_parallel_config,
    parallel_config,
    sharded_memory_config,
)
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig


class Need(NamedTuple):
    """Bytes per core that one way of sharding is estimated to take."""

    cores: int
    input: int
    halo: int
    program: int
    """Circular buffers and output."""

    @property
    def total(self) -> int:
        return self.program + self.halo

    @property
    def peak(self) -> int:
        """What slicing out of DRAM compares with the free L1."""
        return max(self.input + self.halo, self.total)


class Layer(NamedTuple):
    """A convolution with all that its way of sharding is chosen by."""

    card: Card
    conv: Convolution
    request: Request
    input_layout: Layout
    input_dtype: DataType
    has_bias: bool
    matmul: bool = False
    output_hw: Pair | None = None
    """A slice is estimated with the whole image's padding, so its output size is given."""


@lru_cache(maxsize=8192)
def need_of(layer: Layer, layout: TensorMemoryLayout, held: MemoryConfig | None = None) -> Need:
    """The estimate for a layout; `held` is the input's memory config where that is decided already."""
    conv, matmul, grid = layer.conv, layer.matmul, layer.card.grid
    settings, compute = layer.request.settings, layer.request.compute
    orientation = block_orientation(settings)
    depthwise = conv.is_depthwise_1d(layer.has_bias)
    alignment = channel_alignment(layout, layer.input_layout, False, matmul, None)
    output_hw = layer.output_hw or conv.output_hw
    pixels = conv.batch * output_hw[0] * output_hw[1]
    inputs = (
        ParallelConfig.of(held)
        if held is not None
        else parallel_config(
            layout,
            pixels,
            conv.in_channels,
            conv.out_channels,
            alignment,
            grid,
            orientation,
            not matmul,
            block_height=settings.act_block_h_override,
        )
    )
    outputs = output_parallel_config(inputs, grid, conv.out_channels, matmul)
    channels = round_up(conv.in_channels, inputs.cores_c * alignment)
    out_channels = round_up(conv.out_channels, outputs.cores_c * TILE_SIZE)
    output_config = sharded_memory_config(pixels, out_channels, outputs, TILE_SIZE)
    blocks = blocks_of(
        output_config, inputs, channels, conv.kernel, output_hw[1], settings, compute.fp32_accumulation, depthwise
    )
    check_block_width(blocks.act_w, settings)
    assert settings.weights_dtype is not None
    rows = round_up(conv.in_channels, alignment) * conv.kernel[0] * conv.kernel[1]
    buffers = buffers_of(
        CoreWork(
            arch=layer.card.arch,
            layout=inputs.layout,
            blocks=blocks,
            kernel=conv.kernel,
            dilation=conv.dilation,
            output_width=output_hw[1],
            channels=channels,
            matrix=(rows, round_up(conv.out_channels, TILE_SIZE)),
            formats=Formats(layer.input_dtype, settings.weights_dtype, layer.request.dtype),
            bias=layer.has_bias,
            compute=compute,
            settings=settings,
            depthwise_1d=depthwise,
        )
    )
    held = held or shards_for(inputs, conv.window.input_pixels, conv.in_channels, alignment, layer.input_layout)
    assert held.shard_spec is not None
    height, width = held.shard_spec.shape
    element = 4 if layer.input_dtype is DataType.FLOAT32 else 2
    sticks = shard_boundaries(conv.window, inputs.cores_nhw).most_sticks
    tables = 2 * TILE_SIZE * blocks.out_h if settings.config_tensors_in_dram else 0
    shrink = 2 if layer.input_dtype is DataType.BFLOAT8_B else 1
    return Need(
        max(inputs.grid.num_cores(), outputs.grid.num_cores()),
        height * width * element // shrink,
        sticks * width * element,
        buffers.own + buffers.output + tables,
    )


def check_block_width(tiles: int, settings: Settings) -> None:
    """The real library divides by zero here and ends the process."""
    fatal(
        tiles > 0,
        f"act_block_w_div ({settings.act_block_w_div}) leaves less than a tile (32 columns) of an activation block to "
        "each core.",
        "  set act_block_w_div=1",
    )


def chosen_layout(layer: Layer) -> TensorMemoryLayout:
    """Height shards, unless blocks need less (and have channels to divide), unless width shards need still less."""
    best, least = HEIGHT, need_of(layer, HEIGHT)
    if layer.conv.is_depthwise_1d(layer.has_bias):
        return best
    block, width = need_of(layer, BLOCK), need_of(layer, WIDTH)
    if block.total < least.total and block.cores >= layer.card.grid[0]:
        best, least = BLOCK, block
    if width.total < least.total and not layer.matmul:
        best = WIDTH
    return best
