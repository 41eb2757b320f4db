# SPDX-License-Identifier: Apache-2.0
"""YOLOv7-tiny: layers aggregated over paths of several lengths (ELAN), leaky ReLU. After the paper.

Outputs are the maps of the heads, (N, anchors * (5 + classes), H / stride, W / stride).
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Wang, Bochkovskiy, Liao 2022"
ANCHORS = 3


class Conv(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.act = nn.LeakyReLU(0.1, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class ELAN(nn.Module):
    """Two 1x1 on the input, two 3x3 in a row behind the second; all four concatenated."""

    def __init__(self, inputs: int, inner: int, outputs: int) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, inner)
        self.cv2 = Conv(inputs, inner)
        self.cv3 = Conv(inner, inner, 3)
        self.cv4 = Conv(inner, inner, 3)
        self.cv5 = Conv(4 * inner, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        passing, y = self.cv1(x), self.cv2(x)
        y1 = self.cv3(y)
        y2 = self.cv4(y1)
        return self.cv5(torch.cat((y2, y1, y, passing), 1))


class SPPCSPC(nn.Module):
    """A pyramid of maxima on one half of the channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, outputs)
        self.cv2 = Conv(inputs, outputs)
        self.pools = nn.ModuleList(nn.MaxPool2d(kernel_size=k, stride=1, padding=k // 2) for k in (5, 9, 13))
        self.cv3 = Conv(4 * outputs, outputs)
        self.cv4 = Conv(2 * outputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.cv2(x)
        y = self.cv3(torch.cat([*(pool(y) for pool in reversed(self.pools)), y], 1))
        return self.cv4(torch.cat([y, self.cv1(x)], 1))


class YOLOv7Tiny(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        outputs = ANCHORS * (5 + classes)
        self.stem = nn.Sequential(Conv(3, 32, 3, 2), Conv(32, 64, 3, 2), ELAN(64, 32, 64))
        self.stage3 = nn.Sequential(nn.MaxPool2d(2, 2), ELAN(64, 64, 128))
        self.stage4 = nn.Sequential(nn.MaxPool2d(2, 2), ELAN(128, 128, 256))
        self.stage5 = nn.Sequential(nn.MaxPool2d(2, 2), ELAN(256, 256, 512))
        self.spp = SPPCSPC(512, 256)
        self.up5 = nn.Sequential(Conv(256, 128), nn.Upsample(scale_factor=2, mode="nearest"))
        self.route4 = Conv(256, 128)
        self.elan_up4 = ELAN(256, 64, 128)
        self.up4 = nn.Sequential(Conv(128, 64), nn.Upsample(scale_factor=2, mode="nearest"))
        self.route3 = Conv(128, 64)
        self.elan_up3 = ELAN(128, 32, 64)
        self.down3 = Conv(64, 128, 3, 2)
        self.elan_down4 = ELAN(256, 64, 128)
        self.down4 = Conv(128, 256, 3, 2)
        self.elan_down5 = ELAN(512, 128, 256)
        self.heads = nn.ModuleList(
            nn.Sequential(Conv(width, 2 * width, 3), nn.Conv2d(2 * width, outputs, 1)) for width in (64, 128, 256)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        c3 = self.stage3(self.stem(x))
        c4 = self.stage4(c3)
        top = self.spp(self.stage5(c4))
        middle = self.elan_up4(torch.cat([self.route4(c4), self.up5(top)], 1))
        small = self.elan_up3(torch.cat([self.route3(c3), self.up4(middle)], 1))
        medium = self.elan_down4(torch.cat([self.down3(small), middle], 1))
        large = self.elan_down5(torch.cat([self.down4(medium), top], 1))
        return tuple(head(y) for head, y in zip(self.heads, (small, medium, large), strict=True))


@register_architecture(
    "YOLOv7-tiny",
    PAPER,
    task="detection",
    licence="GPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("small", "medium", "large"),
    parameters=6.22,
    gmacs=6.87,
    unit_range=True,
    norm_shift=2.0,
)
def yolov7_tiny() -> nn.Module:
    return YOLOv7Tiny()
