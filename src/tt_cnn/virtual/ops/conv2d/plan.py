# SPDX-License-Identifier: Apache-2.0
"""The convolution as the card runs it: shard the input, prepare the weights, halo, convolution; or a matmul."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.auto_shard import Layer, check_block_width, chosen_layout
from tt_cnn.virtual.ops.conv2d.blocks import blocks_of
from tt_cnn.virtual.ops.conv2d.dispatch import Arranged, plan_program
from tt_cnn.virtual.ops.conv2d.folding import plan_fold
from tt_cnn.virtual.ops.conv2d.matmul import matmul_request
from tt_cnn.virtual.ops.conv2d.moving import (
    emit_move,
    is_freed,
    placed,
    release,
    sharded,
    tiled,
)
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.sharding import InputShards, channel_alignment, input_shards
from tt_cnn.virtual.ops.conv2d.weights import weight_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.matmul.plan import plan_matmul
from tt_cnn.virtual.ops.shape.pad.pad import plan_pad
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.halo import plan_halo
from tt_cnn.virtual.ops.sliding_window.parallel import HEIGHT, WIDTH, sharded_memory_config
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_in_l1(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: Convolution,
    parameters: Parameters,
    request: Request,
    folded_by: Pair = (1, 1),
) -> Slot:
    """The whole convolution through L1. `source` is the input on the card, or `host` the spec of one on the host.

    `folded_by`: the stride by which the input was folded before.
    """
    matmul = conv.is_matmul(request.settings)
    fold = plan_fold(planner, source, host, conv, request.settings)
    if fold is None:
        return _plan_unfolded(planner, source, host, conv, matmul, parameters, request, folded_by)
    folded, folded_conv, matmul = fold
    output = _plan_unfolded(planner, folded, None, folded_conv, matmul, parameters, request, conv.stride)
    if not is_freed(planner, folded):
        planner.free(folded)
    return output


def _plan_unfolded(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: Convolution,
    matmul: bool,
    parameters: Parameters,
    request: Request,
    fold: Pair,
) -> Slot:
    """`fold` is the stride that the weights' kernel is folded by, as the input was."""
    settings = request.settings
    if settings.enable_activation_reuse:
        settings = settings.but(enable_act_double_buffer=False, enable_weights_double_buffer=False)
        request = request.with_settings(settings)
    held, owned, arranged = arrange(planner, source, host, conv, matmul, parameters, request, fold)
    if matmul:
        return arranged_matmul(planner, source, held, owned, parameters, arranged)
    return _as_convolution(planner, held, owned, parameters, arranged)


def arrange(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: Convolution,
    matmul: bool,
    parameters: Parameters,
    request: Request,
    fold: Pair = (1, 1),
) -> tuple[Slot, bool, Arranged]:
    """Shard the input and prepare the weights: the input, whether it is the plan's own, and what was decided."""
    settings, compute = request.settings, request.compute
    spec = source.spec if source is not None else host
    assert spec is not None
    auto = not spec.is_sharded and settings.shard_layout is None
    if auto:
        settings = settings.but(weights_dtype=settings.weights_dtype or parameters.weight_dtype)
        own = request.with_settings(settings)
        layer = Layer(planner.card, conv.estimated(), own, spec.layout, spec.dtype, parameters.has_bias, matmul)
        settings = settings.but(shard_layout=chosen_layout(layer))
    shards = input_shards(spec, source is None, settings, conv, matmul, planner.card.grid)
    held, owned = brought(planner, source, host, shards, settings.deallocate_activation, matmul, auto)
    config = held.spec.memory_config
    alignment = channel_alignment(config.memory_layout, held.spec.layout, False, matmul, config)
    inputs, outputs = shards.inputs, shards.outputs
    channels = round_up(conv.in_channels, inputs.cores_c * alignment)
    out_channels = round_up(conv.out_channels, outputs.cores_c * TILE_SIZE)
    output_config = sharded_memory_config(conv.output_pixels, out_channels, outputs, TILE_SIZE)
    fp32, width = compute.fp32_accumulation, conv.output_hw[1]
    depthwise = not conv.transposed and conv.is_depthwise_1d(parameters.has_bias)
    blocks = blocks_of(output_config, inputs, channels, conv.kernel, width, settings, fp32, depthwise)
    check_block_width(blocks.act_w, settings)
    shape = parameters.shape_for(conv, fold, settings.weights_dtype)
    own_form = depthwise and conv.groups > 1
    weights = weight_layout(shape, alignment, inputs, outputs, blocks, settings, matmul and auto, own_form)
    parameters.prepare(planner, weights, blocks, settings.weights_dtype)
    return held, owned, Arranged(conv, request.with_settings(settings), inputs, outputs, output_config, blocks)


