# SPDX-License-Identifier: Apache-2.0
"""Stacked hourglasses: down to four pixels and up again, twice; norms come before convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Newell, Yang, Deng 2016"


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        outputs = 2 * width
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, kernel_size=1)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, padding=1)
        self.bn3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, kernel_size=1)
        self.downsample = nn.Conv2d(inputs, outputs, kernel_size=1) if inputs != outputs else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        out = self.conv3(F.relu(self.bn3(out)))
        residual = x if self.downsample is None else self.downsample(x)
        return out + residual


class Hourglass(nn.Module):
    """Calls itself for each halving of the height and width."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.up1 = Bottleneck(2 * width, width)
        self.low1 = Bottleneck(2 * width, width)
        self.low2: nn.Module = Hourglass(width, depth - 1) if depth > 1 else Bottleneck(2 * width, width)
        self.low3 = Bottleneck(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up1 = self.up1(x)
        low = F.max_pool2d(x, 2, stride=2)
        low = self.low3(self.low2(self.low1(low)))
        return up1 + F.interpolate(low, scale_factor=2)


class HourglassNet(nn.Module):
    """Heat maps of the joints behind each hourglass, at a quarter of the height and width."""

    def __init__(self, stacks: int = 2, joints: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = Bottleneck(64, 64)
        self.maxpool = nn.MaxPool2d(2, stride=2)
        self.layer2 = Bottleneck(128, 128)
        self.layer3 = Bottleneck(256, 128)
        self.hg = nn.ModuleList(Hourglass(128, 4) for _ in range(stacks))
        self.res = nn.ModuleList(Bottleneck(256, 128) for _ in range(stacks))
        self.fc = nn.ModuleList(
            nn.Sequential(nn.Conv2d(256, 256, kernel_size=1), nn.BatchNorm2d(256), self.relu) for _ in range(stacks)
        )
        self.score = nn.ModuleList(nn.Conv2d(256, joints, kernel_size=1) for _ in range(stacks))
        self.fc_ = nn.ModuleList(nn.Conv2d(256, 256, kernel_size=1) for _ in range(stacks - 1))
        self.score_ = nn.ModuleList(nn.Conv2d(joints, 256, kernel_size=1) for _ in range(stacks - 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.maxpool(self.layer1(x))
        x = self.layer3(self.layer2(x))
        outputs = []
        for index, hourglass in enumerate(self.hg):
            y = self.fc[index](self.res[index](hourglass(x)))
            score = self.score[index](y)
            outputs.append(score)
            if index < len(self.hg) - 1:
                x = x + self.fc_[index](y) + self.score_[index](score)
        return tuple(outputs)


@register_architecture(
    "Stacked hourglass, 2 stacks",
    PAPER,
    task="keypoints",
    licence="BSD-3-Clause",
    input_shape=(3, 256, 256),
    outputs=("first_heatmaps", "heatmaps"),
    parameters=6.73,
    residuals=("*.conv3",),
)
def hourglass_2() -> nn.Module:
    return HourglassNet()
