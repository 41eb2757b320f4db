# SPDX-License-Identifier: Apache-2.0
"""GhostNet: half of the channels from a convolution, the other half from cheap ones on these. Named as the authors'."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.layers import make_divisible
from tt_cnn.zoo.registry import register_architecture

PAPER = "Han, Wang, Tian, Guo, Xu, Xu 2019"
STAGES: tuple[tuple[tuple[int, int, int, bool, int], ...], ...] = (
    ((3, 16, 16, False, 1),),
    ((3, 48, 24, False, 2),),
    ((3, 72, 24, False, 1),),
    ((5, 72, 40, True, 2),),
    ((5, 120, 40, True, 1),),
    ((3, 240, 80, False, 2),),
    (
        (3, 200, 80, False, 1),
        (3, 184, 80, False, 1),
        (3, 184, 80, False, 1),
        (3, 480, 112, True, 1),
        (3, 672, 112, True, 1),
    ),
    ((5, 672, 160, True, 2),),
    ((5, 960, 160, False, 1), (5, 960, 160, True, 1), (5, 960, 160, False, 1), (5, 960, 160, True, 1)),
)
"""Kernel, expanded channels, output channels, squeeze and excitation, stride of each bottleneck."""


def hard_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return F.relu6(x + 3.0) / 6.0


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        reduced = make_divisible(channels * 0.25, 4)
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.conv_reduce = nn.Conv2d(channels, reduced, 1, bias=True)
        self.act1 = nn.ReLU(inplace=True)
        self.conv_expand = nn.Conv2d(reduced, channels, 1, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x_se = self.avg_pool(x)
        x_se = self.conv_reduce(x_se)
        x_se = self.act1(x_se)
        x_se = self.conv_expand(x_se)
        return x * hard_sigmoid(x_se)


class GhostModule(nn.Module):
    def __init__(self, inputs: int, outputs: int, relu: bool = True) -> None:
        super().__init__()
        self.outputs = outputs
        primary = (outputs + 1) // 2
        self.primary_conv = nn.Sequential(
            nn.Conv2d(inputs, primary, 1, bias=False),
            nn.BatchNorm2d(primary),
            nn.ReLU(inplace=True) if relu else nn.Sequential(),
        )
        self.cheap_operation = nn.Sequential(
            nn.Conv2d(primary, primary, 3, 1, 1, groups=primary, bias=False),
            nn.BatchNorm2d(primary),
            nn.ReLU(inplace=True) if relu else nn.Sequential(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x1 = self.primary_conv(x)
        x2 = self.cheap_operation(x1)
        out = torch.cat([x1, x2], dim=1)
        return out[:, : self.outputs, :, :]


class GhostBottleneck(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int, kernel: int, stride: int, squeeze: bool) -> None:
        super().__init__()
        self.stride = stride
        self.ghost1 = GhostModule(inputs, hidden, relu=True)
        if stride > 1:
            self.conv_dw = nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False)
            self.bn_dw = nn.BatchNorm2d(hidden)
        self.se = SqueezeExcite(hidden) if squeeze else None
        self.ghost2 = GhostModule(hidden, outputs, relu=False)
        self.shortcut = nn.Sequential()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, inputs, kernel, stride, kernel // 2, groups=inputs, bias=False),
                nn.BatchNorm2d(inputs),
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = x
        x = self.ghost1(x)
        if self.stride > 1:
            x = self.conv_dw(x)
            x = self.bn_dw(x)
        if self.se is not None:
            x = self.se(x)
        x = self.ghost2(x)
        x += self.shortcut(residual)
        return x


class ConvBnAct(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.act1 = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act1(self.bn1(self.conv(x)))


class GhostNet(nn.Module):
    def __init__(self, classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        self.dropout = dropout
        self.conv_stem = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.act1 = nn.ReLU(inplace=True)
        inputs = 16
        stages = []
        for rows in STAGES:
            layers = []
            for kernel, hidden, outputs, squeeze, stride in rows:
                layers.append(GhostBottleneck(inputs, hidden, outputs, kernel, stride, squeeze))
                inputs = outputs
            stages.append(nn.Sequential(*layers))
        stages.append(nn.Sequential(ConvBnAct(inputs, 960)))
        self.blocks = nn.Sequential(*stages)
        self.global_pool = nn.AdaptiveAvgPool2d((1, 1))
        self.conv_head = nn.Conv2d(960, 1280, 1, 1, 0, bias=True)
        self.act2 = nn.ReLU(inplace=True)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_stem(x)
        x = self.bn1(x)
        x = self.act1(x)
        x = self.blocks(x)
        x = self.global_pool(x)
        x = self.conv_head(x)
        x = self.act2(x)
        x = x.view(x.size(0), -1)
        if self.dropout > 0.0:
            x = F.dropout(x, p=self.dropout, training=self.training)
        return self.classifier(x)


@register_architecture(
    "GhostNet 1.0x",
    PAPER,
    licence="Apache-2.0",
    parameters=5.18,
    gmacs=0.142,
    residuals=("blocks.*.ghost2.*.1",),
)
def ghostnet() -> nn.Module:
    return GhostNet()
