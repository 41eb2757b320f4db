# SPDX-License-Identifier: Apache-2.0
"""MobileNet: depthwise convolutions between 1x1 ones. The second and third version are named as torchvision's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.layers import ConvNormActivation, SqueezeExcitation, make_divisible
from tt_cnn.zoo.registry import register_architecture

V1 = "Howard, Zhu, Chen, Kalenichenko, Wang, Weyand, Andreetto, Adam 2017"
V2 = "Sandler, Howard, Zhu, Zhmoginov, Chen 2018"
V3 = "Howard, Sandler, Chu, Chen, Chen, Tan, Wang, Zhu, Pang, Vasudevan, Le, Adam 2019"


class SeparableConv(nn.Module):
    """A 3x3 convolution of each channel for itself, then a 1x1 one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv_dw = nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv_pw = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv_dw(x)))
        return F.relu(self.bn2(self.conv_pw(x)))


class MobileNetV1(nn.Module):
    widths = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
    """Output channels and stride of each separable convolution."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv_stem = nn.Conv2d(3, 32, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        blocks = []
        inputs = 32
        for outputs, stride in self.widths:
            blocks.append(SeparableConv(inputs, outputs, stride))
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(1024, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv_stem(x)))
        x = self.blocks(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.classifier(x)


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expand, depthwise, project; the input added where it has the shape of the output."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand_ratio: int) -> None:
        super().__init__()
        hidden = inputs * expand_ratio
        self.use_res_connect = stride == 1 and inputs == outputs
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(ConvNormActivation(inputs, hidden, 1, activation=nn.ReLU6))
        layers += [
            ConvNormActivation(hidden, hidden, 3, stride, groups=hidden, activation=nn.ReLU6),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    """Expansion, channels, blocks and stride of each stage."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        inputs = 32
        features: list[nn.Module] = [ConvNormActivation(3, inputs, 3, 2, activation=nn.ReLU6)]
        for expansion, outputs, count, stride in self.settings:
            for index in range(count):
                features.append(InvertedResidual(inputs, outputs, stride if index == 0 else 1, expansion))
                inputs = outputs
        features.append(ConvNormActivation(inputs, 1280, 1, activation=nn.ReLU6))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = x.mean([2, 3])
        return self.classifier(x)


@dataclass(frozen=True)
class Bneck:
    """One row of the tables of MobileNetV3's paper."""

    inputs: int
    kernel: int
    expanded: int
    outputs: int
    squeeze: bool
    hardswish: bool
    stride: int
    dilation: int = 1

    def build(self) -> nn.Module:
        return InvertedResidualV3(self)


class InvertedResidualV3(nn.Module):
    """MobileNetV3's block: maybe squeezed and excited between the depthwise convolution and the projection."""

    def __init__(self, row: Bneck) -> None:
        super().__init__()
        self.use_res_connect = row.stride == 1 and row.inputs == row.outputs
        activation = nn.Hardswish if row.hardswish else nn.ReLU
        layers: list[nn.Module] = []
        if row.expanded != row.inputs:
            layers.append(ConvNormActivation(row.inputs, row.expanded, 1, activation=activation, eps=1e-3))
        stride = 1 if row.dilation > 1 else row.stride
        layers.append(
            ConvNormActivation(
                row.expanded, row.expanded, row.kernel, stride, row.expanded, activation, row.dilation, eps=1e-3
            )
        )
        if row.squeeze:
            layers.append(SqueezeExcitation(row.expanded, make_divisible(row.expanded // 4), gate=nn.Hardsigmoid))
        layers.append(ConvNormActivation(row.expanded, row.outputs, 1, activation=None, eps=1e-3))
        self.block = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.block(x)
        if self.use_res_connect:
            result += x
        return result


def large_rows(dilated: bool = False) -> tuple[Bneck, ...]:
    """Table 1 of the paper; `dilated` keeps the size in the last stage, for segmentation."""
    dilation = 2 if dilated else 1
    return (
        Bneck(16, 3, 16, 16, False, False, 1),
        Bneck(16, 3, 64, 24, False, False, 2),
        Bneck(24, 3, 72, 24, False, False, 1),
        Bneck(24, 5, 72, 40, True, False, 2),
        Bneck(40, 5, 120, 40, True, False, 1),
        Bneck(40, 5, 120, 40, True, False, 1),
        Bneck(40, 3, 240, 80, False, True, 2),
        Bneck(80, 3, 200, 80, False, True, 1),
        Bneck(80, 3, 184, 80, False, True, 1),
        Bneck(80, 3, 184, 80, False, True, 1),
        Bneck(80, 3, 480, 112, True, True, 1),
        Bneck(112, 3, 672, 112, True, True, 1),
        Bneck(112, 5, 672, 160, True, True, 2, dilation),
        Bneck(160, 5, 960, 160, True, True, 1, dilation),
        Bneck(160, 5, 960, 160, True, True, 1, dilation),
    )


SMALL = (
    Bneck(16, 3, 16, 16, True, False, 2),
    Bneck(16, 3, 72, 24, False, False, 2),
    Bneck(24, 3, 88, 24, False, False, 1),
    Bneck(24, 5, 96, 40, True, True, 2),
    Bneck(40, 5, 240, 40, True, True, 1),
    Bneck(40, 5, 240, 40, True, True, 1),
    Bneck(40, 5, 120, 48, True, True, 1),
    Bneck(48, 5, 144, 48, True, True, 1),
    Bneck(48, 5, 288, 96, True, True, 2),
    Bneck(96, 5, 576, 96, True, True, 1),
    Bneck(96, 5, 576, 96, True, True, 1),
)
"""Table 2 of the paper."""


def v3_features(rows: tuple[Bneck, ...]) -> nn.Sequential:
    """The stem, the blocks, and a 1x1 convolution to six times as many channels."""
    last = rows[-1].outputs
    return nn.Sequential(
        ConvNormActivation(3, 16, 3, 2, activation=nn.Hardswish, eps=1e-3),
        *(row.build() for row in rows),
        ConvNormActivation(last, 6 * last, 1, activation=nn.Hardswish, eps=1e-3),
    )


class MobileNetV3(nn.Module):
    def __init__(self, rows: tuple[Bneck, ...], head: int, classes: int = 1000) -> None:
        super().__init__()
        self.features = v3_features(rows)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * rows[-1].outputs, head),
            nn.Hardswish(inplace=True),
            nn.Dropout(0.2, inplace=True),
            nn.Linear(head, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.avgpool(self.features(x))
        x = torch.flatten(x, 1)
        return self.classifier(x)


@register_architecture("MobileNetV1", V1, licence="Apache-2.0", parameters=4.232, gmacs=0.569)
def mobilenet_v1() -> nn.Module:
    return MobileNetV1()


@register_architecture(
    "MobileNetV2", V2, licence="BSD-3-Clause", parameters=3.505, gmacs=0.30, residuals=("features.*.conv.last",)
)
def mobilenet_v2() -> nn.Module:
    return MobileNetV2()


@register_architecture(
    "MobileNetV3 Large",
    V3,
    licence="BSD-3-Clause",
    parameters=5.483,
    gmacs=0.22,
    residuals=("features.*.block.last.last",),
)
def mobilenet_v3_large() -> nn.Module:
    return MobileNetV3(large_rows(), 1280)


@register_architecture(
    "MobileNetV3 Small",
    V3,
    licence="BSD-3-Clause",
    parameters=2.543,
    gmacs=0.057,
    residuals=("features.*.block.last.last",),
)
def mobilenet_v3_small() -> nn.Module:
    return MobileNetV3(SMALL, 1024)
