# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions out of DRAM: whole through L1 where that fits, part after part where not.

The rules are those of `ConvT2DSliceAttr` and `conv_transpose2d_DRAM` (conv_transpose2d.cpp).
"""

from __future__ import annotations

from dataclasses import replace

from tt_cnn.virtual.ops.conv2d.auto_shard import check_block_width
from tt_cnn.virtual.ops.conv2d.blocks import CoreWork, Formats, blocks_of
from tt_cnn.virtual.ops.conv2d.buffers import buffers_of
from tt_cnn.virtual.ops.conv2d.config import Slicing
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.sharding import channel_alignment
from tt_cnn.virtual.ops.conv2d.slices import Part, Sliced
from tt_cnn.virtual.ops.conv2d.slicing import layer_of, plan_sliced
from tt_cnn.virtual.ops.conv_transpose2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.sliding_window.boundaries import shard_boundaries
from tt_cnn.virtual.ops.sliding_window.parallel import ParallelConfig, output_parallel_config, sharded_memory_config
from tt_cnn.virtual.ops.sliding_window.slicing import Range
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


class SlicedTransposed(Sliced):
    """A transposed convolution with everything that decides how it is sliced."""

    @property
    def conv(self) -> TransposedConvolution:
        assert isinstance(self.layer.conv, TransposedConvolution)
        return self.layer.conv

    def part(self, rows: Range, columns: Range) -> tuple[Part, TransposedConvolution]:
        conv = self.conv
        height, width = conv.output_hw
        reach = conv.window.dilated[0] - 1, conv.window.dilated[1] - 1
        in_rows, top, bottom = _needed(rows, height, conv.height, conv.stride[0], reach[0], conv.padding[:2])
        in_columns, left, right = _needed(columns, width, conv.width, conv.stride[1], reach[1], conv.padding[2:])
        extra = [
            conv.output_padding[0] if rows[1] == height else 0,
            conv.output_padding[1] if columns[1] == width else 0,
        ]
        whole = in_rows == (0, conv.height) and in_columns == (0, conv.width)
        if self.request.settings.output_layout is Layout.TILE and not whole:
            extra[1] += -(columns[1] - columns[0]) % TILE_SIZE
        padding = reach[0] - top, reach[0] - bottom, reach[1] - left, reach[1] - right
        own = replace(
            conv,
            height=in_rows[1] - in_rows[0],
            width=in_columns[1] - in_columns[0],
            padding=padding,
            output_padding=(extra[0], extra[1]),
        )
        return Part(rows, columns, in_rows, in_columns, padding), own

    def estimated(self, own: Convolution) -> Convolution:
        assert isinstance(own, TransposedConvolution)
        return own.direct(padding=self.conv.padding)

    def is_sliced(self, own: Convolution) -> bool:
        return True

    def after(self, config: MemoryConfig) -> SlicedTransposed:
        """What suits the first part is kept for the others."""
        settings = self.request.settings.but(shard_layout=config.memory_layout)
        return replace(self, layer=self.layer._replace(request=self.request._replace(settings=settings)))

    def need(self, part: Part, own: Convolution, count: int) -> int:
        conv, request, card = self.conv, self.request, self.layer.card
        config = self.input_config(own)
        layout = request.settings.shard_layout or config.memory_layout
        settings = request.settings.but(shard_layout=layout)
        assert config.shard_spec is not None and settings.weights_dtype is not None
        height, width = config.shard_spec.shape
        inputs = ParallelConfig.of(config)
        outputs = output_parallel_config(inputs, card.grid, conv.out_channels, False)
        element = 4 if self.layer.input_dtype is DataType.FLOAT32 else 2
        halo = shard_boundaries(own.window, inputs.cores_nhw).most_sticks * width * element
        padded_in = round_up(conv.in_channels, TILE_SIZE * inputs.cores_c)
        padded_out = round_up(conv.out_channels, TILE_SIZE * outputs.cores_c)
        out_rows, out_columns = part.out_rows[1] - part.out_rows[0], part.out_columns[1] - part.out_columns[0]
        output_config = sharded_memory_config(conv.batch * out_rows * out_columns, padded_out, outputs, TILE_SIZE)
        fp32 = request.compute.fp32_accumulation
        blocks = blocks_of(output_config, inputs, padded_in, conv.kernel, out_columns, settings, fp32, False)
        check_block_width(blocks.act_w, settings)
        alignment = channel_alignment(layout, settings.output_layout, count > 1, False, None)
        buffers = buffers_of(
            CoreWork(
                arch=card.arch,
                layout=inputs.layout,
                blocks=blocks,
                kernel=conv.kernel,
                dilation=conv.dilation,
                output_width=out_columns,
                channels=round_up(conv.in_channels, inputs.cores_c * alignment),
                matrix=(padded_in * conv.kernel[0] * conv.kernel[1], padded_out),
                formats=Formats(self.layer.input_dtype, settings.weights_dtype, request.dtype),
                bias=self.layer.has_bias,
                compute=request.compute,
                settings=settings,
            )
        )
        tables = 2 * TILE_SIZE * blocks.out_h if settings.config_tensors_in_dram else 0
        return halo + max(buffers.own + buffers.output + tables, height * width * element)


def _needed(
    out: Range, out_size: int, size: int, stride: int, reach: int, padding: tuple[int, ...]
) -> tuple[Range, int, int]:
    """The input range of an output range, and the padding that its spread form gets before and behind."""
    pad_before, pad_behind = reach - padding[0], reach - padding[1]
    start = div_up(out[0] - pad_before, stride) if out[0] > pad_before else 0
    spread_start = max(0, out[0] - pad_before)
    spread_end = out[1] - pad_before + reach
    end = min(size, (spread_end - 1) // stride + 1)
    before = max(0, pad_before - out[0], -spread_start % stride)
    behind = max(0, spread_end - out_size, (spread_end - 1) % stride if out[1] < out_size else 0)
    if out[0] == 0:
        before, start = pad_before, 0
    if out[1] == out_size:
        behind, end = pad_behind, size
    return (start, end), before, behind


def plan_from_dram(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: TransposedConvolution,
    parameters: Parameters,
    request: Request,
    given: Slicing | None,
) -> Slot:
    spec = source.spec if source is not None else host
    assert spec is not None
    sliced = SlicedTransposed(layer_of(planner, spec, conv, parameters, request))
    # a slice config that turns out to mean one slice is as good as one that asks for L1
    if conv.is_matmul(request.settings) or (
        given is not None and sliced.chosen_slicing(planner.memory.l1, given).count == 1
    ):
        return plan_in_l1(planner, source, host, conv, parameters, request)
    owned = source is None
    if source is None:
        source = planner.allocate(Spec(spec.shape, spec.dtype, spec.layout, DRAM_MEMORY_CONFIG))
    return plan_sliced(planner, source, owned, sliced, parameters, given, plan_in_l1)
