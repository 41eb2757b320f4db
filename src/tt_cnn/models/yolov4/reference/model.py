# SPDX-License-Identifier: Apache-2.0
"""YOLOv4 (Bochkovskiy, Wang, Liao 2020): five downsamplings with Mish, a neck with pyramid pooling, three heads."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import interpolate

from tt_cnn.models.yolov4.reference.boxes import ANCHORS, decode

Maps = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""One map for each stride: 8, 16, 32."""


class YOLOv4(nn.Module):
    """Images (N, 3, H, W) to boxes (N, boxes, 1, 4) and confidences (N, boxes, classes); H and W multiples of 32.

    `width` scales all channels, rounded up to multiples of 8.
    """

    norm_shift = 1.5
    """For seeded weights: without it, errors of bfloat16 grow over a hundred layers until little of a map is left."""

    def __init__(self, classes: int = 80, width: float = 1.0) -> None:
        super().__init__()
        self.classes = classes

        def wide(channels: int) -> int:
            return -int(-channels * width // 8) * 8

        self.down1 = Downsample1(wide)
        self.down2 = Downsample(wide(64), wide(128), wide(64), wide(128), blocks=2)
        self.down3 = Downsample(wide(128), wide(256), wide(128), wide(256), blocks=8)
        self.down4 = Downsample(wide(256), wide(512), wide(256), wide(512), blocks=8)
        self.down5 = Downsample(wide(512), wide(1024), wide(512), wide(1024), blocks=4)
        self.neck = Neck(wide)
        self.head = Head(wide, len(ANCHORS[0]) * (classes + 5))

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return decode(self.maps(images), self.classes)

    def maps(self, images: torch.Tensor) -> Maps:
        """What the heads give, (N, 3 * (5 + classes), H / stride, W / stride) each; the loss of training takes them."""
        third = self.down3(self.down2(self.down1(images)))
        fourth = self.down4(third)
        fifth = self.down5(fourth)
        return self.head(*self.neck(fifth, fourth, third))


class ConvNormAct(nn.Module):
    """A convolution, its batch norm, its activation; padded so that the stride alone decides the size."""

    def __init__(self, inputs: int, outputs: int, kernel: int, activation: Callable[[], nn.Module], stride: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.act = activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


def mish(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> ConvNormAct:
    return ConvNormAct(inputs, outputs, kernel, nn.Mish, stride)


def leaky(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> ConvNormAct:
    return ConvNormAct(inputs, outputs, kernel, lambda: nn.LeakyReLU(0.1, inplace=True), stride)


class Downsample1(nn.Module):
    """The first halving: its one residual block is narrower inside than the others'."""

    def __init__(self, wide: Callable[[int], int]) -> None:
        super().__init__()
        self.conv1 = mish(3, wide(32), 3)
        self.conv2 = mish(wide(32), wide(64), 3, 2)
        self.conv3 = mish(wide(64), wide(64))
        self.conv4 = mish(wide(64), wide(64))
        self.conv5 = mish(wide(64), wide(32))
        self.conv6 = mish(wide(32), wide(64), 3)
        self.conv7 = mish(wide(64), wide(64))
        self.conv8 = mish(2 * wide(64), wide(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv2(self.conv1(x))
        left = self.conv3(x)
        right = self.conv4(x)
        right = right + self.conv6(self.conv5(right))
        return self.conv8(torch.cat((self.conv7(right), left), dim=1))


class Residual(nn.Module):
    """Blocks of 1x1 and 3x3, each added to its input."""

    def __init__(self, channels: int, blocks: int) -> None:
        super().__init__()
        pairs = (nn.Sequential(mish(channels, channels), mish(channels, channels, 3)) for _ in range(blocks))
        self.blocks = nn.ModuleList(pairs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class Downsample(nn.Module):
    """Half the size; one branch as it is, one through residual blocks; both side by side (a cross-stage part)."""

    def __init__(self, inputs: int, channels: int, half: int, outputs: int, blocks: int) -> None:
        super().__init__()
        self.conv1 = mish(inputs, channels, 3, 2)
        self.conv2 = mish(channels, half)
        self.conv3 = mish(channels, half)
        self.resblock = Residual(half, blocks)
        self.conv4 = mish(half, half)
        self.conv5 = mish(2 * half, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x)
        left = self.conv2(x)
        right = self.conv4(self.resblock(self.conv3(x)))
        return self.conv5(torch.cat((right, left), dim=1))


class Neck(nn.Module):
    """Pyramid pooling at stride 32, then up: each coarser map joins the finer one. Returns strides 8, 16, 32."""

    def __init__(self, wide: Callable[[int], int]) -> None:
        super().__init__()
        c128, c256, c512, c1024 = wide(128), wide(256), wide(512), wide(1024)
        self.conv1 = leaky(c1024, c512)
        self.conv2 = leaky(c512, c1024, 3)
        self.conv3 = leaky(c1024, c512)
        self.pools = nn.ModuleList(nn.MaxPool2d(size, stride=1, padding=size // 2) for size in (13, 9, 5))
        self.conv4 = leaky(4 * c512, c512)
        self.conv5 = leaky(c512, c1024, 3)
        self.conv6 = leaky(c1024, c512)
        self.conv7 = leaky(c512, c256)
        self.conv8 = leaky(c512, c256)
        self.conv9 = leaky(2 * c256, c256)
        self.conv10 = leaky(c256, c512, 3)
        self.conv11 = leaky(c512, c256)
        self.conv12 = leaky(c256, c512, 3)
        self.conv13 = leaky(c512, c256)
        self.conv14 = leaky(c256, c128)
        self.conv15 = leaky(c256, c128)
        self.conv16 = leaky(2 * c128, c128)
        self.conv17 = leaky(c128, c256, 3)
        self.conv18 = leaky(c256, c128)
        self.conv19 = leaky(c128, c256, 3)
        self.conv20 = leaky(c256, c128)

    def forward(self, fifth: torch.Tensor, fourth: torch.Tensor, third: torch.Tensor) -> Maps:
        x = self.conv3(self.conv2(self.conv1(fifth)))
        x = torch.cat((*(pool(x) for pool in self.pools), x), dim=1)
        coarse = self.conv6(self.conv5(self.conv4(x)))
        x = torch.cat((self.conv8(fourth), twice(self.conv7(coarse))), dim=1)
        middle = self.conv13(self.conv12(self.conv11(self.conv10(self.conv9(x)))))
        x = torch.cat((self.conv15(third), twice(self.conv14(middle))), dim=1)
        fine = self.conv20(self.conv19(self.conv18(self.conv17(self.conv16(x)))))
        return fine, middle, coarse


class Head(nn.Module):
    """Down again: each finer map joins the coarser one, and each stride gets its predictions."""

    def __init__(self, wide: Callable[[int], int], outputs: int) -> None:
        super().__init__()
        c128, c256, c512, c1024 = wide(128), wide(256), wide(512), wide(1024)
        self.conv1 = leaky(c128, c256, 3)
        self.conv2 = nn.Conv2d(c256, outputs, 1)
        self.conv3 = leaky(c128, c256, 3, 2)
        self.conv4 = leaky(2 * c256, c256)
        self.conv5 = leaky(c256, c512, 3)
        self.conv6 = leaky(c512, c256)
        self.conv7 = leaky(c256, c512, 3)
        self.conv8 = leaky(c512, c256)
        self.conv9 = leaky(c256, c512, 3)
        self.conv10 = nn.Conv2d(c512, outputs, 1)
        self.conv11 = leaky(c256, c512, 3, 2)
        self.conv12 = leaky(2 * c512, c512)
        self.conv13 = leaky(c512, c1024, 3)
        self.conv14 = leaky(c1024, c512)
        self.conv15 = leaky(c512, c1024, 3)
        self.conv16 = leaky(c1024, c512)
        self.conv17 = leaky(c512, c1024, 3)
        self.conv18 = nn.Conv2d(c1024, outputs, 1)

    def forward(self, fine: torch.Tensor, middle: torch.Tensor, coarse: torch.Tensor) -> Maps:
        small_objects = self.conv2(self.conv1(fine))
        x = torch.cat((self.conv3(fine), middle), dim=1)
        x = self.conv8(self.conv7(self.conv6(self.conv5(self.conv4(x)))))
        medium_objects = self.conv10(self.conv9(x))
        x = torch.cat((self.conv11(x), coarse), dim=1)
        x = self.conv16(self.conv15(self.conv14(self.conv13(self.conv12(x)))))
        return small_objects, medium_objects, self.conv18(self.conv17(x))


def twice(x: torch.Tensor) -> torch.Tensor:
    return interpolate(x, scale_factor=2, mode="nearest")
