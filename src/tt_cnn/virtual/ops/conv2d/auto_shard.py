"""The way of sharding that a convolution takes when none is given: the one that needs least L1 on a core.

The rules are those of `determine_conv_config_for_auto_shard` and `calculate_L1_usage_for_conv_op`
(conv2d_utils.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import Compute, blocks_of, buffers_of
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.conv2d.sharding import block_orientation, channel_alignment, input_memory_config
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


@dataclass(frozen=True)
class Need:
    """Bytes a core that one way of sharding is estimated to take."""

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


@lru_cache(maxsize=8192)
def need_of(
    card: Card,
    conv: Convolution,
    layout: TensorMemoryLayout,
    settings: Settings,
    compute: Compute,
    input_layout: Layout,
    input_dtype: DataType,
    output_dtype: DataType,
    bias: bool,
    matmul: bool,
    held: MemoryConfig | None = None,
    output_hw: Pair | None = None,
) -> Need:
    """The estimate for a layout; `held` is the input's memory config where that is decided already.

    A slice is estimated with the whole image's padding, so its output size is given (`output_hw`).
    """
    grid = card.grid
    orientation = block_orientation(settings)
    depthwise = conv.is_depthwise_1d(bias)
    alignment = channel_alignment(layout, input_layout, False, matmul, None)
    output_hw = output_hw or conv.output_hw
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
        output_config,
        inputs,
        channels,
        conv.kernel,
        output_hw[1],
        settings,
        compute.fp32_accumulation,
        depthwise,
    )
    check_block_width(blocks.act_w, settings)
    assert settings.weights_dtype is not None
    buffers = buffers_of(
        card.arch,
        inputs,
        blocks,
        conv.kernel,
        conv.dilation,
        round_up(conv.in_channels, alignment) * conv.kernel[0] * conv.kernel[1],
        round_up(conv.out_channels, TILE_SIZE),
        channels,
        input_dtype,
        settings.weights_dtype,
        output_dtype,
        output_hw[1],
        bias,
        compute,
        settings,
        depthwise,
        False,
    )
    held = held or input_memory_config(
        layout,
        orientation,
        conv.window.input_pixels,
        conv.in_channels,
        pixels,
        conv.out_channels,
        matmul,
        grid,
        input_layout,
        False,
        inputs,
    )
    assert held.shard_spec is not None
    height, width = held.shard_spec.shape
    element = 4 if input_dtype is DataType.FLOAT32 else 2
    sticks = shard_boundaries(conv.window, inputs.cores_nhw).most_sticks
    tables = 2 * TILE_SIZE * blocks.out_h if settings.config_tensors_in_dram else 0
    shrink = 2 if input_dtype is DataType.BFLOAT8_B else 1
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


def chosen_layout(
    card: Card,
    conv: Convolution,
    settings: Settings,
    compute: Compute,
    input_layout: Layout,
    input_dtype: DataType,
    output_dtype: DataType,
    bias: bool,
    matmul: bool,
    output_hw: Pair | None = None,
) -> TensorMemoryLayout:
    """Height shards, unless blocks need less (and have channels to divide), unless width shards need still less."""

    def need(layout: TensorMemoryLayout) -> Need:
        dtypes = input_dtype, output_dtype
        return need_of(card, conv, layout, settings, compute, input_layout, *dtypes, bias, matmul, None, output_hw)

    best, least = HEIGHT, need(HEIGHT)
    if conv.is_depthwise_1d(bias):
        return best
    block, width = need(BLOCK), need(WIDTH)
    if block.total < least.total and block.cores >= card.grid[0]:
        best, least = BLOCK, block
    if width.total < least.total and not matmul:
        best = WIDTH
    return best
