# SPDX-License-Identifier: Apache-2.0
"""The transposed convolution through L1: shard the input, prepare the weights, halo, convolution; or a matmul."""

from __future__ import annotations

from tt_cnn.virtual.ops.conv2d.dispatch import plan_program
from tt_cnn.virtual.ops.conv2d.moving import emit_move, is_freed, release
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.plan import arrange, arranged_matmul, placed_instead, with_halo
from tt_cnn.virtual.ops.conv2d.problem import Request
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_in_l1(
    planner: Planner,
    source: Slot | None,
    host: Spec | None,
    conv: TransposedConvolution,
    parameters: Parameters,
    request: Request,
) -> Slot:
    request = request.with_settings(request.settings.but(full_inner_dim=False, enable_activation_reuse=False))
    matmul = conv.is_matmul(request.settings)
    held, owned, arranged = arrange(planner, source, host, conv, matmul, parameters, request)
    if matmul:
        return arranged_matmul(planner, source, held, owned, parameters, arranged)
    settings = arranged.request.settings
    halo = with_halo(planner, held, arranged)
    if settings.deallocate_activation and not held.spec.memory_config.is_dram():
        release(planner, held)
    if settings.reallocate_halo_output:
        halo = emit_move(planner, halo)
    output = plan_program(planner, halo, parameters, arranged)
    planner.free(halo)
    output = placed_instead(planner, output, arranged.request.memory_config)
    if owned and not is_freed(planner, held):
        planner.free(held)
    return output
