# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: the device's predicted throughput, and a pipeline from host to host on this machine."""

from __future__ import annotations

import pytest

from tests.models.performance import check_device_performance, check_end_to_end_performance
from tt_cnn.models.resnet50.reference.model import ResNet50

PUBLISHED_FPS = 6335
"""Of tt-metal's model with a batch of 16 on an n150."""


@pytest.mark.parametrize(
    ("batch_size", "published_fps"), [(1, None), pytest.param(16, PUBLISHED_FPS, marks=pytest.mark.long)]
)
def test_device_performance(batch_size: int, published_fps: float | None, resnet50: ResNet50) -> None:
    check_device_performance("resnet50", resnet50, batch_size=batch_size, published_fps=published_fps)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, batch_size: int, resnet50: ResNet50) -> None:
    check_end_to_end_performance("resnet50", resnet50, executor, batch_size=batch_size, count=3)