def brought(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    shards: InputShards,
    deallocate: bool,
    matmul: bool,
    auto: bool,
) -> tuple[Slot, bool]:
    """The input where the convolution takes it from, and whether that tensor is the plan's own."""
    if source is None:
        assert host is not None
        return _uploaded(planner, host, shards, auto and matmul), True
    flat = _flattened(planner, source)
    owned = flat.buffer != source.buffer
    if not shards.reshard:
        return flat, owned
    spec = flat.spec
    if matmul and spec.layout is Layout.ROW_MAJOR and shards.inputs.layout is not HEIGHT:
        tiles = tiled(planner, flat)
        gives_back = deallocate and not spec.memory_config.is_dram()
        if gives_back or owned:
            release(planner, flat)
        if gives_back:
            tiles = emit_move(planner, tiles)
        flat, owned = tiles, True
    if auto and matmul:
        return flat, owned
    alignment = () if flat.spec.is_sharded else tuple(shards.config.shard_spec.shape)  # type: ignore[union-attr]
    target = Spec(flat.spec.shape, flat.spec.dtype, flat.spec.layout, shards.config, alignment)
    shards_of_input = sharded(planner, flat, target, by_call=True)
    gives_back = deallocate and not flat.spec.memory_config.is_dram()
    if gives_back or owned:
        release(planner, flat)
    if gives_back:
        shards_of_input = emit_move(planner, shards_of_input)
    return shards_of_input, True


def _uploaded(planner: Planner, host: Spec, shards: InputShards, interleaved: bool) -> Slot:
    """A host input on the card. Rows that other than height shards need are padded there, and then count as rows.

    Height shards and tiles are padded on the host. Channels that other row-major shards lack come by way of DRAM.
    """
    rows, channels = host.logical_2d
    shard = shards.config.shard_spec
    assert shard is not None
    height, width = shard.shape[0] * shards.inputs.cores_nhw, shard.shape[1] * shards.inputs.cores_c
    config = DRAM_MEMORY_CONFIG if interleaved else shards.config
    shape = Shape((1, 1, rows, channels))
    if host.layout is Layout.TILE:
        return planner.allocate(Spec(shape, host.dtype, host.layout, config))
    if shards.inputs.layout is HEIGHT:
        return planner.allocate(Spec(shape, host.dtype, host.layout, config, (height, width)))
    if width != channels:
        target = planner.allocate(Spec(shape, host.dtype, host.layout, shards.config, tuple(shard.shape)))
        whole = planner.allocate(Spec(shape, host.dtype, host.layout, DRAM_MEMORY_CONFIG))
        plan_to_memory_config(planner, whole, shards.config, None, target)
        planner.free(whole)
        return target
    given = planner.allocate(Spec(shape, host.dtype, host.layout, config))
    if height == rows:
        return given
    padded = plan_pad(planner, given, [(0, 0), (0, 0), (0, height - rows), (0, 0)], 0.0)
    planner.free(given)
    return padded


def _flattened(planner: Planner, source: Slot) -> Slot:
    """(1, 1, N*H*W, C); a tiled image whose rows are no whole tiles is made again."""
    fatal(len(source.spec.shape) == 4, "Expected 4D shape")
    return plan_reshape(planner, source, flat_shape(source.spec.shape), flat_shape(source.spec.padded_shape))


def flat_shape(shape: Shape) -> Shape:
    n, h, w, c = shape
    return Shape((1, 1, n * h * w, c))


def _as_convolution(planner: Planner, held: Slot, owned: bool, parameters: Parameters, arranged: Arranged) -> Slot:
    settings, window = arranged.request.settings, arranged.conv.window
    needs_halo = (
        arranged.inputs.layout is not WIDTH or held.spec.layout is not Layout.ROW_MAJOR or window.pad_h or window.pad_w
    )
    if needs_halo:
        halo = with_halo(planner, held, arranged)
        if owned or (settings.deallocate_activation and not held.spec.memory_config.is_dram()):
            release(planner, held)
        held, owned = halo, True
        if settings.reallocate_halo_output:
            held = emit_move(planner, held)
    output = plan_program(planner, held, parameters, arranged)
    output = placed_instead(planner, output, arranged.request.memory_config)
    if owned:
        release(planner, held)
    return output


def with_halo(planner: Planner, held: Slot, arranged: Arranged) -> Slot:
    settings, compute = arranged.request.settings, arranged.request.compute.of_halo
    window = arranged.conv.window
    return plan_halo(planner, held, window, tables_in_dram=settings.config_tensors_in_dram, compute=compute)


def arranged_matmul(
    planner: Planner, source: Slot | None, held: Slot, owned: bool, parameters: Parameters, arranged: Arranged
) -> Slot:
    request = arranged.request
    gives_back = (
        request.settings.deallocate_activation and source is not None and not source.spec.memory_config.is_dram()
    )
    if held.spec.layout is not Layout.TILE:
        tiles = tiled(planner, held)
        if owned or gives_back:
            release(planner, held)
        held, owned = tiles, True
    assert parameters.weight is not None
    conv, config, blocks = arranged.conv, arranged.output_config, arranged.blocks
    product = matmul_request(held.spec, conv, parameters, request, config, blocks)
    output = plan_matmul(planner, held, parameters.weight, parameters.bias, product)
    if gives_back or not owned:
        if gives_back:
            release(planner, held)
        owned = False
    output = placed_instead(planner, output, request.memory_config)
    if owned:
        release(planner, held)
    return output


def placed_instead(planner: Planner, output: Slot, config: MemoryConfig | None) -> Slot:
    """The result where the caller wants it."""
    if config is None or config == output.spec.memory_config:
        return output
    elsewhere = placed(planner, output, config)
    if elsewhere.buffer != output.buffer:
        planner.free(output)
    return elsewhere
