# SPDX-License-Identifier: Apache-2.0
"""YOLOv3 and its tiny form: Darknet's convolutions with leaky ReLU, three or two scales of anchors.

Outputs are the maps of the heads, (N, anchors * (5 + classes), H / stride, W / stride).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Redmon, Farhadi 2018"
LICENCE = "public domain"
ANCHORS = 3


class Convolutional(nn.Sequential):
    """Darknet's: convolution, batch norm, leaky ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.add_module("conv", nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False))
        self.add_module("bn", nn.BatchNorm2d(outputs))
        self.add_module("act", nn.LeakyReLU(0.1, inplace=True))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = Convolutional(channels, channels // 2, 1)
        self.conv2 = Convolutional(channels // 2, channels, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv2(self.conv1(x))


class Darknet53(nn.Module):
    """Maps at a stride of 8, 16 and 32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolutional(3, 32)
        self.layer1 = self._stage(32, 64, 1)
        self.layer2 = self._stage(64, 128, 2)
        self.layer3 = self._stage(128, 256, 8)
        self.layer4 = self._stage(256, 512, 8)
        self.layer5 = self._stage(512, 1024, 4)

    @staticmethod
    def _stage(inputs: int, outputs: int, count: int) -> nn.Sequential:
        return nn.Sequential(Convolutional(inputs, outputs, 3, 2), *(Residual(outputs) for _ in range(count)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.layer2(self.layer1(self.stem(x)))
        c3 = self.layer3(x)
        c4 = self.layer4(c3)
        return c3, c4, self.layer5(c4)


class DetectionBlock(nn.Module):
    """Five convolutions that the next scale reads too, and two that predict."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.shared = nn.Sequential(
            Convolutional(inputs, width, 1),
            Convolutional(width, 2 * width, 3),
            Convolutional(2 * width, width, 1),
            Convolutional(width, 2 * width, 3),
            Convolutional(2 * width, width, 1),
        )
        self.conv = Convolutional(width, 2 * width, 3)
        self.predict = nn.Conv2d(2 * width, outputs, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.shared(x)
        return x, self.predict(self.conv(x))


class YOLOv3(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        outputs = ANCHORS * (5 + classes)
        self.backbone = Darknet53()
        self.head5 = DetectionBlock(1024, 512, outputs)
        self.lateral4 = Convolutional(512, 256, 1)
        self.head4 = DetectionBlock(256 + 512, 256, outputs)
        self.lateral3 = Convolutional(256, 128, 1)
        self.head3 = DetectionBlock(128 + 256, 128, outputs)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        c3, c4, c5 = self.backbone(x)
        x, large = self.head5(c5)
        x = F.interpolate(self.lateral4(x), scale_factor=2, mode="nearest")
        x, medium = self.head4(torch.cat((x, c4), 1))
        x = F.interpolate(self.lateral3(x), scale_factor=2, mode="nearest")
        _, small = self.head3(torch.cat((x, c3), 1))
        return large, medium, small


class YOLOv3Tiny(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        outputs = ANCHORS * (5 + classes)
        layers: list[nn.Module] = []
        inputs = 3
        for width in (16, 32, 64, 128):
            layers += [Convolutional(inputs, width), nn.MaxPool2d(2, 2)]
            inputs = width
        self.early = nn.Sequential(*layers, Convolutional(128, 256))
        self.late = nn.Sequential(
            nn.MaxPool2d(2, 2),
            Convolutional(256, 512),
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.MaxPool2d(2, 1),
            Convolutional(512, 1024),
            Convolutional(1024, 256, 1),
        )
        self.head5 = nn.Sequential(Convolutional(256, 512), nn.Conv2d(512, outputs, 1))
        self.lateral = nn.Sequential(Convolutional(256, 128, 1), nn.Upsample(scale_factor=2, mode="nearest"))
        self.head4 = nn.Sequential(Convolutional(128 + 256, 256), nn.Conv2d(256, outputs, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        early = self.early(x)
        late = self.late(early)
        return self.head5(late), self.head4(torch.cat([self.lateral(late), early], 1))


@register_architecture(
    "YOLOv3",
    PAPER,
    task="detection",
    licence=LICENCE,
    input_shape=(3, 416, 416),
    outputs=("large", "medium", "small"),
    parameters=61.95,
    gmacs=32.9,
    unit_range=True,
    norm_shift=1.0,
    residuals=("backbone.layer*.conv2.bn",),
)
def yolov3() -> nn.Module:
    return YOLOv3()


@register_architecture(
    "YOLOv3-tiny",
    PAPER,
    task="detection",
    licence=LICENCE,
    input_shape=(3, 416, 416),
    outputs=("large", "medium"),
    parameters=8.86,
    gmacs=2.78,
    unit_range=True,
)
def yolov3_tiny() -> nn.Module:
    return YOLOv3Tiny()
