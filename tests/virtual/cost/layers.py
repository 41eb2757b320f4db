# SPDX-License-Identifier: Apache-2.0
"""Single calls planned on a card that does not compute, for their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.queues.queue import Command


def steps_of(device: PlanOnlyCard, call: Callable[[], Any]) -> list[Step]:
    found: list[Step] = []

    def note(command: Command) -> None:
        found.extend(placed.step for placed in command.steps)

    device.listeners.append(note)
    try:
        call()
    finally:
        device.listeners.remove(note)
    return found


def conv_steps(
    size: int = 56,
    inputs: int = 64,
    outputs: int = 64,
    kernel: int = 3,
    *,
    card: str = "n150",
    layout: str = "HEIGHT",
    fidelity: str = "LoFi",
    weights: str = "bfloat8_b",
    activation: Any = None,
    rows: int = 0,
    double_buffers: bool = True,
) -> list[Step]:
    """A 1x1 (a matmul) or 3x3 convolution of one image, without bias."""
    device = PlanOnlyCard(card)
    x = ttnn.from_torch(
        torch.zeros(1, 1, size * size, inputs), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device
    )
    config = ttnn.Conv2dConfig(
        weights_dtype=getattr(ttnn, weights),
        shard_layout=getattr(ttnn.TensorMemoryLayout, f"{layout}_SHARDED"),
        activation=activation,
        act_block_h_override=rows,
        enable_act_double_buffer=double_buffers,
        enable_weights_double_buffer=double_buffers,
    )
    compute = ttnn.init_device_compute_kernel_config(
        device.arch(), math_fidelity=getattr(ttnn.MathFidelity, fidelity), packer_l1_acc=True
    )
    weight = ttnn.from_torch(torch.zeros(outputs, inputs, kernel, kernel), dtype=ttnn.float32)
    return steps_of(
        device,
        lambda: ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            device=device,
            in_channels=inputs,
            out_channels=outputs,
            batch_size=1,
            input_height=size,
            input_width=size,
            kernel_size=(kernel, kernel),
            stride=(1, 1),
            padding=(kernel // 2, kernel // 2),
            conv_config=config,
            compute_config=compute,
            slice_config=ttnn.Conv2dL1FullSliceConfig,
            dtype=ttnn.bfloat8_b,
        ),
    )


def only(steps: list[Step], op: str) -> Step:
    (step,) = [s for s in steps if s.op == op]
    return step
