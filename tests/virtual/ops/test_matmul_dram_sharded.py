# SPDX-License-Identifier: Apache-2.0
"""A product with a matrix in the banks of DRAM: values beside PyTorch, time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.matmul.dram_sharded import MatmulDramShardedProgram

BANKS = 12


def in_banks(height: int, width: int) -> Any:
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(BANKS - 1, 0))])
    shard = ttnn.ShardSpec(cores, [height, width], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.DRAM, shard)


def put(card: MeshDevice, value: torch.Tensor, dtype: Any, memory: Any) -> Any:
    return ttnn.from_torch(value, dtype, layout=ttnn.TILE_LAYOUT, device=card, memory_config=memory)


def in_width(card: MeshDevice, a: torch.Tensor) -> Any:
    memory = ttnn.create_sharded_memory_config(
        (32, a.shape[-1] // 8),
        ttnn.CoreGrid(x=8, y=1),
        ttnn.ShardStrategy.WIDTH,
        use_height_and_width_as_shard_shape=True,
    )
    return put(card, a, ttnn.bfloat16, memory)


@pytest.mark.parametrize("bias", [False, True])
def test_values_are_those_of_torch(card: MeshDevice, bias: bool) -> None:
    """736 columns: the last bank has fewer than the others."""
    a, b, c = torch.randn(1, 1, 32, 512) / 4, torch.randn(1, 1, 512, 736) / 4, torch.randn(1, 1, 1, 736)
    config = ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
        in0_block_w=2,
        per_core_M=1,
        per_core_N=3,
        fused_activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
    )
    with card.record_commands() as commands:
        found = ttnn.linear(
            in_width(card, a),
            put(card, b, ttnn.bfloat8_b, in_banks(512, 64)),
            bias=put(card, c, ttnn.bfloat16, in_banks(32, 64)) if bias else None,
            program_config=config,
            memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
        )
    expected = (a @ b + (c if bias else 0)).relu()
    torch.testing.assert_close(ttnn.to_torch(found).float(), expected, rtol=0.05, atol=0.25)
    step = commands[-1].steps[0].step
    assert isinstance(step.program, MatmulDramShardedProgram) and step.program.banks == BANKS
    assert kernel_cost(step, card.card).dram_ns > 512 * 736 * 1088 / 1024 / 288  # the right matrix at 288 GB/s
