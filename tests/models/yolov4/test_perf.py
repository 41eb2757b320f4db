# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: the device's predicted throughput, and a pipeline from host to host on this machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models.performance import check_device_performance, check_end_to_end_performance
from tests.models.yolov4.modules import FULL
from tt_cnn.models.yolov4.reference.model import YOLOv4

PUBLISHED_FPS = 197
"""Of tt-metal's model at 320x320 on an n150."""


def test_device_performance(reference_by_width: Callable[[float], YOLOv4]) -> None:
    check_device_performance("yolov4", reference_by_width(FULL), published_fps=PUBLISHED_FPS)


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, reference_by_width: Callable[[float], YOLOv4]) -> None:
    check_end_to_end_performance("yolov4", reference_by_width(FULL), executor)
