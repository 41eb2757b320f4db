# SPDX-License-Identifier: Apache-2.0
"""PM columns against upstream's formulas, worked out by hand."""

from __future__ import annotations

from math import ceil

import pytest
import torch

from tests.virtual.cost.layers import conv_steps, only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.cost.parts import KernelCost

N150 = card_by_name("n150")
P150 = card_by_name("p150")


@pytest.mark.parametrize(("fidelity", "phases"), [("LoFi", 1), ("HiFi2", 2), ("HiFi3", 3), ("HiFi4", 4)])
def test_a_convolution_counts_all_cores_of_the_card(fidelity: str, phases: int) -> None:
    step = only(conv_steps(56, 64, 128, fidelity=fidelity), "Conv2d")
    cost = kernel_cost(step, N150)
    assert cost.pm_compute_ns == ceil(2 * 64 * 9 * 56 * 56 * 128 / (64 * 4096) * phases)
    assert step.program.fidelity.name == fidelity


def test_weights_in_dram_count_without_their_exponents() -> None:
    cost = kernel_cost(only(conv_steps(56, 64, 128), "Conv2d"), N150)
    assert cost.pm_bandwidth_ns == pytest.approx(576 * 128 / 258 / 2**30 * 1e9)
    assert cost.pm_ideal_ns == max(cost.pm_compute_ns, cost.pm_bandwidth_ns)


def test_a_blackhole_has_its_clock_and_cores() -> None:
    cost = kernel_cost(only(conv_steps(112, card="p150"), "Conv2d"), P150)
    assert cost.pm_compute_ns == ceil(ceil(2 * 64 * 9 * 112 * 112 * 64 / (110 * 4096)) / 1.35)


def test_a_matmul_counts_its_logical_inner_dimension() -> None:
    cost = kernel_cost(only(conv_steps(56, 64, 128, 1, fidelity="HiFi2"), "Matmul"), N150)
    assert cost.pm_compute_ns == ceil(2 * 56 * 56 * 128 * 64 / (64 * 4096) * 2)


def test_a_pool_counts_its_own_cores() -> None:
    device = PlanOnlyCard()
    x = ttnn.from_torch(torch.zeros(1, 1, 56 * 56, 64), dtype=ttnn.bfloat16, device=device)
    steps = steps_of(device, lambda: ttnn.max_pool2d(x, 1, 56, 56, 64, [3, 3], [2, 2], [1, 1], [1, 1]))
    step = only(steps, "Pool2D")
    cost = kernel_cost(step, N150)
    assert cost.pm_compute_ns == ceil(9 * 28 * 28 * 64 / (step.cores.num_cores() * 2048))


def test_sharded_to_interleaved_by_the_measured_rates() -> None:
    """128 tiles of 2048 B. 512 GB/s of the network feed 18 readers of 29.742 GB/s, 8 tiles each: reading takes
    551 + 259 cycles, writing at 27.811 GB/s 590 + 256."""
    assert _to_interleaved(ttnn.L1_MEMORY_CONFIG).pm_compute_ns == 590 + 256


def test_sharded_to_dram() -> None:
    """DRAM's 265 GB/s feed 10 writers at 28.411 GB/s, 13 tiles each: 938 + 358 cycles of writing; the same 13 tiles are
    read from L1 at 29.742 GB/s in fewer."""
    cost = _to_interleaved(ttnn.DRAM_MEMORY_CONFIG)
    assert cost.pm_compute_ns == ceil(13 * 2048 / 28.411) + 358
    assert cost.pm_bandwidth_ns == pytest.approx(2048 * 64 * 2 / 258 / 2**30 * 1e9)


def _to_interleaved(config: object) -> KernelCost:
    device = PlanOnlyCard()
    shards = ttnn.create_sharded_memory_config((1, 1, 2048, 64), ttnn.CoreGrid(x=8, y=8), ttnn.ShardStrategy.HEIGHT)
    x = ttnn.from_torch(
        torch.zeros(1, 1, 2048, 64),
        dtype=ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=device,
        memory_config=shards,
    )
    steps = steps_of(device, lambda: ttnn.sharded_to_interleaved(x, config))
    return kernel_cost(only(steps, "ShardedToInterleaved"), N150)


def test_ops_without_a_model_get_one_cycle() -> None:
    cost = kernel_cost(only(conv_steps(), "Halo"), N150)
    assert (cost.pm_ideal_ns, cost.pm_compute_ns, cost.pm_bandwidth_ns) == (1, 1, 1)


def test_utilisation_is_adjusted_by_the_cores_that_work() -> None:
    step = only(conv_steps(20, 256, 256), "Conv2d")
    cost = kernel_cost(step, N150)
    cores = step.cores.num_cores()
    assert cores < 64
    assert cost.adjusted_utilisation(64, cores) == pytest.approx(cost.pm_ideal_ns / cost.ns * 64 / cores)
    assert cost.fpu_utilisation == pytest.approx(cost.pm_compute_ns / cost.ns)
