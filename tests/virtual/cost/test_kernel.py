# SPDX-License-Identifier: Apache-2.0
"""Predicted kernel durations behave as the hardware does, and every step of whole networks has one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.virtual.cost.layers import conv_steps, only, steps_of
from tests.virtual.networks.noting import NotedTTNN, PlanOnlyCard
from tests.virtual.networks.unet import UNet
from tests.virtual.networks.yolov4 import YOLOv4
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.cost.parts import KernelCost
from tt_cnn.virtual.planning.plan import Step

N150 = card_by_name("n150")


def cost(step: Step, card: str = "n150") -> KernelCost:
    return kernel_cost(step, card_by_name(card))


def conv_ns(*shape: int, **options: Any) -> float:
    op = "Matmul" if len(shape) > 3 and shape[3] == 1 else "Conv2d"
    return cost(only(conv_steps(*shape, **options), op), options.get("card", "n150")).ns


@pytest.mark.parametrize("layout", ["HEIGHT", "BLOCK", "WIDTH"])
def test_a_higher_fidelity_takes_longer(layout: str) -> None:
    times = [conv_ns(28, 256, 256, layout=layout, fidelity=f) for f in ("LoFi", "HiFi2", "HiFi3", "HiFi4")]
    assert times == sorted(times) and times[0] < times[-1]


def test_fidelity_makes_another_program() -> None:
    """As recorded: the real library takes new tables for it, those of the halo too."""
    low, high = (only(conv_steps(fidelity=f), "Conv2d") for f in ("LoFi", "HiFi4"))
    assert low.program_key != high.program_key
    assert cost(low).matrix_ns < cost(high).matrix_ns


@pytest.mark.parametrize(("size", "inputs", "outputs", "kernel"), [(20, 256, 512, 3), (20, 512, 512, 1)])
def test_narrow_weights_arrive_sooner(size: int, inputs: int, outputs: int, kernel: int) -> None:
    wide, narrow = (
        conv_ns(size, inputs, outputs, kernel, weights=w, double_buffers=False) for w in ("bfloat16", "bfloat8_b")
    )
    assert 0.5 < narrow / wide < 0.75  # 1088 bytes a tile instead of 2048, and what does not depend on weights


@pytest.mark.parametrize("size", [28, 56, 112])
def test_more_pixels_take_longer(size: int) -> None:
    assert conv_ns(size) < conv_ns(2 * size)


def test_more_channels_take_longer() -> None:
    assert conv_ns(56, 64, 64) < conv_ns(56, 128, 64) < conv_ns(56, 128, 128)


def test_more_cores_are_quicker() -> None:
    few, many = (only(conv_steps(20, 256, 256, layout=one), "Conv2d") for one in ("HEIGHT", "BLOCK"))
    assert few.cores.num_cores() < many.cores.num_cores()
    assert cost(many).ns < cost(few).ns


def test_the_larger_card_is_quicker() -> None:
    assert conv_ns(112, card="p150") < conv_ns(112, card="n150")


def test_two_buffers_are_quicker_than_one() -> None:
    assert conv_ns(56, rows=64) < conv_ns(56, rows=64, double_buffers=False)


def test_an_activation_of_the_vector_unit_takes_its_time() -> None:
    plain, relu, silu, leaky = (
        only(conv_steps(activation=a), "Conv2d")
        for a in (
            None,
            ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
            ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU),
            ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.1),
        )
    )
    assert cost(relu).ns == cost(plain).ns  # the packer clips at zero on its way
    assert cost(relu).vector_ns == 0 < cost(leaky).vector_ns < cost(silu).vector_ns
    assert cost(plain).ns < cost(leaky).ns < cost(silu).ns


def test_a_matrix_bound_matmul_reaches_the_measured_share_of_the_peak() -> None:
    """GEMM_FLOPS.md: about 93 % of the peak at HiFi4, about 64 % at LoFi, with large blocks.

    Its shares are of the math thread's time, which ends before the output is written to DRAM.
    """
    device = PlanOnlyCard()

    def multiply(fidelity: Any) -> Step:
        a, b = (
            ttnn.from_torch(torch.zeros(1, 1, 4096, 4096), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device)
            for _ in range(2)
        )
        program = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
            compute_with_storage_grid_size=(8, 8),
            in0_block_w=4,
            out_subblock_h=2,
            out_subblock_w=4,
            per_core_M=16,
            per_core_N=16,
            transpose_mcast=False,
            fused_activation=None,
        )
        compute = ttnn.init_device_compute_kernel_config(device.arch(), math_fidelity=fidelity, packer_l1_acc=True)
        return only(
            steps_of(device, lambda: ttnn.matmul(a, b, program_config=program, compute_kernel_config=compute)), "Matmul"
        )

    costs = [cost(multiply(f)) for f in (ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi4)]
    shares = [one.pm_compute_ns / one.compute_ns for one in costs]
    assert 0.55 < shares[0] < 0.80
    assert 0.80 < shares[1] < 0.97


def test_fewer_bytes_move_sooner() -> None:
    def reading(dtype: Any) -> float:
        device = PlanOnlyCard()
        x = ttnn.from_torch(torch.zeros(1, 1, 4096, 256), dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
        config = ttnn.create_sharded_memory_config(
            (1, 1, 4096, 256), ttnn.CoreGrid(x=8, y=8), ttnn.ShardStrategy.HEIGHT
        )
        steps = steps_of(device, lambda: ttnn.to_memory_config(x, config))
        return cost(only(steps, "InterleavedToSharded")).ns

    assert reading(ttnn.bfloat8_b) < reading(ttnn.bfloat16) < reading(ttnn.float32)


def networks() -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = {}
    card = PlanOnlyCard(l1_small_size=65536)
    unet = UNet(ttnn, card)
    steps["UNet"] = steps_of(card, lambda: unet(unet.input()))
    card = PlanOnlyCard(l1_small_size=32768)
    yolo = YOLOv4(NotedTTNN(card), card)
    steps["YOLOv4"] = steps_of(card, lambda: yolo(yolo.input()))
    return steps


def test_every_step_of_a_network_has_a_time_that_its_parts_fit_into() -> None:
    for name, steps in networks().items():
        for step in steps:
            one = cost(step)
            busiest = max(one.matrix_ns, one.vector_ns, one.unpack_pack_ns, one.dram_ns, one.noc_ns, one.launch_ns)
            assert 0 < busiest <= one.ns * 1.25, (name, step.op, step.factory, one)
            assert one.ns < 2e6


def test_networks_take_about_as_long_as_published() -> None:
    """Device fps of tt-metal's tests: UNet 206, YOLOv4 at 320x320 197 (here with relus, which are free)."""
    totals = {name: sum(cost(step).ns for step in steps) for name, steps in networks().items()}
    assert totals["UNet"] == pytest.approx(1e9 / 206, rel=0.2)
    assert totals["YOLOv4"] == pytest.approx(1e9 / 197, rel=0.3)
