# SPDX-License-Identifier: Apache-2.0
"""Calls that could be one, and ops on a few cores of their own choice: planted, found, applied, faster as predicted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.reports.planted import found, image, profiled
from tests.reports.test_findings import convolution, sharding
from tt_cnn import ttnn
from tt_cnn.reports.findings import find
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.reports.records import Finding, Profile

RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)


def check(before: Profile, after: Profile, finding: Finding) -> None:
    gap = before.rows[-1].gap_ns
    less = before.device_ns - after.device_ns + gap * (len(before.rows) - len(after.rows))
    assert finding.saves_ns > 0 and finding.saves_ns == pytest.approx(less, rel=0.05)


def test_a_relu_after_a_sum(card: PlanningCard) -> None:
    sharded = sharding(4096, 256)

    def planted(x: Any) -> Any:
        total = ttnn.add(x, x, memory_config=sharded)
        return ttnn.relu(total)

    def advised(x: Any) -> Any:
        return ttnn.add(x, x, memory_config=sharded, activations=[RELU])

    before = profiled(card, lambda: image(card, 4096, 256, sharded), planted)
    after = profiled(card, lambda: image(card, 4096, 256, sharded), advised)
    finding = found(before, "activation")
    check(before, after, finding)
    assert "is followed by a ttnn.relu of its own; let ttnn.add apply it (activations=[ttnn.UnaryOpType.RELU])" in str(
        finding
    )
    assert "activation" not in [one.kind for one in find(after, least_ns=1.0)]


def test_a_relu_after_a_convolution(card: PlanningCard) -> None:
    run = convolution(card, 64, 64)
    before = profiled(card, lambda: image(card, 4096, 64), lambda x: ttnn.relu(run(x)))
    after = profiled(card, lambda: image(card, 4096, 64), convolution(card, 64, 64, activation=RELU))
    check(before, after, found(before, "activation"))


def test_a_sum_that_is_read_twice_keeps_its_relu_apart(card: PlanningCard) -> None:
    def program(x: Any) -> Any:
        total = ttnn.add(x, x)
        return ttnn.relu(total), ttnn.multiply(total, total)

    profile = profiled(card, lambda: image(card, 4096, 64), program)
    assert "activation" not in [one.kind for one in find(profile, least_ns=1.0)]


@pytest.mark.parametrize(("side", "channels", "cores"), [(7, 512, 2), (7, 2048, 2), (14, 256, 7)])
def test_an_average_of_a_whole_image(card: PlanningCard, side: int, channels: int, cores: int) -> None:
    sharded = ttnn.create_sharded_memory_config(
        (1, 1, 32 * cores, channels), core_grid=ttnn.CoreGrid(x=cores, y=1), strategy=ttnn.ShardStrategy.HEIGHT
    )

    def planted(x: Any) -> Any:
        images = ttnn.reshape(ttnn.sharded_to_interleaved(x), (1, side, side, channels))
        return ttnn.global_avg_pool2d(images)

    def advised(x: Any) -> Any:
        inside = ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
        return ttnn.mean(inside, 2, keepdim=True, memory_config=ttnn.DRAM_MEMORY_CONFIG)

    before = profiled(card, lambda: image(card, side * side, channels, sharded), planted)
    after = profiled(card, lambda: image(card, side * side, channels, sharded), advised)
    finding = found(before, "average")
    check(before, after, finding)
    assert finding.change == {"as_mean": True}


def test_a_fold_on_four_cores(card: PlanningCard) -> None:
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(2, 0))})
    spec = ttnn.ShardSpec(cores, [224, 224], ttnn.ShardOrientation.ROW_MAJOR)
    planes = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)

    def folded(**options: Any) -> Profile:
        def make() -> Any:
            return ttnn.from_torch(torch.zeros(1, 3, 224, 224), ttnn.bfloat16, device=card, memory_config=planes)

        padding = [3, 3, 3, 3, 0, 1]
        return profiled(
            card, make, lambda x: ttnn.fold(x, 2, 2, use_transpose_as_fold=True, padding=padding, **options)
        )

    before = folded()
    finding = found(before, "few cores")
    assert "runs on 4 of 64 cores: those of its grid_size; set grid_size to 8x8 cores" in str(finding)
    check(before, folded(**finding.change), finding)
