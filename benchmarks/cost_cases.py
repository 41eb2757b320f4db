# SPDX-License-Identifier: Apache-2.0
"""The before-and-after figures of the YOLOv4 report, at 320x320 on n150: its layers as they were at each point.

When the report compares bfloat16 with bfloat8_b weights, all convolutions are still height sharded (its sections on
sharding come after), so one core fetches the weights of a layer and sends them to all others. Activations were ReLUs
fused into the convolutions then, since `ttnn.mish` was wrong (tt-metal issue 10270).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from cost_recording import convolution, steps_of

from tt_cnn import ttnn
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.planning.plan import Step

CARD = "n150"
_MULTIPLYING = ("Conv2d", "Matmul")


@dataclass(frozen=True)
class Case:
    """`before` and `after` as published and as predicted, in microseconds or percent."""

    what: str
    unit: str
    published: tuple[float, float]
    predicted: tuple[float, float]
    steps: tuple[Step, ...] = ()
    """Of times: the steps that were timed, before and after."""

    @property
    def change(self) -> float:
        """After over before, predicted over published: 1 when the change is the published one."""
        published = self.published[1] / self.published[0]
        predicted = self.predicted[1] / self.predicted[0]
        return predicted / published if published else 1.0 + predicted

    def met(self, factor: float) -> bool:
        """Both figures are within the factor (what is published as 0 is 0), and so is the change, downwards."""
        pairs = list(zip(self.published, self.predicted, strict=True))
        near = all(1 / factor <= value / figure <= factor if figure else value == 0 for figure, value in pairs)
        return near and self.predicted[1] < self.predicted[0] and 1 / factor <= self.change <= factor


class _Layers:
    """The report's layers on a planning card."""

    def __init__(self, weights: str = "bfloat8_b", fidelity: str = "LoFi") -> None:
        self.device = PlanningCard(CARD, l1_small_size=32768)
        self.weights = getattr(ttnn, weights)
        self.compute = ttnn.init_device_compute_kernel_config(
            self.device.arch(), math_fidelity=getattr(ttnn.MathFidelity, fidelity), packer_l1_acc=True
        )

    def image(self, size: int, channels: int) -> Any:
        zeros = torch.zeros(1, 1, size * size, channels, dtype=torch.bfloat16)
        return ttnn.from_torch(zeros, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self.device)

    def conv(
        self, x: Any, size: int, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, rows: int = 0
    ) -> Any:
        config = ttnn.Conv2dConfig(
            weights_dtype=self.weights,
            activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
            shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            act_block_h_override=rows,
            reshard_if_not_optimal=True,
            enable_act_double_buffer=False,
            enable_weights_double_buffer=False,
        )
        window = kernel, stride, kernel // 2
        return convolution(self.device, x, size, (inputs, outputs), window, config, self.compute, ttnn.bfloat16)


def _us(step: Step) -> float:
    return kernel_cost(step, card_by_name(CARD)).ns / 1e3


def _slowest(weights: str, size: int, inputs: int, outputs: int, kernel: int, stride: int) -> Step:
    layers = _Layers(weights)
    x = layers.image(size, inputs)
    with steps_of(layers.device) as steps:
        layers.conv(x, size, inputs, outputs, kernel, stride)
    return max((step for step in steps if step.op in _MULTIPLYING), key=_us)


def _weights_case(
    what: str, published: tuple[float, float], size: int, inputs: int, outputs: int, kernel: int = 1, stride: int = 1
) -> Case:
    before, after = (_slowest(w, size, inputs, outputs, kernel, stride) for w in ("bfloat16", "bfloat8_b"))
    return Case(what, "us", published, (_us(before), _us(after)), (before, after))


