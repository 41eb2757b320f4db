# SPDX-License-Identifier: Apache-2.0
"""How weights and bias are prepared ahead of a convolution: from what the caller says of its input, without a plan.

The rules are those of `setup_conv_prep_config` (prepare_conv2d_weights.cpp). It checks less than a convolution: the
input's memory config is taken as it is said, so parameters are prepared for convolutions that are refused later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.auto_shard import Layer, check_block_width, chosen_layout
from tt_cnn.virtual.ops.conv2d.blocks import Blocks, blocks_of
from tt_cnn.virtual.ops.conv2d.folding import folded, folds
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.sharding import block_orientation, channel_alignment, output_grid, shards_for
from tt_cnn.virtual.ops.conv2d.slices import Sliced
from tt_cnn.virtual.ops.sliding_window.parallel import (
    ParallelConfig,
    output_parallel_config,
    parallel_config,
    sharded_memory_config,
)
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.sliding_window.slicing import ALONG_HEIGHT, rounding, sliced_size
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig

_BLOCK_FORMATS = (DataType.BFLOAT8_B, DataType.BFLOAT4_B)


@dataclass(frozen=True)
class Announced:
    """A convolution and its input, as the caller announces them."""

    card: Card
    conv: Convolution
    config: MemoryConfig
    layout: Layout
    dtype: DataType
    request: Request
    """With the dtype of the weights in its settings."""
    has_bias: bool
    output_hw: Pair | None = None
    """Of a slice, whose padding does not tell it."""

    @property
    def output_pixels(self) -> int:
        height, width = self.output_hw or self.conv.output_hw
        return self.conv.batch * height * width


@dataclass(frozen=True)
class Arrangement:
    """What the prepared form follows from."""

    conv: Convolution
    """With its stride folded, where it is."""
    fold: Pair
    request: Request
    inputs: ParallelConfig
    outputs: ParallelConfig
    alignment: int
    blocks: Blocks
    interleaved_matmul: bool
    own_form: bool
    """The form of 1D depthwise convolutions."""

    @property
    def bias_columns(self) -> int:
        return round_up(self.conv.out_channels, self.outputs.cores_c * TILE_SIZE)


def runs_in_l1(config: MemoryConfig, slicing: Slicing | None) -> bool:
    return slicing.kind is SliceTypeEnum.L1Full if slicing is not None else config.is_l1()


def arrangement(said: Announced, slicing: Slicing | None, free_l1: int) -> Arrangement:
    conv, settings = said.conv, said.request.settings
    matmul, fold = conv.is_matmul(settings), (1, 1)
    if folds(conv, said.config, said.layout, settings):
        fold = conv.stride
        conv, matmul = folded(conv)
        said = replace(said, conv=conv)
    is_line = conv.kernel[0] == 1 and conv.height == 1  # 1D convolutions never run in slices
    from_dram = not runs_in_l1(said.config, slicing) and not is_line
    if from_dram and not matmul:
        said, from_dram = _sliced(said, slicing, free_l1)
    said, _, blocks = _blocks(said, matmul)
    conv, settings = said.conv, said.request.settings
    layout = _layout_of(said)
    alignment = channel_alignment(layout, said.layout, from_dram, matmul, said.config)
    inputs = _kept(said)
    if inputs is None:
        inputs = _parallel(said, layout, alignment, matmul)
        own = channel_alignment(layout, said.layout, from_dram, matmul, None)
        config = shards_for(inputs, conv.window.input_pixels, conv.in_channels, own, said.layout)
        said, _, blocks = _blocks(replace(said, config=config), matmul)
        alignment = channel_alignment(_layout_of(said), said.layout, False, matmul, config)
    return Arrangement(
        conv,
        fold,
        said.request,
        inputs,
        _outputs(said, inputs, matmul),
        alignment,
        blocks,
        interleaved_matmul=matmul and from_dram,
        own_form=conv.is_depthwise_1d(said.has_bias) and conv.groups > 1,
    )


def _sliced(said: Announced, slicing: Slicing | None, free_l1: int) -> tuple[Announced, bool]:
    """The first slice of a convolution out of DRAM, and whether there is more than one."""
    conv, settings = said.conv, said.request.settings
    fatal(
        settings.weights_dtype not in _BLOCK_FORMATS,  # for slices the library makes a row-major tensor of the weights
        f"Only TILE layout is supported for {settings.weights_dtype.name if settings.weights_dtype else None} dtype!",
    )
    fatal(  # what becomes one when its stride is folded
        not conv.is_matmul(settings), "Conv2D DRAM with matmul should never use the slicing code path. "
    )
    sliced = Sliced(Layer(said.card, conv, said.request, said.layout, said.dtype, said.has_bias))
    chosen = sliced.chosen_slicing(free_l1, slicing)
    size = sliced_size(conv.output_hw, chosen.kind)
    fatal(
        chosen.count <= size,
        f" Number of slices {chosen.count} should be less or equal than the dimension being sliced {size} in Conv2D "
        "DRAM Slicing",
    )
    unit = rounding(settings.output_layout, chosen.kind)
    part = div_up(div_up(size, unit), chosen.count) * unit
    height, width = conv.output_hw
    top, bottom, left, right = conv.padding
    covered = conv.window.dilated
    if chosen.kind is ALONG_HEIGHT:
        height = part
        own = conv.but(height=(part - 1) * conv.stride[0] + covered[0] - top, padding=(top, 0, left, right))
    else:
        width = part
        own = conv.but(width=(part - 1) * conv.stride[1] + covered[1] - left, padding=(top, bottom, left, 0))
    _, first = sliced.part((0, height), (0, width))
    config = sliced.input_config(first)
    return replace(said, conv=own, config=config, output_hw=(height, width)), chosen.count > 1


def _blocks(said: Announced, matmul: bool) -> tuple[Announced, ParallelConfig, Blocks]:
    """`get_opt_block_config`: the way of sharding where none was said, and the blocks that follow."""
    conv, request = said.conv, said.request
    if not said.config.is_sharded() and request.settings.shard_layout is None:
        layer = Layer(said.card, conv, request, said.layout, said.dtype, said.has_bias, matmul, said.output_hw)
        request = request.with_settings(request.settings.but(shard_layout=chosen_layout(layer)))
        said = replace(said, request=request)
    settings = request.settings
    layout = _layout_of(said)
    alignment = channel_alignment(layout, said.layout, said.config.is_dram(), matmul, said.config)
    inputs = _kept(said) or _parallel(said, layout, alignment, matmul)
    outputs = _outputs(said, inputs, matmul)
    out_channels = round_up(conv.out_channels, outputs.cores_c * TILE_SIZE)
    output_config = sharded_memory_config(said.output_pixels, out_channels, outputs, TILE_SIZE)
    channels = round_up(conv.in_channels, inputs.cores_c * alignment)
    width = (said.output_hw or conv.output_hw)[1]
    fp32, depthwise = request.compute.fp32_accumulation, conv.is_depthwise_1d(said.has_bias)
    blocks = blocks_of(output_config, inputs, channels, conv.kernel, width, settings, fp32, depthwise)
    check_block_width(blocks.act_w, settings)
    return said, inputs, blocks


def _layout_of(said: Announced) -> TensorMemoryLayout:
    settings = said.request.settings
    if said.config.is_sharded() and not settings.reshard_if_not_optimal:
        return said.config.memory_layout
    fatal(settings.shard_layout is not None, "bad optional access")
    assert settings.shard_layout is not None
    return settings.shard_layout


def _kept(said: Announced) -> ParallelConfig | None:
    """The cores of shards that the input has and keeps."""
    if said.config.shard_spec is None or said.request.settings.reshard_if_not_optimal:
        return None
    return ParallelConfig.of(said.config)


def _parallel(said: Announced, layout: TensorMemoryLayout, alignment: int, matmul: bool) -> ParallelConfig:
    conv, settings = said.conv, said.request.settings
    return parallel_config(
        layout,
        said.output_pixels,
        conv.in_channels,
        conv.out_channels,
        alignment,
        said.card.grid,
        block_orientation(settings),
        not matmul,
        block_height=settings.act_block_h_override,
    )


def _outputs(said: Announced, inputs: ParallelConfig, matmul: bool) -> ParallelConfig:
    grid = output_grid(said.request.settings, inputs, said.card.grid)
    return output_parallel_config(inputs, grid, said.conv.out_channels, matmul)
