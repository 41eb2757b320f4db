"""Transposed convolutions out of DRAM: whole through L1 where that fits, part after part where not.

The rules are those of `ConvT2DSliceAttr` and `conv_transpose2d_DRAM` (conv_transpose2d.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.auto_shard import check_block_width, chosen_layout
from tt_cnn.virtual.ops.conv2d.blocks import blocks_of, buffers_of
from tt_cnn.virtual.ops.conv2d.config import Slicing
from tt_cnn.virtual.ops.conv2d.moving import is_freed, placed, release
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.problem import Request
from tt_cnn.virtual.ops.conv2d.sharding import block_orientation, channel_alignment, input_memory_config
from tt_cnn.virtual.ops.conv2d.slice_steps import plan_padded_slice, plan_slice_write
from tt_cnn.virtual.ops.conv2d.slices import Part
from tt_cnn.virtual.ops.conv_transpose2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.layout.untilize import plan_untilize
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.boundaries import shard_boundaries
from tt_cnn.virtual.ops.sliding_window.parallel import (
    BLOCK,
    HEIGHT,
    ParallelConfig,
    output_parallel_config,
    sharded_memory_config,
)
from tt_cnn.virtual.ops.sliding_window.slicing import check_count, chosen_slicing, output_ranges
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

Range = tuple[int, int]


@dataclass(frozen=True)
class SlicedTransposed:
    """A transposed convolution with everything that decides how it is sliced."""

    conv: TransposedConvolution
    request: Request
    input_layout: Layout
    input_dtype: DataType
    has_bias: bool

    def part(self, rows: Range, columns: Range) -> tuple[Part, TransposedConvolution]:
        """A rectangle of the output: the input it needs, and the transposed convolution that makes it."""
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

    def input_config(self, planner: Planner, part: Part, own: TransposedConvolution) -> MemoryConfig:
        """The shards that a part of the input is put into."""
        conv, settings, request = self.conv, self.request.settings, self.request
        layout = settings.shard_layout
        output_hw = own.output_hw
        if layout is None:
            estimated = own.direct(conv.stride, conv.padding)
            dtypes = self.input_dtype, request.dtype
            layout = chosen_layout(
                planner.card,
                estimated,
                settings,
                request.compute,
                self.input_layout,
                *dtypes,
                self.has_bias,
                False,
                output_hw,
            )
        return input_memory_config(
            layout,
            block_orientation(settings),
            conv.batch * own.height * own.width,
            conv.in_channels,
            conv.batch * output_hw[0] * output_hw[1],
            conv.out_channels,
            False,
            planner.card.grid,
            self.input_layout,
            True,
            None,
        )

    def need(self, planner: Planner, part: Part, own: TransposedConvolution, count: int) -> int:
        """Bytes a core that a part is estimated to take."""
        conv, settings, request = self.conv, self.request.settings, self.request
        config = self.input_config(planner, part, own)
        layout = settings.shard_layout or config.memory_layout
        settings = settings.but(shard_layout=layout)
        assert config.shard_spec is not None
        height, width = config.shard_spec.shape
        inputs = ParallelConfig.of(config)
        outputs = output_parallel_config(inputs, planner.card.grid, conv.out_channels, False)
        element = 4 if self.input_dtype is DataType.FLOAT32 else 2
        halo = shard_boundaries(own.window, inputs.cores_nhw).most_sticks * width * element
        padded_in = round_up(conv.in_channels, TILE_SIZE * inputs.cores_c)
        padded_out = round_up(conv.out_channels, TILE_SIZE * outputs.cores_c)
        out_rows, out_columns = part.out_rows[1] - part.out_rows[0], part.out_columns[1] - part.out_columns[0]
        output_config = sharded_memory_config(conv.batch * out_rows * out_columns, padded_out, outputs, TILE_SIZE)
        fp32 = request.compute.fp32_accumulation
        blocks = blocks_of(output_config, inputs, padded_in, conv.kernel, out_columns, settings, fp32, False)
        check_block_width(blocks.act_w, settings)
        alignment = channel_alignment(layout, settings.output_layout, count > 1, False, None)
        assert settings.weights_dtype is not None
        buffers = buffers_of(
            planner.card.arch,
            inputs,
            blocks,
            conv.kernel,
            conv.dilation,
            padded_in * conv.kernel[0] * conv.kernel[1],
            padded_out,
            round_up(conv.in_channels, inputs.cores_c * alignment),
            self.input_dtype,
            settings.weights_dtype,
            request.dtype,
            out_columns,
            self.has_bias,
            request.compute,
            settings,
            False,
            False,
        )
        tables = 2 * TILE_SIZE * blocks.out_h if settings.config_tensors_in_dram else 0
        return halo + max(buffers.own + buffers.output + tables, height * width * element)

    def with_layout(self, layout: TensorMemoryLayout) -> SlicedTransposed:
        settings = self.request.settings.but(shard_layout=layout)
        return replace(self, request=replace(self.request, settings=settings))

    def largest_need(self, planner: Planner, slicing: Slicing) -> int:
        parts = (self.part(*ranges) for ranges in self.ranges(slicing))
        return max((self.need(planner, part, own, slicing.count) for part, own in parts), default=0)

    def ranges(self, slicing: Slicing) -> list[tuple[Range, Range]]:
        return list(output_ranges(slicing, self.conv.output_hw, self.request.settings.output_layout))


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
    settings = request.settings
    if conv.is_matmul(settings) or _fits_unsliced(planner, source, host, conv, parameters, request, given):
        return plan_in_l1(planner, source, host, conv, parameters, request)
    owned = source is None
    if source is None:
        assert host is not None
        source = planner.allocate(Spec(host.shape, host.dtype, host.layout, DRAM_MEMORY_CONFIG))
    fatal(
        not (settings.output_layout is Layout.ROW_MAJOR and request.dtype is DataType.BFLOAT8_B),
        "Conv output can't be in Row Major if output dtype is BFloat8_B.",
    )
    settings = settings.but(weights_dtype=settings.weights_dtype or parameters.weight_dtype)
    image = Shape((conv.batch, conv.height, conv.width, conv.in_channels))
    given_input, source = source, plan_reshape(planner, source, image, image)
    made_anew = source.buffer != given_input.buffer
    if made_anew and owned:
        release(planner, given_input)
    fatal(source.spec.memory_config.is_dram(), "Conv DRAM expects the input tensor to be in DRAM.")
    fatal(not source.spec.is_sharded, "Input Tensor to Conv DRAM should be in Interleaved Memory Layout")
    shape = Shape((conv.batch, *conv.output_hw, conv.out_channels))
    output = planner.allocate(Spec(shape, request.dtype, settings.output_layout, DRAM_MEMORY_CONFIG))
    sliced = SlicedTransposed(
        conv,
        Request(settings, request.compute, request.dtype),
        given_input.spec.layout,
        given_input.spec.dtype,
        parameters.has_bias,
    )
    output = _run(planner, source, output, sliced, parameters, given)
    flat = plan_reshape(planner, output, _flat(output.spec.shape), _flat(output.spec.padded_shape))
    if flat.buffer != output.buffer:
        planner.free(output)
    if made_anew or owned:
        release(planner, source)
    return flat


def _fits_unsliced(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: TransposedConvolution,
    parameters: Parameters,
    request: Request,
    given: Slicing | None,
) -> bool:
    """A slice config that turns out to mean one slice is as good as one that asks for L1."""
    if given is None:
        return False
    spec = source.spec if source is not None else host
    assert spec is not None
    settings = request.settings.but(weights_dtype=request.settings.weights_dtype or parameters.weight_dtype)
    request = Request(settings, request.compute, request.dtype)
    sliced = SlicedTransposed(conv, request, spec.layout, spec.dtype, parameters.has_bias)
    return _slicing(planner, sliced, given).count == 1


def _slicing(planner: Planner, sliced: SlicedTransposed, given: Slicing | None) -> Slicing:
    conv = sliced.conv
    return chosen_slicing(
        given,
        (conv.height, conv.width),
        conv.output_hw,
        sliced.request.settings.output_layout,
        planner.memory.l1,
        lambda one: sliced.largest_need(planner, one),
    )


def _flat(shape: Shape) -> Shape:
    n, h, w, c = shape
    return Shape((1, 1, n * h * w, c))


def _run(
    planner: Planner,
    source: Slot,
    output: Slot,
    sliced: SlicedTransposed,
    parameters: Parameters,
    given: Slicing | None,
) -> Slot:
    conv, layout = sliced.conv, output.spec.layout
    slicing = _slicing(planner, sliced, given)
    if given is not None and given.count:
        check_count(slicing, conv.output_hw, layout)
    height, width = conv.output_hw
    if slicing.count == 1:
        planner.free(output)
        _, own = sliced.part((0, height), (0, width))
        result = _through_l1(planner, source, sliced, own, parameters)
        copied = placed(planner, result, DRAM_MEMORY_CONFIG)
        if copied.buffer != result.buffer:
            planner.free(result)
        return copied
    for ranges in sliced.ranges(slicing):
        part, own = sliced.part(*ranges)
        config = sliced.input_config(planner, part, own)
        piece = plan_padded_slice(planner, source, part, config)
        sliced = sliced.with_layout(config.memory_layout)  # what suits the first part is kept for the others
        result = _as_rows(planner, _through_l1(planner, piece, sliced, own, parameters), layout)
        plan_slice_write(planner, result, output, part)
        planner.free(result)
        if not is_freed(planner, piece):
            planner.free(piece)
    return output


def _through_l1(
    planner: Planner, piece: Slot, sliced: SlicedTransposed, own: TransposedConvolution, parameters: Parameters
) -> Slot:
    """One part: always tiled, its input given back as soon as possible."""
    settings = sliced.request.settings
    if settings.shard_layout is None and piece.spec.is_sharded:
        settings = settings.but(shard_layout=piece.spec.memory_config.memory_layout)
    settings = settings.but(deallocate_activation=True, reallocate_halo_output=True, output_layout=Layout.TILE)
    request = Request(settings, sliced.request.compute, sliced.request.dtype)
    return plan_in_l1(planner, piece, None, own, parameters, request)


def _as_rows(planner: Planner, result: Slot, layout: Layout) -> Slot:
    """Row-major outputs are untilized slice by slice; width shards are made interleaved first."""
    if layout is not Layout.ROW_MAJOR:
        return result
    if result.spec.memory_config.memory_layout not in (HEIGHT, BLOCK):
        collected = placed(planner, result, L1_MEMORY_CONFIG)
        planner.free(result)
        result = collected
    rows = plan_untilize(planner, result, None)
    planner.free(result)
    return rows
