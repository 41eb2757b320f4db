# SPDX-License-Identifier: Apache-2.0
"""Convolutions out of DRAM: whole through L1 where that fits, slice after slice where not. The output is in DRAM."""

from __future__ import annotations

from collections.abc import Callable

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.auto_shard import Layer
from tt_cnn.virtual.ops.conv2d.config import Slicing
from tt_cnn.virtual.ops.conv2d.folding import plan_fold
from tt_cnn.virtual.ops.conv2d.moving import is_freed, placed, release
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.plan import flat_shape, placed_instead, plan_in_l1
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.slice_steps import plan_padded_slice, plan_slice_write
from tt_cnn.virtual.ops.conv2d.slices import Sliced
from tt_cnn.virtual.ops.layout.untilize import plan_untilize
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT
from tt_cnn.virtual.ops.sliding_window.slicing import check_count
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG
from tt_cnn.virtual.types.tensor_spec import Spec

InL1 = Callable[..., Slot]
"""A convolution's plan through L1: `plan_in_l1` of this kind of convolution."""


def plan_from_dram(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: Convolution,
    parameters: Parameters,
    request: Request,
    slicing: Slicing | None,
) -> Slot:
    """Where the input's stride is folded, the weights' kernel is not: the real library forgets that here (the stride is
    one by then) and remembers it in `prepare_conv_weights`."""
    settings = request.settings
    matmul = conv.is_matmul(settings)
    fatal(
        not settings.override_output_sharding_config,
        "Conv2D DRAM slicing doesn't support override_output_sharding_config.",
    )
    fold = plan_fold(planner, source, host, conv, settings)
    owned = fold is not None or source is None
    if fold is not None:
        source, conv, matmul = fold
    elif source is None:
        assert host is not None
        source = planner.allocate(Spec(host.shape, host.dtype, host.layout, DRAM_MEMORY_CONFIG))
    if matmul:
        output = plan_in_l1(planner, source, None, conv, parameters, request)
        if owned and not is_freed(planner, source):
            planner.free(source)
        return output
    sliced = Sliced(layer_of(planner, source.spec, conv, parameters, request))
    return plan_sliced(planner, source, owned, sliced, parameters, slicing, plan_in_l1)


def plan_sliced(
    planner: Planner,
    source: Slot,
    owned: bool,
    sliced: Sliced,
    parameters: Parameters,
    slicing: Slicing | None,
    in_l1: InL1,
) -> Slot:
    """The parts of a convolution out of DRAM, one after the other; `owned`: the input is the plan's own."""
    conv, dtype, layout = sliced.conv, sliced.request.dtype, sliced.request.settings.output_layout
    fatal(
        not (layout is Layout.ROW_MAJOR and dtype is DataType.BFLOAT8_B),
        "Conv output can't be in Row Major if output dtype is BFloat8_B.",
    )
    image = Shape((conv.batch, conv.height, conv.width, conv.in_channels))
    given, source = source, plan_reshape(planner, source, image, image)
    made_anew = source.buffer != given.buffer
    if made_anew and owned:
        release(planner, given)
    fatal(source.spec.memory_config.is_dram(), "Conv DRAM expects the input tensor to be in DRAM.")
    fatal(not source.spec.is_sharded, "Input Tensor to Conv DRAM should be in Interleaved Memory Layout")
    shape = Shape((conv.batch, *conv.output_hw, conv.out_channels))
    output = planner.allocate(Spec(shape, dtype, layout, DRAM_MEMORY_CONFIG))
    output = _run(planner, source, output, sliced, parameters, slicing, in_l1)
    flat = plan_reshape(planner, output, flat_shape(output.spec.shape), flat_shape(output.spec.padded_shape))
    if flat.buffer != output.buffer:
        planner.free(output)
    if made_anew or owned:
        release(planner, source)
    return flat


def layer_of(planner: Planner, spec: Spec, conv: Convolution, parameters: Parameters, request: Request) -> Layer:
    """A convolution of an input in DRAM, as its slices are chosen by."""
    settings = request.settings.but(weights_dtype=request.settings.weights_dtype or parameters.weight_dtype)
    own = Request(settings, request.compute, request.dtype)
    return Layer(planner.card, conv, own, spec.layout, spec.dtype, parameters.has_bias)


def _run(
    planner: Planner,
    source: Slot,
    output: Slot,
    sliced: Sliced,
    parameters: Parameters,
    given: Slicing | None,
    in_l1: InL1,
) -> Slot:
    """`run_sliced_op`."""
    slicing = sliced.chosen_slicing(planner.memory.l1, given)
    layout, (height, width) = output.spec.layout, sliced.conv.output_hw
    check_count(slicing, (height, width), layout)
    if slicing.count == 1:
        planner.free(output)
        _, own = sliced.part((0, height), (0, width))
        result = in_l1(planner, source, None, own, parameters, _in_l1(sliced.request, source))
        return placed_instead(planner, result, DRAM_MEMORY_CONFIG)
    for part, own in sliced.parts(slicing):
        config = sliced.input_config(own)
        piece = plan_padded_slice(planner, source, part, config)
        sliced = sliced.after(config)
        result = in_l1(planner, piece, None, own, parameters, _in_l1(sliced.request, piece))
        result = _as_rows(planner, result, layout)
        plan_slice_write(planner, result, output, part)
        planner.free(result)
        if not is_freed(planner, piece):  # width shards that need no halo
            planner.free(piece)
    return output


def _in_l1(request: Request, piece: Slot) -> Request:
    """One part: always tiled, its input given back as soon as possible."""
    settings = request.settings
    if settings.shard_layout is None and piece.spec.is_sharded:
        settings = settings.but(shard_layout=piece.spec.memory_config.memory_layout)
    settings = settings.but(deallocate_activation=True, reallocate_halo_output=True, output_layout=Layout.TILE)
    return Request(settings, request.compute, request.dtype)


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
