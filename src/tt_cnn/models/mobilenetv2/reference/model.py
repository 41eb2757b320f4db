# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 after Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).

Modules are nested so that the names of the parameters are those of torchvision's checkpoints.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Stage(NamedTuple):
    """A row of the paper's table 2: blocks that give the same channels, the first of them with the stride."""

    expansion: int
    channels: int
    blocks: int
    stride: int


STEM_CHANNELS = 32
STAGES = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 32, 3, 2),
    Stage(6, 64, 4, 2),
    Stage(6, 96, 3, 1),
    Stage(6, 160, 3, 2),
    Stage(6, 320, 1, 1),
)
HEAD_CHANNELS = 1280
DROPOUT = 0.2


class ConvNormRelu6(nn.Sequential):
    """A convolution that keeps the size (or halves it), batch norm, ReLU6."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        )


class InvertedResidual(nn.Module):
    """Expand (1x1), filter each channel (3x3), project (1x1, linear); added to the input where the shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        expand = [ConvNormRelu6(inputs, hidden)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *expand,
            ConvNormRelu6(hidden, hidden, kernel=3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.adds_input else self.conv(x)


class MobileNetV2(nn.Module):
    """(N, 3, H, W) to logits (N, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvNormRelu6(3, STEM_CHANNELS, kernel=3, stride=2)]
        channels = STEM_CHANNELS
        for stage in STAGES:
            for index in range(stage.blocks):
                stride = stage.stride if index == 0 else 1
                layers.append(InvertedResidual(channels, stage.channels, stride, stage.expansion))
                channels = stage.channels
        layers.append(ConvNormRelu6(channels, HEAD_CHANNELS))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(HEAD_CHANNELS, classes))

    @property
    def residual_norms(self) -> list[nn.Module]:
        """The norms before the additions."""
        blocks = [block for block in self.modules() if isinstance(block, InvertedResidual)]
        return [block.conv[-1] for block in blocks if block.adds_input]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images).mean((2, 3)))
