# SPDX-License-Identifier: Apache-2.0
"""The prepared weight matrix and bias: their shapes, as `prepare_conv_weights` makes them for a way of sharding."""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import Blocks
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, ParallelConfig
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.tensor_spec import Spec


class WeightShape(NamedTuple):
    """What a prepared matrix has to hold."""

    out_channels: int
    in_channels: int
    kernel: Pair
    groups: int = 1
    fold: Pair = (1, 1)


def weight_layout(
    shape: WeightShape,
    alignment: int,
    inputs: ParallelConfig,
    outputs: ParallelConfig,
    blocks: Blocks,
    settings: Settings,
    interleaved_matmul: bool,
    depthwise_1d: bool,
) -> WeightLayout:
    """The layout for a convolution whose input and output stand on these cores."""
    out_channels, in_channels, kernel, groups = shape.out_channels, shape.in_channels, shape.kernel, shape.groups
    height, width = kernel
    if depthwise_1d:
        in_channels = blocks.act_h * TILE_SIZE
    if interleaved_matmul:
        rows = round_up(in_channels * height * width, TILE_SIZE)
        columns = round_up(out_channels, TILE_SIZE)
        return WeightLayout(
            out_channels,
            in_channels,
            kernel,
            groups,
            rows,
            columns,
            "interleaved",
            fold=shape.fold,
            in_padded=in_channels,
        )
    in_shards, out_shards = inputs.cores_c, outputs.cores_c
    in_padded = round_up(in_channels, in_shards * alignment)
    out_padded = round_up(out_channels, out_shards * TILE_SIZE)
    scheme = "depthwise" if depthwise_1d else {HEIGHT: "height", BLOCK: "block"}.get(inputs.layout, "width")
    full_inner = False
    if inputs.layout is HEIGHT:
        row_block = (blocks.act_h * width if depthwise_1d else blocks.act_w) * TILE_SIZE
        full_inner = settings.enable_activation_reuse
        inner = in_padded * width * (height if full_inner else 1)
        fatal(row_block >= inner, f"Block height {row_block} must be >= inner dimension {inner}")
        rows = row_block if full_inner else row_block * height
    elif inputs.layout is BLOCK:
        full_inner = settings.full_inner_dim
        a_row = in_padded // in_shards * width
        row_block = round_up(a_row * height, TILE_SIZE) if full_inner else round_up(a_row, TILE_SIZE) * height
        rows = row_block * in_shards
    else:
        row_block = 0
        rows = round_up(in_padded * height * width, blocks.act_w * TILE_SIZE)
    return WeightLayout(
        out_channels,
        in_channels,
        kernel,
        groups,
        rows,
        out_padded,
        scheme,
        in_shards,
        in_padded,
        out_shards,
        out_padded,
        row_block,
        full_inner,
        shape.fold,
    )


def bias_spec(out_channels: int, columns: int, blocks: Blocks, dtype: DataType) -> Spec:
    padded = round_up(columns, blocks.sub_w * TILE_SIZE)
    return Spec(Shape((1, 1, 1, out_channels)), dtype, Layout.TILE, alignment=(TILE_SIZE, padded))
