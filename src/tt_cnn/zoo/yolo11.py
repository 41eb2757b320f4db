# SPDX-License-Identifier: Apache-2.0
"""YOLO11: smaller blocks inside the C2f, attention behind the pyramid of maxima, a light branch of classes.

After its published description.
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.yolov5 import SPPF, Conv
from tt_cnn.zoo.yolov8 import Bottleneck, C2f, Detect, box_branch
from tt_cnn.zoo.yolov10 import PSA, light_branch


class C3k(nn.Module):
    """A cross-stage partial block whose bottlenecks have 3x3 kernels only."""

    def __init__(self, channels: int, count: int = 2) -> None:
        super().__init__()
        half = channels // 2
        self.cv1 = Conv(channels, half, 1)
        self.cv2 = Conv(channels, half, 1)
        self.cv3 = Conv(2 * half, channels, 1)
        self.m = nn.Sequential(*(Bottleneck(half, half, half, True) for _ in range(count)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


def c3k2(inputs: int, outputs: int, nested: bool, ratio: float = 0.5) -> C2f:
    half = int(outputs * ratio)
    return C2f(inputs, outputs, half, [C3k(half) if nested else Bottleneck(half, half // 2, half, True)])


class YOLO11N(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.conv0 = Conv(3, 16, 3, 2)
        self.conv1 = Conv(16, 32, 3, 2)
        self.c3k2_2 = c3k2(32, 64, False, 0.25)
        self.conv3 = Conv(64, 64, 3, 2)
        self.c3k2_4 = c3k2(64, 128, False, 0.25)
        self.conv5 = Conv(128, 128, 3, 2)
        self.c3k2_6 = c3k2(128, 128, True)
        self.conv7 = Conv(128, 256, 3, 2)
        self.c3k2_8 = c3k2(256, 256, True)
        self.sppf = SPPF(256)
        self.psa = PSA(256)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.c3k2_13 = c3k2(256 + 128, 128, False)
        self.c3k2_16 = c3k2(128 + 128, 64, False)
        self.conv17 = Conv(64, 64, 3, 2)
        self.c3k2_19 = c3k2(64 + 128, 128, False)
        self.conv20 = Conv(128, 128, 3, 2)
        self.c3k2_22 = c3k2(128 + 256, 256, True)
        widths = (64, 128, 256)
        self.detect = Detect(
            [box_branch(channels, 64) for channels in widths],
            [light_branch(channels, 80, classes) for channels in widths],
            classes,
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.c3k2_2(self.conv1(self.conv0(x)))
        p3 = self.c3k2_4(self.conv3(x))
        p4 = self.c3k2_6(self.conv5(p3))
        p5 = self.psa(self.sppf(self.c3k2_8(self.conv7(p4))))
        middle = self.c3k2_13(torch.cat([self.upsample(p5), p4], 1))
        small = self.c3k2_16(torch.cat([self.upsample(middle), p3], 1))
        medium = self.c3k2_19(torch.cat([self.conv17(small), middle], 1))
        large = self.c3k2_22(torch.cat([self.conv20(medium), p5], 1))
        return self.detect([small, medium, large])


@register_architecture(
    "YOLO11n",
    "Jocher, Qiu 2024",
    task="detection",
    licence="AGPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("distances", "scores"),
    parameters=2.62,
    gmacs=3.25,
    unit_range=True,
    residuals=("c3k2_*.m.*.cv2.bn", "psa.*.attn.proj.bn", "psa.*.ffn.1.bn"),
    norm_shift=1.5,
)
def yolo11n() -> nn.Module:
    return YOLO11N()
