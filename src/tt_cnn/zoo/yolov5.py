# SPDX-License-Identifier: Apache-2.0
"""YOLOv5: cross-stage partial blocks, a fast pyramid of maxima, a neck up and down. After its published description.

Outputs are the maps of the heads, (N, anchors, H / stride, W / stride, 5 + classes).
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

ANCHORS = 3


class Conv(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, padding: int | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 if padding is None else padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, channels: int, shortcut: bool) -> None:
        super().__init__()
        self.cv1 = Conv(channels, channels, 1)
        self.cv2 = Conv(channels, channels, 3)
        self.add = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.cv2(self.cv1(x)) if self.add else self.cv2(self.cv1(x))


class C3(nn.Module):
    """Bottlenecks on one half, the other half passes by (CSPNet: Wang, Liao, Wu, Chen, Hsieh, Yeh 2019)."""

    def __init__(self, inputs: int, outputs: int, count: int, shortcut: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.cv1 = Conv(inputs, half, 1)
        self.cv2 = Conv(inputs, half, 1)
        self.cv3 = Conv(2 * half, outputs, 1)
        self.m = nn.Sequential(*(Bottleneck(half, shortcut) for _ in range(count)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


class SPPF(nn.Module):
    """Maxima over 5, 9 and 13 pixels, as three of 5 in a row."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.cv1 = Conv(channels, half, 1)
        self.cv2 = Conv(4 * half, channels, 1)
        self.m = nn.MaxPool2d(kernel_size=5, stride=1, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.cv1(x)
        y1 = self.m(x)
        y2 = self.m(y1)
        return self.cv2(torch.cat((x, y1, y2, self.m(y2)), 1))


class Detect(nn.Module):
    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.no = 5 + classes
        self.m = nn.ModuleList(nn.Conv2d(channels, ANCHORS * self.no, 1) for channels in inputs)

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        outputs = []
        for conv, x in zip(self.m, maps, strict=True):
            x = conv(x)
            batch, _, height, width = x.shape
            outputs.append(x.view(batch, ANCHORS, self.no, height, width).permute(0, 1, 3, 4, 2).contiguous())
        return tuple(outputs)


class YOLOv5(nn.Module):
    """`width` is the number of channels behind the first convolution; `depth` multiplies the bottlenecks."""

    def __init__(self, width: int, depth: float, classes: int = 80) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = (width * 2**power for power in range(5))
        few, some, many = (max(round(count * depth), 1) for count in (3, 6, 9))
        self.conv0 = Conv(3, w1, 6, 2, 2)
        self.conv1 = Conv(w1, w2, 3, 2)
        self.c3_2 = C3(w2, w2, few)
        self.conv3 = Conv(w2, w3, 3, 2)
        self.c3_4 = C3(w3, w3, some)
        self.conv5 = Conv(w3, w4, 3, 2)
        self.c3_6 = C3(w4, w4, many)
        self.conv7 = Conv(w4, w5, 3, 2)
        self.c3_8 = C3(w5, w5, few)
        self.sppf = SPPF(w5)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.conv10 = Conv(w5, w4, 1)
        self.c3_13 = C3(2 * w4, w4, few, shortcut=False)
        self.conv14 = Conv(w4, w3, 1)
        self.c3_17 = C3(2 * w3, w3, few, shortcut=False)
        self.conv18 = Conv(w3, w3, 3, 2)
        self.c3_20 = C3(2 * w3, w4, few, shortcut=False)
        self.conv21 = Conv(w4, w4, 3, 2)
        self.c3_23 = C3(2 * w4, w5, few, shortcut=False)
        self.detect = Detect((w3, w4, w5), classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.c3_2(self.conv1(self.conv0(x)))
        p3 = self.c3_4(self.conv3(x))
        p4 = self.c3_6(self.conv5(p3))
        p5 = self.sppf(self.c3_8(self.conv7(p4)))
        top = self.conv10(p5)
        x = self.c3_13(torch.cat([self.upsample(top), p4], 1))
        middle = self.conv14(x)
        small = self.c3_17(torch.cat([self.upsample(middle), p3], 1))
        medium = self.c3_20(torch.cat([self.conv18(small), middle], 1))
        large = self.c3_23(torch.cat([self.conv21(medium), top], 1))
        return self.detect([small, medium, large])


@register_architecture(
    "YOLOv5s",
    "Jocher 2020",
    task="detection",
    licence="AGPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("small", "medium", "large"),
    parameters=7.235,
    gmacs=8.25,
    unit_range=True,
    norm_shift=1.5,
    residuals=("c3_[2468].m.*.cv2.bn",),
)
def yolov5s() -> nn.Module:
    return YOLOv5(32, 1 / 3)


@register_architecture(
    "YOLOv5x",
    "Jocher 2020",
    task="detection",
    licence="AGPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("small", "medium", "large"),
    parameters=86.7,
    gmacs=102.9,
    unit_range=True,
    norm_shift=1.5,
    residuals=("c3_[2468].m.*.cv2.bn",),
)
def yolov5x() -> nn.Module:
    return YOLOv5(80, 4 / 3)
