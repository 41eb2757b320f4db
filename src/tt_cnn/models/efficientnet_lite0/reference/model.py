# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0: EfficientNet-B0 (Tan and Le, 2019) without squeeze and excitation, with ReLU6 for swish."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Stage(NamedTuple):
    """Blocks that give the same channels, the first of them with the stride."""

    expansion: int
    channels: int
    blocks: int
    stride: int
    kernel: int


STEM_CHANNELS = 32
STAGES = (
    Stage(1, 16, 1, 1, 3),
    Stage(6, 24, 2, 2, 3),
    Stage(6, 40, 2, 2, 5),
    Stage(6, 80, 3, 2, 3),
    Stage(6, 112, 3, 1, 5),
    Stage(6, 192, 4, 2, 5),
    Stage(6, 320, 1, 1, 3),
)
HEAD_CHANNELS = 1280
DROPOUT = 0.2
NORM_EPSILON = 1e-3
"""TensorFlow's default, with which the public weights were trained."""


class ConvNorm(nn.Sequential):
    """A convolution that keeps the size (or halves an even one), and batch norm.

    Padding is TensorFlow's `SAME`: where a stride of 2 meets an even size, the odd pixel of it is at the bottom and on
    the right. It is a layer of its own there, because PyTorch's convolutions pad all sides alike.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        around = kernel // 2
        if stride == 2:
            self.add_module("pad", nn.ZeroPad2d((around - 1, around, around - 1, around)))
            around = 0
        self.add_module("conv", nn.Conv2d(inputs, outputs, kernel, stride, around, groups=groups, bias=False))
        self.add_module("norm", nn.BatchNorm2d(outputs, eps=NORM_EPSILON))


class ConvNormRelu6(ConvNorm):
    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups)
        self.add_module("relu6", nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand (1x1), filter each channel, project (1x1, linear); added to the input where the shapes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.expand = ConvNormRelu6(inputs, hidden) if expansion != 1 else None
        self.depthwise = ConvNormRelu6(hidden, hidden, kernel, stride, groups=hidden)
        self.project = ConvNorm(hidden, outputs)
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x if self.expand is None else self.expand(x)
        output = self.project(self.depthwise(hidden))
        return x + output if self.adds_input else output


class EfficientNetLite0(nn.Module):
    """(N, 3, H, W) to logits (N, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = ConvNormRelu6(3, STEM_CHANNELS, kernel=3, stride=2)
        blocks = []
        channels = STEM_CHANNELS
        for stage in STAGES:
            for index in range(stage.blocks):
                stride = stage.stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, stage.channels, stage.kernel, stride, stage.expansion))
                channels = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNormRelu6(channels, HEAD_CHANNELS)
        self.classifier = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(HEAD_CHANNELS, classes))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.head(self.blocks(self.stem(images))).mean((2, 3)))
