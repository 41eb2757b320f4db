# SPDX-License-Identifier: Apache-2.0
"""The programs of matmul steps: every factory has a type, and a 1x1 convolution plans what `ttnn.linear` plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.virtual.cost.layers import conv_steps, only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.ops.matmul.programs import (
    MatmulMcast1DProgram,
    MatmulMcast2DProgram,
    MatmulMultiCoreProgram,
    MatmulReuseProgram,
)
from tt_cnn.virtual.planning.plan import Step

N150 = card_by_name("n150")
RELU, SILU = (ttnn.UnaryWithParam(kind) for kind in (ttnn.UnaryOpType.RELU, ttnn.UnaryOpType.SILU))


def tensor(device: PlanOnlyCard, *shape: int, memory: Any = ttnn.DRAM_MEMORY_CONFIG) -> Any:
    values = torch.zeros(shape)
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def product(
    left: tuple[int, ...], right: tuple[int, ...], memory: Any = ttnn.DRAM_MEMORY_CONFIG, **options: Any
) -> Step:
    device = PlanOnlyCard()
    a, b = tensor(device, *left, memory=memory), tensor(device, *right, memory=memory)
    return only(steps_of(device, lambda: ttnn.matmul(a, b, memory_config=memory, **options)), "Matmul")


def convolution(channels: int, outputs: int, size: int, activation: Any = None) -> list[Step]:
    """1x1 on an interleaved tensor, without a layout asked for: `ttnn.linear` chooses the program."""
    device = PlanOnlyCard()
    x = tensor(device, 1, 1, size * size, channels)
    weight = ttnn.from_torch(torch.zeros(outputs, channels, 1, 1), dtype=ttnn.bfloat16)
    return steps_of(
        device,
        lambda: ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            device=device,
            in_channels=channels,
            out_channels=outputs,
            batch_size=1,
            input_height=size,
            input_width=size,
            kernel_size=(1, 1),
            conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, activation=activation),
            slice_config=ttnn.Conv2dL1FullSliceConfig,
        ),
    )


@pytest.mark.parametrize(
    ("kind", "left", "right", "options"),
    [
        (MatmulMultiCoreProgram, (64, 96), (96, 64), {"memory": ttnn.L1_MEMORY_CONFIG}),
        (MatmulReuseProgram, (8, 64, 64), (8, 64, 64), {"core_grid": ttnn.CoreGrid(x=8, y=8)}),
        (MatmulMcast1DProgram, (32, 1024), (1024, 4096), {}),
        (MatmulMcast2DProgram, (2048, 1024), (1024, 1024), {}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_factory_has_its_program(kind: type[MatmulProgram], left: Any, right: Any, options: Any) -> None:
    step = product(left, right, **options)
    assert type(step.program) is kind
    assert step.program.multiply_adds(step) == torch.zeros(left, device="meta").numel() * right[-1]
    assert kernel_cost(step, N150).ns > 0


@pytest.mark.parametrize("layout", ["HEIGHT", "BLOCK"])
def test_buffers_have_names_of_their_own(layout: str) -> None:
    program = only(conv_steps(28, 256, 512, 1, layout=layout), "Matmul").program
    names = [buffer.name for buffer in program.buffers]
    assert all(names) and len(set(names)) == len(names)
    assert program.buffer("output").alias is not None


def test_a_convolution_plans_the_matmul_of_a_linear_layer() -> None:
    (step,) = (one for one in convolution(256, 512, 56) if one.op == "Matmul")
    program = step.program
    assert isinstance(program, MatmulProgram) and program.weights is not None
    compute = ttnn.init_device_compute_kernel_config(
        ttnn.Arch.WORMHOLE_B0, math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=False, packer_l1_acc=False
    )
    linear = product((1, 1, 56 * 56, 256), (1, 1, 256, 512), compute_kernel_config=compute).program
    assert isinstance(linear, MatmulProgram)
    assert replace(program, weights=None, compute=linear.compute) == linear


def test_a_sharded_convolution_brings_its_program_config() -> None:
    step = only(conv_steps(56, 64, 128, 1, activation=SILU, rows=64), "Matmul")
    program = step.program
    assert isinstance(program, MatmulMcast1DProgram)
    assert not program.config.mcast_left and program.config.fuse_batch
    assert program.config.subblock_h * program.config.subblock_w <= program.compute.registers
    assert program.activation is not None and program.activation[0] is ttnn.UnaryOpType.SILU
    assert program.multiply_adds(step) == 56 * 56 * 64 * 128


def test_an_activation_after_an_interleaved_product_takes_the_vector_unit() -> None:
    relu, silu = (kernel_cost(only(convolution(64, 64, 56, a), "Unary"), N150) for a in (RELU, SILU))
    assert 0 < relu.vector_ns < silu.vector_ns
