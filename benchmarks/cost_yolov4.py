# SPDX-License-Identifier: Apache-2.0
"""YOLOv4 as tt-metal's demo runs it (November 2025), planned: what its published figures are figures of.

Its calls are those of `tests/virtual/networks/yolov4.py`, where they stand beside what the real library left after
each of them at 320x320. Activations are joined to convolutions: a hard Mish in the backbone, a leaky ReLU behind it.
TT-NN 0.81.1 does not join these two to the matmuls that 1x1 convolutions are; a hard sigmoid, which it does join and
which has as many instructions, stands for them there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).parents[1]))

from cost_recording import steps_of

from tests.virtual.networks.yolov4 import MISH, Conv, YOLOv4
from tt_cnn import ttnn
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.planning.plan import Step

_SLOPE = 0.1


class _Demo(YOLOv4):
    def activation(self, conv: Conv) -> Any:
        if conv.kernel == 1:
            return ttnn.UnaryWithParam(ttnn.UnaryOpType.HARDSIGMOID)
        if conv.activation == MISH:
            return ttnn.UnaryWithParam(ttnn.UnaryOpType.HARDMISH)
        return ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, _SLOPE)


def demo_steps(size: int) -> list[Step]:
    """Steps of a warm pass: weights are on the card."""
    device = PlanningCard("n150", l1_small_size=32768)
    demo = _Demo(ttnn, device, size)
    demo(demo.input())
    image = demo.input()
    with steps_of(device) as steps:
        demo(image)
    return steps
