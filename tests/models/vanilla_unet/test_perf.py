# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: the device's predicted throughput, and a pipeline from host to host on this machine."""

from __future__ import annotations

import pytest

from tests.models.performance import check_device_performance, check_end_to_end_performance
from tt_cnn.models.vanilla_unet.reference.model import UNet

PUBLISHED_FPS = 206
"""Of tt-metal's model on an n150."""


def test_device_performance(unet: UNet) -> None:
    check_device_performance("vanilla_unet", unet, published_fps=PUBLISHED_FPS)


@pytest.mark.long
@pytest.mark.parametrize("executor", ["trace+2cq", "trace+2cq+io"])
def test_end_to_end_performance(executor: str, unet: UNet) -> None:
    check_end_to_end_performance("vanilla_unet", unet, executor)
