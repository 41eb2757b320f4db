# SPDX-License-Identifier: Apache-2.0
"""ResNet50 (He, Zhang, Ren, Sun 2015): a stem, four stages of bottlenecks, a classifier.

Modules are named as torchvision names them, so that its checkpoints load as they are. The stride of a stage is in the
3x3 convolution of its first bottleneck (known as V1.5), not in the 1x1 before it.
"""

from __future__ import annotations

import torch
from torch import nn

BLOCKS = (3, 4, 6, 3)
"""Bottlenecks in each stage."""
EXPANSION = 4
"""A bottleneck has this many times more channels at its output than inside."""
STEM_CHANNELS = 64


class ResNet50(nn.Module):
    """Images (N, 3, H, W) to logits (N, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, STEM_CHANNELS, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(STEM_CHANNELS)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = stage(STEM_CHANNELS, 64, BLOCKS[0], stride=1)
        self.layer2 = stage(256, 128, BLOCKS[1], stride=2)
        self.layer3 = stage(512, 256, BLOCKS[2], stride=2)
        self.layer4 = stage(1024, 512, BLOCKS[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2048, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.head(x)

    @property
    def residual_norms(self) -> list[nn.BatchNorm2d]:
        """The norms before the additions."""
        return [block.bn3 for block in self.modules() if isinstance(block, Bottleneck)]

    def stem(self, images: torch.Tensor) -> torch.Tensor:
        """A quarter of the height and width, 64 channels."""
        return self.maxpool(self.relu(self.bn1(self.conv1(images))))

    def head(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Bottleneck(nn.Module):
    """1x1 to fewer channels, 3x3 on these, 1x1 to `EXPANSION` times as many; the input added before the last ReLU."""

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        """Brings the input into the shape of the output, where it has another."""
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + shortcut)


def stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    """Only the first bottleneck has a stride and another number of input channels."""
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(width * EXPANSION, width) for _ in range(blocks - 1)))
