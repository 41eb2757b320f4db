"""The transposed convolution through L1: shard the input, prepare the weights, halo, convolution; or a matmul."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.auto_shard import check_block_width, chosen_layout
from tt_cnn.virtual.ops.conv2d.blocks import blocks_of
from tt_cnn.virtual.ops.conv2d.moving import is_freed, moved, placed, release
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.plan import as_matmul, brought
from tt_cnn.virtual.ops.conv2d.problem import Request
from tt_cnn.virtual.ops.conv2d.program import plan_program
from tt_cnn.virtual.ops.conv2d.sharding import channel_alignment, input_shards
from tt_cnn.virtual.ops.conv2d.weights import weight_layout
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.sliding_window.halo import plan_halo
from tt_cnn.virtual.ops.sliding_window.parallel import sharded_memory_config
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_in_l1(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: TransposedConvolution,
    parameters: Parameters,
    request: Request,
) -> Slot:
    settings, compute = request.settings, request.compute
    settings = settings.but(full_inner_dim=False, enable_activation_reuse=False)
    spec = source.spec if source is not None else host
    assert spec is not None
    matmul = conv.is_matmul(settings)
    auto = not spec.is_sharded and settings.shard_layout is None
    if auto:
        settings = settings.but(weights_dtype=settings.weights_dtype or parameters.weight_dtype)
        dtypes = spec.dtype, request.dtype
        direct = conv.direct()
        layout = chosen_layout(
            planner.card, direct, settings, compute, spec.layout, *dtypes, parameters.has_bias, matmul
        )
        settings = settings.but(shard_layout=layout)
    gives_back = settings.deallocate_activation and source is not None and not spec.memory_config.is_dram()
    fatal(
        not (settings.override_sharding_config and settings.reshard_if_not_optimal),
        "Incorrect config provided: reshard_if_not_optimal and override_sharding_config cannot both be set.",
    )
    channels_of = conv.in_channels, conv.out_channels
    shards = input_shards(
        source.spec if source else None, host, settings, conv.output_pixels, *channels_of, matmul, planner.card.grid
    )
    held, owned = brought(planner, source, host, shards, settings.deallocate_activation, matmul, auto)
    config = held.spec.memory_config
    alignment = channel_alignment(config.memory_layout, spec.layout, False, matmul, config)
    channels = round_up(conv.in_channels, shards.inputs.cores_c * alignment)
    out_channels = round_up(conv.out_channels, shards.outputs.cores_c * TILE_SIZE)
    output_config = sharded_memory_config(conv.output_pixels, out_channels, shards.outputs, TILE_SIZE)
    width = conv.output_hw[1]
    blocks = blocks_of(
        output_config, shards.inputs, channels, conv.kernel, width, settings, compute.fp32_accumulation, False
    )
    check_block_width(blocks.act_w, settings)
    prepared = weight_layout(
        conv.out_channels,
        parameters.transposed_channels(conv),
        conv.kernel,
        1,
        alignment,
        shards.inputs,
        shards.outputs,
        blocks,
        matmul and auto,
        settings,
        False,
        (1, 1),
    )
    parameters.prepare(planner, prepared, blocks, settings.weights_dtype)
    request = Request(settings, compute, request.dtype, request.memory_config)
    if matmul:
        return as_matmul(planner, held, owned, conv, parameters, request, output_config, blocks, gives_back)
    window = conv.window
    halo = plan_halo(planner, held, window, tables_in_dram=settings.config_tensors_in_dram, compute=compute.of_halo)
    if settings.deallocate_activation and not held.spec.memory_config.is_dram():
        release(planner, held)
    if settings.reallocate_halo_output:
        halo = moved(planner, halo)
    assert parameters.weight is not None and parameters.layout is not None
    output = plan_program(
        planner,
        halo,
        parameters.weight,
        parameters.layout,
        parameters.bias,
        window,
        conv,
        shards.inputs,
        shards.outputs,
        output_config,
        blocks,
        request,
    )
    planner.free(halo)
    result = output
    if request.memory_config is not None and request.memory_config != output.spec.memory_config:
        result = placed(planner, output, request.memory_config)
        if result.buffer != output.buffer:
            planner.free(output)
    if owned and not is_freed(planner, held):
        planner.free(held)
    return result
