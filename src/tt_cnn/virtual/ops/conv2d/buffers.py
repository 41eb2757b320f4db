# SPDX-License-Identifier: Apache-2.0
"""The circular buffers of a convolution's program.

The rules are those of `get_cb_info` (conv2d_op_program_factory_common.cpp).
"""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import CoreWork, takes_one_tap
from tt_cnn.virtual.ops.conv2d.split_reader import splits_reader
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH
from tt_cnn.virtual.planning.slots import AllocateConfig, CircularBuffer, Slot
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, div_up

_SCRATCHPAD = 64


class Buffers(NamedTuple):
    """Bytes of a convolution's circular buffers, in the order in which its program creates them; 0: none."""

    weights: int
    partials: int
    activations: int
    second_activations: int
    tilized: int
    bias: int
    row_major: int
    output: int
    partials_in_output: bool
    partial_dtype: DataType
    splits_reader: bool

    @property
    def own(self) -> int:
        """Bytes that the buffers take beside tensors."""
        return (
            self.weights
            + (0 if self.partials_in_output else self.partials)
            + self.activations
            + self.second_activations
            + self.tilized
            + self.bias
            + self.row_major
            + _SCRATCHPAD
        )

    def placed(
        self, cores: CoreRangeSet, source: Slot, output: Slot, table_bytes: int, table: AllocateConfig | None
    ) -> tuple[CircularBuffer, ...]:
        """`table`: the table of window positions, where the program reads it in place.

        Partial sums that lie in the output lie at its end: finished blocks fill it from the front (recorded addresses).
        """
        borrowed = source.spec.shard_pages * source.spec.page_bytes
        made = (
            ("weights", self.weights, None),
            ("partial sums", self.partials, output if self.partials_in_output else None),
            ("activations", self.activations, None),
            ("activations of the second reader", self.second_activations, None),
            ("tilized activations", self.tilized, None),
            ("bias", self.bias, None),
            ("gathered sticks", self.row_major, None),
            ("output", self.output, output),
            ("window positions", table_bytes, table),
            ("scratch", _SCRATCHPAD, None),
            ("input", borrowed, source),
        )
        offsets = {"partial sums": self.output - self.partials} if self.partials_in_output else {}
        return tuple(
            CircularBuffer(size, cores, alias, name=name, offset=offsets.get(name, 0))
            for name, size, alias in made
            if size
        )


def buffers_of(work: CoreWork) -> Buffers:
    layout, blocks, formats, settings = work.layout, work.blocks, work.formats, work.settings
    halo, output = formats.halo, formats.output
    split = splits_reader(work)
    first, second = _activation_tiles(work, split)
    if settings.enable_act_double_buffer:
        first, second = 2 * first, 2 * second
    partial = _partial_dtype(work)
    shares_activations = layout is BLOCK and halo is output and not work.no_multicast
    block_tiles, output_tiles = blocks.act_h * blocks.out_w, blocks.out_h * blocks.out_w
    fatal(
        work.depthwise_1d or block_tiles <= output_tiles,
        f"Conv2d output block size {block_tiles} exceeds the per-core output size {output_tiles}",
    )
    row_major = {HEIGHT: 0, WIDTH: 2 * blocks.act_w, BLOCK: first}[layout]
    if layout is HEIGHT:
        activations = first * halo.tile_bytes
    else:
        activations = 0 if work.no_multicast else (first + second) * output.tile_bytes
    return Buffers(
        weights=_weight_tiles(work) * formats.weights.tile_bytes,
        partials=0 if work.depthwise_1d else block_tiles * partial.tile_bytes,
        activations=activations,
        second_activations=0 if shares_activations else second * halo.tile_bytes,
        tilized=blocks.act_h * blocks.act_w * output.tile_bytes,
        bias=blocks.out_w * formats.weights.tile_bytes if work.bias else 0,
        row_major=0 if shares_activations else row_major * halo.tile_bytes,
        output=output_tiles * output.tile_bytes,
        partials_in_output=settings.output_layout is not Layout.ROW_MAJOR and partial is output,
        partial_dtype=partial,
        splits_reader=split,
    )


def _activation_tiles(work: CoreWork, split: bool) -> tuple[int, int]:
    """Tiles of the first and of the second reader's part of an activation block."""
    blocks = work.blocks
    if not split:
        return blocks.act_h * blocks.act_w, 0
    second = blocks.act_h // 2
    first = blocks.act_h - second
    if not work.settings.enable_activation_reuse:
        return first * blocks.act_w, second * blocks.act_w
    return _reused_tiles(work, first), _reused_tiles(work, second)


def _reused_tiles(work: CoreWork, rows: int) -> int:
    """Space for one image row's windows, and what each further row adds to it."""
    height, width = work.kernel
    channels = work.matrix[0] // (height * width)
    image_tiles = div_up(work.output_width, TILE_SIZE)
    left_over = -work.output_width % TILE_SIZE
    element = work.formats.halo.element_bytes
    added = div_up(rows, image_tiles) * channels * width * (1 + left_over * height) * element
    return image_tiles * work.blocks.act_w + div_up(added, TILE_SIZE * TILE_SIZE * element)


def _partial_dtype(work: CoreWork) -> DataType:
    """Partial sums have the output's format, or a wider one where the packer accumulates in L1."""
    rows, columns = work.matrix
    inner = rows // TILE_SIZE // work.blocks.act_w
    if work.layout is BLOCK:
        inner *= columns // TILE_SIZE // work.blocks.out_w
    if work.compute.packer_l1 and ((work.bias and inner > 1) or inner > 2):
        return DataType.FLOAT32 if work.compute.fp32_accumulation else DataType.BFLOAT16
    return work.formats.output


def _weight_tiles(work: CoreWork) -> int:
    blocks, settings, inner = work.blocks, work.settings, work.blocks.act_w
    if work.depthwise_1d:
        inner = blocks.act_h * (1 if takes_one_tap(work.channels) else work.kernel[1])
    tiles = blocks.out_w * inner
    if work.layout is HEIGHT:
        if settings.enable_activation_reuse:
            return tiles
        if blocks.out_h // blocks.act_h > 1:
            return tiles * work.kernel[0]  # all rows of the kernel stay in L1 for the blocks that follow
    return 2 * tiles if settings.enable_weights_double_buffer else tiles
