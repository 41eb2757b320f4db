# SPDX-License-Identifier: Apache-2.0
"""YOLOv8: a backbone of cross-stage parts, a neck that goes up and down again, a head with one branch for boxes and one
for classes at each of three strides. One definition for all scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import interpolate

from tt_cnn.models.yolov8.reference.boxes import BINS, SIDES, decode

Maps = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""One map for each stride: 8, 16, 32."""


@dataclass(frozen=True)
class Scale:
    """What the letter after the name stands for."""

    depth: float
    width: float
    max_channels: int

    def channels(self, full: int) -> int:
        """Scaled, a multiple of 8 at least as large."""
        return -int(-min(full, self.max_channels) * self.width // 8) * 8

    def blocks(self, full: int) -> int:
        return max(round(full * self.depth), 1)


SCALES = {"s": Scale(0.33, 0.5, 1024), "x": Scale(1.0, 1.25, 512)}


class YOLOv8(nn.Module):
    """Images (N, 3, H, W) to predictions (N, 4 + classes, boxes); H and W multiples of 32. See `boxes.decode`."""

    calibration_size = 640
    """Statistics of smaller images, a little off in each of fifty layers, would let the last activations explode."""
    norm_shift = 1.5
    """For seeded weights: see `initialization`."""

    def __init__(self, scale: str = "x", classes: int = 80) -> None:
        super().__init__()
        self.scale = scale
        self.classes = classes
        self.backbone = Backbone(SCALES[scale])
        self.neck = Neck(SCALES[scale])
        self.head = Head(SCALES[scale], classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return decode(self.maps(images))

    def maps(self, images: torch.Tensor) -> Maps:
        """What the head gives, (N, 4 * 16 + classes, H / stride, W / stride) each: logits of distances and classes."""
        return self.head(*self.neck(*self.backbone(images)))


class ConvNormAct(nn.Module):
    """A convolution, its batch norm, SiLU; padded so that the stride alone decides the size."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


class Bottleneck(nn.Module):
    """Two 3x3 convolutions, added to their input where it is a residual one."""

    def __init__(self, channels: int, residual: bool) -> None:
        super().__init__()
        self.conv1 = ConvNormAct(channels, channels, 3)
        self.conv2 = ConvNormAct(channels, channels, 3)
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv2(self.conv1(x))
        return x + y if self.residual else y


class C2f(nn.Module):
    """A cross-stage part: half of the channels through bottlenecks, and every one's output beside both halves."""

    def __init__(self, inputs: int, outputs: int, blocks: int, residual: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.conv1 = ConvNormAct(inputs, 2 * half)
        self.blocks = nn.ModuleList(Bottleneck(half, residual) for _ in range(blocks))
        self.conv2 = ConvNormAct((2 + blocks) * half, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.conv1(x).chunk(2, dim=1)
        parts = [first, second]
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.conv2(torch.cat(parts, dim=1))


class SPPF(nn.Module):
    """Pyramid pooling, each pool on the one before: windows of 5, 9 and 13 beside the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = ConvNormAct(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)
        self.conv2 = ConvNormAct(4 * (channels // 2), channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.conv1(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.conv2(torch.cat(parts, dim=1))


class Stage(nn.Module):
    """Half the size, then a cross-stage part."""

    def __init__(self, inputs: int, outputs: int, blocks: int) -> None:
        super().__init__()
        self.down = ConvNormAct(inputs, outputs, 3, 2)
        self.c2f = C2f(outputs, outputs, blocks, residual=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c2f(self.down(x))


class Backbone(nn.Module):
    """Returns strides 8, 16, 32."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        c64, c128, c256, c512, c1024 = map(scale.channels, (64, 128, 256, 512, 1024))
        self.stem = ConvNormAct(3, c64, 3, 2)
        self.stage1 = Stage(c64, c128, scale.blocks(3))
        self.stage2 = Stage(c128, c256, scale.blocks(6))
        self.stage3 = Stage(c256, c512, scale.blocks(6))
        self.stage4 = Stage(c512, c1024, scale.blocks(3))
        self.sppf = SPPF(c1024)

    def forward(self, x: torch.Tensor) -> Maps:
        fine = self.stage2(self.stage1(self.stem(x)))
        middle = self.stage3(fine)
        return fine, middle, self.sppf(self.stage4(middle))


class Neck(nn.Module):
    """Up: each coarser map joins the finer one; then down: each finer one the coarser. Strides 8, 16, 32."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        c256, c512, c1024 = map(scale.channels, (256, 512, 1024))
        blocks = scale.blocks(3)
        self.up1 = C2f(c1024 + c512, c512, blocks, residual=False)
        self.up2 = C2f(c512 + c256, c256, blocks, residual=False)
        self.down1 = ConvNormAct(c256, c256, 3, 2)
        self.c2f1 = C2f(c256 + c512, c512, blocks, residual=False)
        self.down2 = ConvNormAct(c512, c512, 3, 2)
        self.c2f2 = C2f(c512 + c1024, c1024, blocks, residual=False)

    def forward(self, fine: torch.Tensor, middle: torch.Tensor, coarse: torch.Tensor) -> Maps:
        middle = self.up1(torch.cat((twice(coarse), middle), dim=1))
        fine = self.up2(torch.cat((twice(middle), fine), dim=1))
        middle = self.c2f1(torch.cat((self.down1(fine), middle), dim=1))
        coarse = self.c2f2(torch.cat((self.down2(middle), coarse), dim=1))
        return fine, middle, coarse


class Branch(nn.Module):
    """Two 3x3 convolutions, and a 1x1 that predicts."""

    def __init__(self, inputs: int, channels: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = ConvNormAct(inputs, channels, 3)
        self.conv2 = ConvNormAct(channels, channels, 3)
        self.conv3 = nn.Conv2d(channels, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv3(self.conv2(self.conv1(x)))


class Head(nn.Module):
    """For each stride one branch for the sides of boxes and one for classes; their maps side by side."""

    def __init__(self, scale: Scale, classes: int) -> None:
        super().__init__()
        inputs = [scale.channels(full) for full in (256, 512, 1024)]
        for_boxes = max(inputs[0] // 4, SIDES * BINS)
        for_classes = max(inputs[0], min(classes, 100))
        self.boxes = nn.ModuleList(Branch(each, for_boxes, SIDES * BINS) for each in inputs)
        self.classes = nn.ModuleList(Branch(each, for_classes, classes) for each in inputs)

    def forward(self, fine: torch.Tensor, middle: torch.Tensor, coarse: torch.Tensor) -> Maps:
        fine, middle, coarse = (
            torch.cat((box(x), classify(x)), dim=1)
            for box, classify, x in zip(self.boxes, self.classes, (fine, middle, coarse), strict=True)
        )
        return fine, middle, coarse


def twice(x: torch.Tensor) -> torch.Tensor:
    return interpolate(x, scale_factor=2, mode="nearest")
