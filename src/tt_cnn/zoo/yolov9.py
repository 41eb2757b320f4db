# SPDX-License-Identifier: Apache-2.0
"""YOLOv9: GELAN, layers aggregated over partial blocks; its second branch is for training and not here.

After the paper, in the form for inference: the two kernels of a reparameterised convolution are one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.yolov5 import Conv
from tt_cnn.zoo.yolov8 import BINS, Detect

PAPER = "Wang, Yeh, Liao 2024"


class RepBottleneck(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cv1 = Conv(channels, channels, 3)
        self.cv2 = Conv(channels, channels, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.cv2(self.cv1(x))


class RepCSP(nn.Module):
    def __init__(self, inputs: int, outputs: int, count: int) -> None:
        super().__init__()
        half = outputs // 2
        self.cv1 = Conv(inputs, half, 1)
        self.cv2 = Conv(inputs, half, 1)
        self.cv3 = Conv(2 * half, outputs, 1)
        self.m = nn.Sequential(*(RepBottleneck(half) for _ in range(count)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


class ELAN(nn.Module):
    """`count` bottlenecks in each of two steps; with none, a step is one 3x3 convolution."""

    def __init__(self, inputs: int, outputs: int, inner: int, step: int, count: int = 0) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, inner, 1)
        self.cv2 = self._step(inner // 2, step, count)
        self.cv3 = self._step(step, step, count)
        self.cv4 = Conv(inner + 2 * step, outputs, 1)

    @staticmethod
    def _step(inputs: int, outputs: int, count: int) -> nn.Module:
        if not count:
            return Conv(inputs, outputs, 3)
        return nn.Sequential(RepCSP(inputs, outputs, count), Conv(outputs, outputs, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.cv1(x).chunk(2, 1)
        third = self.cv2(second)
        return self.cv4(torch.cat((first, second, third, self.cv3(third)), 1))


class AConv(nn.Module):
    """An average of neighbours, then a convolution with a stride."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, outputs, 3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cv1(F.avg_pool2d(x, 2, 1, 0, False, True))


class ADown(nn.Module):
    """An average of neighbours, then a convolution of one half and maxima of the other."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cv1 = Conv(channels // 2, channels // 2, 3, 2)
        self.cv2 = Conv(channels // 2, channels // 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = F.avg_pool2d(x, 2, 1, 0, False, True).chunk(2, 1)
        return torch.cat((self.cv1(first), self.cv2(F.max_pool2d(second, 3, 2, 1))), 1)


class SPPELAN(nn.Module):
    def __init__(self, inputs: int, outputs: int, inner: int) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, inner, 1)
        self.pools = nn.ModuleList(nn.MaxPool2d(kernel_size=5, stride=1, padding=2) for _ in range(3))
        self.cv5 = Conv(4 * inner, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = [self.cv1(x)]
        for pool in self.pools:
            y.append(pool(y[-1]))
        return self.cv5(torch.cat(y, 1))


class GroupedConv(nn.Module):
    """3x3 in four groups, one for each side of a box."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, 1, 1, groups=4, bias=False)
        self.bn = nn.BatchNorm2d(channels, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.bn(self.conv(x)))


class _GELAN(nn.Module):
    """The way through the stages, which those that follow make."""

    conv0: nn.Module
    conv1: nn.Module
    elan2: nn.Module
    down3: nn.Module
    elan4: nn.Module
    down5: nn.Module
    elan6: nn.Module
    down7: nn.Module
    elan8: nn.Module
    spp: nn.Module
    elan12: nn.Module
    elan15: nn.Module
    down16: nn.Module
    elan18: nn.Module
    down19: nn.Module
    elan21: nn.Module
    detect: nn.Module

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.elan2(self.conv1(self.conv0(x)))
        p3 = self.elan4(self.down3(x))
        p4 = self.elan6(self.down5(p3))
        p5 = self.spp(self.elan8(self.down7(p4)))
        middle = self.elan12(torch.cat([F.interpolate(p5, scale_factor=2.0, mode="nearest"), p4], 1))
        small = self.elan15(torch.cat([F.interpolate(middle, scale_factor=2.0, mode="nearest"), p3], 1))
        medium = self.elan18(torch.cat([self.down16(small), middle], 1))
        large = self.elan21(torch.cat([self.down19(medium), p5], 1))
        found: tuple[torch.Tensor, torch.Tensor] = self.detect([small, medium, large])
        return found


