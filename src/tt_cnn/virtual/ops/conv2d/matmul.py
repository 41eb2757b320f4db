# SPDX-License-Identifier: Apache-2.0
"""What a convolution says of the matrix multiplication that a 1x1 kernel is; `ops.matmul` plans it."""

from __future__ import annotations

from tt_cnn.virtual.ops.conv2d.blocks import Blocks
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.matmul.configs import MCAST_1D, MCAST_2D, Activation, ProgramConfig
from tt_cnn.virtual.ops.matmul.plan import MatmulRequest
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.sliding_window.parallel import COL_MAJOR, HEIGHT
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def matmul_request(
    source: Spec, conv: Convolution, parameters: Parameters, request: Request, output: MemoryConfig, blocks: Blocks
) -> MatmulRequest:
    """A sharded input brings its program config with it, activation and all; for an interleaved one `ttnn.linear`
    chooses, writes to DRAM and applies the activation afterwards."""
    compute, activation = request.compute, request.settings.activation
    in_shards = source.is_sharded
    return MatmulRequest(
        request.dtype,
        output if in_shards else DRAM_MEMORY_CONFIG,
        Compute(compute.fidelity, compute.approx, compute.fp32_accumulation, compute.packer_l1),
        _config(source, output, blocks, activation) if in_shards else None,
        activation=None if in_shards else activation,
        channels=conv.in_channels // conv.groups,
        weights=parameters.layout,
    )


def _config(source: Spec, output: MemoryConfig, blocks: Blocks, activation: Activation | None) -> ProgramConfig:
    """Each core computes its shard of the output (`determine_matmul_op_config_from_conv_op_config`)."""
    assert output.shard_spec is not None
    size = output.shard_spec.grid.bounding_box().grid_size()
    height = source.memory_config.memory_layout is HEIGHT
    return ProgramConfig(
        MCAST_1D if height else MCAST_2D,
        (size.x, size.y),
        blocks.act_w,
        blocks.sub_h,
        blocks.sub_w,
        blocks.out_h,
        blocks.out_w,
        blocks.out_h,
        blocks.out_w,
        fuse_batch=True,
        transpose_mcast=not height and source.shard.orientation is COL_MAJOR,
        activation=activation,
    )
