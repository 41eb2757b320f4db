# SPDX-License-Identifier: Apache-2.0
"""RegNet: stages whose widths follow a line, bottlenecks with grouped convolutions. Named as torchvision's."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from tt_cnn.zoo.layers import ConvNormActivation, SqueezeExcitation
from tt_cnn.zoo.registry import register_architecture

PAPER = "Radosavovic, Kosaraju, Girshick, He, Dollár 2020"
RESIDUALS = ("trunk_output.*.f.c.1",)


class BottleneckTransform(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, stride: int, group_width: int, se_ratio: float) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["a"] = ConvNormActivation(inputs, outputs, 1)
        layers["b"] = ConvNormActivation(outputs, outputs, 3, stride, outputs // group_width)
        if se_ratio:
            layers["se"] = SqueezeExcitation(outputs, round(se_ratio * inputs))
        layers["c"] = ConvNormActivation(outputs, outputs, 1, activation=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, group_width: int, se_ratio: float) -> None:
        super().__init__()
        self.proj: nn.Module | None = None
        if inputs != outputs or stride != 1:
            self.proj = ConvNormActivation(inputs, outputs, 1, stride, activation=None)
        self.f = BottleneckTransform(inputs, outputs, stride, group_width, se_ratio)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.proj(x) + self.f(x) if self.proj is not None else x + self.f(x)
        return self.activation(x)


class RegNet(nn.Module):
    def __init__(
        self,
        depths: tuple[int, ...],
        widths: tuple[int, ...],
        group_width: int,
        se_ratio: float = 0.0,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.stem = ConvNormActivation(3, 32, 3, 2)
        self.trunk_output = nn.Sequential()
        inputs = 32
        for number, (depth, width) in enumerate(zip(depths, widths, strict=True), start=1):
            stage = nn.Sequential()
            for index in range(depth):
                block = ResBottleneckBlock(inputs, width, 2 if index == 0 else 1, group_width, se_ratio)
                stage.add_module(f"block{number}-{index}", block)
                inputs = width
            self.trunk_output.add_module(f"block{number}", stage)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = self.trunk_output(x)
        x = self.avgpool(x)
        x = x.flatten(start_dim=1)
        return self.fc(x)


@register_architecture(
    "RegNetY-400MF", PAPER, licence="BSD-3-Clause", parameters=4.344, gmacs=0.40, residuals=RESIDUALS, norm_shift=0.0
)
def regnet_y_400mf() -> nn.Module:
    return RegNet((1, 3, 6, 6), (48, 104, 208, 440), 8, se_ratio=0.25)


@register_architecture(
    "RegNetY-800MF", PAPER, licence="BSD-3-Clause", parameters=6.433, gmacs=0.83, residuals=RESIDUALS, norm_shift=0.0
)
def regnet_y_800mf() -> nn.Module:
    return RegNet((1, 3, 8, 2), (64, 144, 320, 784), 16, se_ratio=0.25)


@register_architecture(
    "RegNetX-400MF", PAPER, licence="BSD-3-Clause", parameters=5.496, gmacs=0.41, residuals=RESIDUALS, norm_shift=0.0
)
def regnet_x_400mf() -> nn.Module:
    return RegNet((1, 2, 7, 12), (32, 64, 160, 400), 16)


@register_architecture(
    "RegNetX-800MF", PAPER, licence="BSD-3-Clause", parameters=7.260, gmacs=0.80, residuals=RESIDUALS, norm_shift=0.0
)
def regnet_x_800mf() -> nn.Module:
    return RegNet((1, 3, 7, 5), (64, 128, 288, 672), 16)