def _down2(fidelity: str) -> Sequence[Step]:
    """Downsample2: nine convolutions, two residual sums, one concatenation."""
    layers = _Layers("bfloat8_b", fidelity)

    x = layers.image(160, 64)
    with steps_of(layers.device) as steps:
        split = layers.conv(x, 160, 64, 128, 3, 2)
        left = layers.conv(split, 80, 128, 64)
        right = layers.conv(split, 80, 128, 64)
        for _ in range(2):
            inner = layers.conv(layers.conv(right, 80, 64, 64), 80, 64, 64, 3)
            right = ttnn.add(right, inner, memory_config=right.memory_config())
        right = layers.conv(right, 80, 64, 64)
        rows = [ttnn.to_layout(t, ttnn.ROW_MAJOR_LAYOUT) for t in (right, left)]
        shard = ttnn.create_sharded_memory_config(
            [rows[0].memory_config().shard_spec.shape[0], 128],
            core_grid=rows[0].memory_config().shard_spec.grid,
            strategy=ttnn.ShardStrategy.HEIGHT,
            use_height_and_width_as_shard_shape=True,
        )
        layers.conv(ttnn.concat(rows, dim=3, memory_config=shard), 80, 128, 128)
    return steps


def _down1(sharded: bool) -> Sequence[Step]:
    """Downsample1: eight convolutions, a residual sum, and the concatenation that the report changes."""
    layers = _Layers()

    x = layers.image(320, 3)
    with steps_of(layers.device) as steps:
        split = layers.conv(layers.conv(x, 320, 3, 32, 3, rows=128), 320, 32, 64, 3, 2)
        left = layers.conv(split, 160, 64, 64)
        kept = layers.conv(split, 160, 64, 64)
        inner = layers.conv(layers.conv(kept, 160, 64, 32), 160, 32, 64, 3)
        right = layers.conv(ttnn.add(kept, inner, memory_config=kept.memory_config()), 160, 64, 64)
        if sharded:
            parts = [ttnn.to_layout(t, ttnn.ROW_MAJOR_LAYOUT) for t in (right, left)]
            config = ttnn.create_sharded_memory_config(
                [parts[0].memory_config().shard_spec.shape[0], 128],
                core_grid=parts[0].memory_config().shard_spec.grid,
                strategy=ttnn.ShardStrategy.HEIGHT,
                use_height_and_width_as_shard_shape=True,
            )
        else:
            parts = [ttnn.sharded_to_interleaved(t, ttnn.L1_MEMORY_CONFIG) for t in (right, left)]
            config = ttnn.L1_MEMORY_CONFIG
        layers.conv(ttnn.concat(parts, dim=3, memory_config=config), 160, 128, 64)
    return steps


def _share(steps: Sequence[Step], belongs: Callable[[Step], bool]) -> float:
    return 100 * sum(_us(s) for s in steps if belongs(s)) / sum(map(_us, steps))


def _warm(steps: Sequence[Step]) -> list[Step]:
    """Without what a first call does to the weights and to the test's own interleaved input."""
    start = next(i for i, step in enumerate(steps) if step.op in ("Halo", *_MULTIPLYING))
    return [s for s in steps[start:] if not (s.inputs and s.inputs[0].spec.memory_config.is_dram())]


def cases() -> list[Case]:
    fidelities = [_share(_warm(_down2(f)), lambda s: s.op == "Conv2d") for f in ("HiFi4", "LoFi")]
    concats = [_share(_warm(_down1(sharded)), lambda s: s.op == "InterleavedToSharded") for sharded in (False, True)]
    return [
        _weights_case("Downsample3 matmul 256 to 256, weights bfloat16, bfloat8_b", (16, 10), 40, 256, 256),
        _weights_case("Downsample4 matmul 512 to 512, weights bfloat16, bfloat8_b", (50, 30), 20, 512, 512),
        _weights_case("Downsample4 conv 256 to 512, weights bfloat16, bfloat8_b", (200, 120), 40, 256, 512, 3, 2),
        _weights_case("Neck matmul 1024 to 512, weights bfloat16, bfloat8_b", (80, 50), 10, 1024, 512),
        Case("Downsample2, share of convolutions, HiFi4, LoFi", "%", (44.7, 39.1), (fidelities[0], fidelities[1])),
        Case("Downsample1, share of interleaved to sharded", "%", (9.5, 0.0), (concats[0], concats[1])),
    ]
