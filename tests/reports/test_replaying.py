# SPDX-License-Identifier: Apache-2.0
"""Whole programs planned again: unchanged they are what they were, changed what the card makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reports.planted import found, image, profiled
from tests.reports.test_findings import convolution
from tt_cnn import ttnn
from tt_cnn.reports.findings import find
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.reports.records import Profile
from tt_cnn.reports.replanning import Replanner
from tt_cnn.reports.replaying import replayed

MODELS = [
    ("vanilla_unet", "n150"),
    ("resnet50", "p150"),
    ("yolov4", "n150"),
    ("mobilenetv2", "n150"),
    ("yolov8s", "n150"),
]


@pytest.mark.parametrize(("name", "card"), MODELS)
def test_an_unchanged_program_is_planned_as_it_was(name: str, card: str, profile_of: Callable[..., Profile]) -> None:
    profile = profile_of(name, card=card)
    again = replayed(Replanner(profile), lambda number, call: {})
    assert again is not None
    assert [step.program_key for step in again.steps] == [row.step.program_key for row in profile.rows if row.step]
    assert again.kernel_ns == pytest.approx(profile.device_ns)


def in_memory(card: PlanningCard, config: Any, side: int = 64) -> Callable[[Any], Any]:
    """A small network of skips and concats that leaves its tensors in the given memory."""
    first, second = convolution(card, side, 64), convolution(card, side, 128, 64)

    def run(x: Any) -> Any:
        skip = ttnn.relu(x, memory_config=config)
        y = ttnn.to_memory_config(first(skip), config)
        joined = ttnn.concat([y, skip], 3, memory_config=config)
        z = ttnn.to_memory_config(second(joined), config)
        total = ttnn.add(z, y, memory_config=config)
        return ttnn.relu(total, memory_config=ttnn.DRAM_MEMORY_CONFIG)

    return run


def test_a_program_in_dram_that_fits_l1(card: PlanningCard) -> None:
    def make() -> Any:
        return image(card, 4096, 64, ttnn.DRAM_MEMORY_CONFIG)

    before = profiled(card, make, in_memory(card, ttnn.DRAM_MEMORY_CONFIG))
    after = profiled(card, make, in_memory(card, ttnn.L1_MEMORY_CONFIG))
    finding = found(before, "DRAM")
    assert "leave in DRAM what L1 has room for; set memory_config=ttnn.L1_MEMORY_CONFIG" in str(finding)
    gap = before.rows[1].gap_ns
    less = before.device_ns - after.device_ns + gap * (len(before.rows) - len(after.rows))
    assert finding.saves_ns == pytest.approx(less, rel=0.05)
    assert "DRAM" not in [one.kind for one in find(after, least_ns=1.0)]


def test_of_a_program_that_does_not_fit_the_smaller_tensors_are_moved(card: PlanningCard) -> None:
    def run(x: Any) -> Any:
        small, large = (
            ttnn.slice(x, [0, 0, 0, 0], [1, 1, 4096, 64]),
            ttnn.relu(x, memory_config=ttnn.DRAM_MEMORY_CONFIG),
        )
        y = ttnn.relu(small, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        z = ttnn.relu(y, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        other = ttnn.relu(large, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        return ttnn.relu(z, memory_config=ttnn.DRAM_MEMORY_CONFIG), ttnn.relu(
            other, memory_config=ttnn.DRAM_MEMORY_CONFIG
        )

    before = profiled(card, lambda: image(card, 1 << 20, 64, ttnn.DRAM_MEMORY_CONFIG), run)
    finding = found(before, "DRAM")
    moved = {tuple(before.rows[row].outputs[0].shape) for row in finding.rows}
    assert moved == {(1, 1, 4096, 64)}
