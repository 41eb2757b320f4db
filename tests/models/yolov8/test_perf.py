# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: the device's predicted throughput, and a pipeline from host to host on this machine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.performance import check_device_performance, check_end_to_end_performance


def test_device_performance(yolov8s: Any) -> None:
    check_device_performance("yolov8s", yolov8s)


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, yolov8s: Any) -> None:
    check_end_to_end_performance("yolov8s", yolov8s, executor)