def _detect(outputs: tuple[int, ...], head: int, classes: int) -> Detect:
    return Detect(
        [nn.Sequential(Conv(c, 64, 3), GroupedConv(64), nn.Conv2d(64, 4 * BINS, 1, groups=4)) for c in outputs],
        [nn.Sequential(Conv(c, head, 3), Conv(head, head, 3), nn.Conv2d(head, classes, 1)) for c in outputs],
        classes,
    )


class GELAN(_GELAN):
    def __init__(self, widths: tuple[int, int, int, int, int], head: int, classes: int = 80) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = widths
        self.conv0 = Conv(3, w1, 3, 2)
        self.conv1 = Conv(w1, w2, 3, 2)
        self.elan2 = ELAN(w2, w2, w2, w2 // 2)
        self.down3 = AConv(w2, w3)
        self.elan4 = self._elan(w3, w3)
        self.down5 = AConv(w3, w4)
        self.elan6 = self._elan(w4, w4)
        self.down7 = AConv(w4, w5)
        self.elan8 = self._elan(w5, w5)
        self.spp = SPPELAN(w5, w5, w5 // 2)
        self.elan12 = self._elan(w5 + w4, w4)
        self.elan15 = self._elan(w4 + w3, w3)
        self.down16 = AConv(w3, w4 // 2)
        self.elan18 = self._elan(w4 // 2 + w4, w4)
        self.down19 = AConv(w4, w5 // 2)
        self.elan21 = self._elan(w5 // 2 + w5, w5)
        self.detect = _detect((w3, w4, w5), head, classes)

    @staticmethod
    def _elan(inputs: int, outputs: int) -> ELAN:
        return ELAN(inputs, outputs, outputs, outputs // 2, count=3)


class GELANc(_GELAN):
    """The compact one of the paper's tables: wide, with one bottleneck in each step."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.conv0 = Conv(3, 64, 3, 2)
        self.conv1 = Conv(64, 128, 3, 2)
        self.elan2 = ELAN(128, 256, 128, 64, count=1)
        self.down3 = ADown(256)
        self.elan4 = ELAN(256, 512, 256, 128, count=1)
        self.down5 = ADown(512)
        self.elan6 = self._elan(512)
        self.down7 = ADown(512)
        self.elan8 = self._elan(512)
        self.spp = SPPELAN(512, 512, 256)
        self.elan12 = self._elan(1024)
        self.elan15 = ELAN(1024, 256, 256, 128, count=1)
        self.down16 = ADown(256)
        self.elan18 = self._elan(256 + 512)
        self.down19 = ADown(512)
        self.elan21 = self._elan(1024)
        self.detect = _detect((256, 512, 512), 256, classes)

    @staticmethod
    def _elan(inputs: int) -> ELAN:
        return ELAN(inputs, 512, 512, 256, count=1)


@register_architecture(
    "YOLOv9-t, for inference",
    PAPER,
    task="detection",
    licence="GPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("distances", "scores"),
    parameters=2.0,
    gmacs=3.85,
    unit_range=True,
    residuals=("elan*.m.*.cv2.bn",),
    norm_shift=2.0,
)
def yolov9t() -> nn.Module:
    return GELAN((16, 32, 64, 96, 128), 80)


@register_architecture(
    "YOLOv9-s, for inference",
    PAPER,
    task="detection",
    licence="GPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("distances", "scores"),
    parameters=7.1,
    gmacs=13.2,
    unit_range=True,
    residuals=("elan*.m.*.cv2.bn",),
    norm_shift=2.0,
)
def yolov9s() -> nn.Module:
    return GELAN((32, 64, 128, 192, 256), 128)


@register_architecture(
    "YOLOv9-c, for inference",
    PAPER,
    task="detection",
    licence="GPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("distances", "scores"),
    parameters=25.3,
    gmacs=51.05,
    unit_range=True,
    residuals=("elan*.m.*.cv2.bn",),
    norm_shift=2.0,
)
def yolov9c() -> nn.Module:
    return GELANc()
