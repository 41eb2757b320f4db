# SPDX-License-Identifier: Apache-2.0
"""YOLOv4-tiny: half of the channels through the convolutions, maxima between the stages, leaky ReLU.

Outputs are the maps of the heads, (N, anchors * (5 + classes), H / stride, W / stride).
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.yolov3 import ANCHORS, Convolutional

PAPER = "Bochkovskiy, Wang, Liao 2020; Wang, Bochkovskiy, Liao 2020"


class PartialBlock(nn.Module):
    """The second half of the channels goes on; both lengths of the path are read by a 1x1."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.conv1 = Convolutional(channels, channels)
        self.conv2 = Convolutional(half, half)
        self.conv3 = Convolutional(half, half)
        self.conv4 = Convolutional(channels, channels, 1)
        self.pool = nn.MaxPool2d(2, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the next stage reads, and the map that the neck may read."""
        x = self.conv1(x)
        _, second = torch.split(x, x.shape[1] // 2, dim=1)
        y = self.conv2(second)
        y = torch.cat([self.conv3(y), y], dim=1)
        y = self.conv4(y)
        return self.pool(torch.cat([x, y], dim=1)), y


class YOLOv4Tiny(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        outputs = ANCHORS * (5 + classes)
        self.conv1 = Convolutional(3, 32, 3, 2)
        self.conv2 = Convolutional(32, 64, 3, 2)
        self.block1 = PartialBlock(64)
        self.block2 = PartialBlock(128)
        self.block3 = PartialBlock(256)
        self.conv3 = Convolutional(512, 512)
        self.conv4 = Convolutional(512, 256, 1)
        self.head5 = nn.Sequential(Convolutional(256, 512), nn.Conv2d(512, outputs, 1))
        self.lateral = nn.Sequential(Convolutional(256, 128, 1), nn.Upsample(scale_factor=2, mode="nearest"))
        self.head4 = nn.Sequential(Convolutional(128 + 256, 256), nn.Conv2d(256, outputs, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.conv2(self.conv1(x))
        x, _ = self.block1(x)
        x, _ = self.block2(x)
        x, early = self.block3(x)
        late = self.conv4(self.conv3(x))
        return self.head5(late), self.head4(torch.cat([self.lateral(late), early], dim=1))


@register_architecture(
    "YOLOv4-tiny",
    PAPER,
    task="detection",
    licence="public domain",
    input_shape=(3, 416, 416),
    outputs=("large", "medium"),
    parameters=6.06,
    gmacs=3.45,
    unit_range=True,
    norm_shift=1.0,
)
def yolov4_tiny() -> nn.Module:
    return YOLOv4Tiny()
