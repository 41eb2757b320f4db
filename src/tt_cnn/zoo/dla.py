# SPDX-License-Identifier: Apache-2.0
"""Deep layer aggregation: trees of residual blocks whose roots read all their children. Named as the authors' code."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Yu, Wang, Shelhamer, Darrell 2017"


class BasicBlock(nn.Module):
    """The residual may be another one than the input."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        if residual is None:
            residual = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += residual
        return self.relu(out)


class Root(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, *children: torch.Tensor) -> torch.Tensor:
        return self.relu(self.bn(self.conv(torch.cat(children, 1))))


class Leaf(nn.Module):
    """A tree of one level: two blocks, a root over both and over the `handed` channels that it gets.

    With `level_root` the root reads the input too.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, handed: int = 0, level_root: bool = False) -> None:
        super().__init__()
        self.level_root = level_root
        self.tree1 = BasicBlock(inputs, outputs, stride)
        self.tree2 = BasicBlock(outputs, outputs)
        self.root = Root(2 * outputs + handed + (inputs if level_root else 0), outputs)
        self.downsample = nn.MaxPool2d(stride, stride=stride) if stride > 1 else None
        self.project: nn.Module | None = None
        if inputs != outputs:
            self.project = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor, children: list[torch.Tensor] | None = None) -> torch.Tensor:
        bottom = x if self.downsample is None else self.downsample(x)
        residual = bottom if self.project is None else self.project(bottom)
        x1 = self.tree1(x, residual)
        x2 = self.tree2(x1)
        children = [] if children is None else children
        if self.level_root:
            children.append(bottom)
        return self.root(x2, x1, *children)


class Tree(nn.Module):
    """Two leaves; the root of the second reads the first's too, and the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.downsample = nn.MaxPool2d(stride, stride=stride)
        self.tree1 = Leaf(inputs, outputs, stride)
        self.tree2 = Leaf(outputs, outputs, 1, inputs + outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        children = [self.downsample(x)]
        x1 = self.tree1(x)
        children.append(x1)
        return self.tree2(x1, children)


class DLA34(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.base_layer = self._conv_level(3, 16, 7, 1)
        self.level0 = self._conv_level(16, 16, 3, 1)
        self.level1 = self._conv_level(16, 32, 3, 2)
        self.level2 = Leaf(32, 64, 2)
        self.level3 = Tree(64, 128, 2)
        self.level4 = Tree(128, 256, 2)
        self.level5 = Leaf(256, 512, 2, level_root=True)
        self.avgpool = nn.AvgPool2d(7)
        self.fc = nn.Conv2d(512, classes, kernel_size=1)

    @staticmethod
    def _conv_level(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.base_layer(x)
        x = self.level1(self.level0(x))
        x = self.level3(self.level2(x))
        x = self.level5(self.level4(x))
        x = self.fc(self.avgpool(x))
        return x.view(x.size(0), -1)


@register_architecture(
    "DLA-34", PAPER, licence="BSD-3-Clause", parameters=15.742, gmacs=3.07, residuals=("level*.tree[12].bn2",)
)
def dla34() -> nn.Module:
    return DLA34()
