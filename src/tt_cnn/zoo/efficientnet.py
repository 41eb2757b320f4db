# SPDX-License-Identifier: Apache-2.0
"""EfficientNet: inverted residuals that are squeezed and excited, SiLU throughout. Named as torchvision's."""

from __future__ import annotations

import math

import torch
from torch import nn

from tt_cnn.zoo.layers import ConvNormActivation, SqueezeExcitation, make_divisible
from tt_cnn.zoo.registry import register_architecture

PAPER = "Tan, Le 2019"
STAGES = (
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)
"""Expansion, kernel, stride, input channels, output channels and blocks of each stage of B0."""
RESIDUALS = ("features.*.block.last.last",)


class MBConv(nn.Module):
    """Expand, depthwise, squeeze and excite, project; the input added where it has the shape of the output."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int, eps: float) -> None:
        super().__init__()
        self.use_res_connect = stride == 1 and inputs == outputs
        expanded = make_divisible(inputs * expansion)
        layers: list[nn.Module] = []
        if expanded != inputs:
            layers.append(ConvNormActivation(inputs, expanded, 1, activation=nn.SiLU, eps=eps))
        layers += [
            ConvNormActivation(expanded, expanded, kernel, stride, expanded, nn.SiLU, eps=eps),
            SqueezeExcitation(expanded, max(1, inputs // 4), activation=nn.SiLU),
            ConvNormActivation(expanded, outputs, 1, activation=None, eps=eps),
        ]
        self.block = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.block(x)
        if self.use_res_connect:
            result += x
        return result


class EfficientNet(nn.Module):
    """`width` and `depth` multiply channels and blocks of B0."""

    def __init__(self, width: float, depth: float, dropout: float, classes: int = 1000, eps: float = 1e-5) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvNormActivation(3, make_divisible(32 * width), 3, 2, activation=nn.SiLU, eps=eps)]
        for expansion, kernel, stride, base_inputs, base_outputs, base_blocks in STAGES:
            inputs, outputs = make_divisible(base_inputs * width), make_divisible(base_outputs * width)
            stage = [MBConv(inputs, outputs, expansion, kernel, stride, eps)]
            for _ in range(math.ceil(base_blocks * depth) - 1):
                stage.append(MBConv(outputs, outputs, expansion, kernel, 1, eps))
            layers.append(nn.Sequential(*stage))
        last = make_divisible(320 * width)
        layers.append(ConvNormActivation(last, 4 * last, 1, activation=nn.SiLU, eps=eps))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(4 * last, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


@register_architecture(
    "EfficientNet-B0", PAPER, licence="BSD-3-Clause", parameters=5.289, gmacs=0.39, residuals=RESIDUALS
)
def efficientnet_b0() -> nn.Module:
    return EfficientNet(1.0, 1.0, 0.2)


@register_architecture(
    "EfficientNet-B1",
    PAPER,
    licence="BSD-3-Clause",
    input_shape=(3, 240, 240),
    parameters=7.794,
    gmacs=0.69,
    residuals=RESIDUALS,
)
def efficientnet_b1() -> nn.Module:
    return EfficientNet(1.0, 1.1, 0.2)


@register_architecture(
    "EfficientNet-B2",
    PAPER,
    licence="BSD-3-Clause",
    input_shape=(3, 288, 288),
    parameters=9.110,
    gmacs=1.09,
    residuals=RESIDUALS,
)
def efficientnet_b2() -> nn.Module:
    return EfficientNet(1.1, 1.2, 0.3)


@register_architecture(
    "EfficientNet-B3",
    PAPER,
    licence="BSD-3-Clause",
    input_shape=(3, 300, 300),
    parameters=12.233,
    gmacs=1.83,
    residuals=RESIDUALS,
)
def efficientnet_b3() -> nn.Module:
    return EfficientNet(1.2, 1.4, 0.3)


@register_architecture(
    "EfficientNet-B4",
    PAPER,
    licence="BSD-3-Clause",
    input_shape=(3, 380, 380),
    parameters=19.342,
    gmacs=4.39,
    residuals=RESIDUALS,
)
def efficientnet_b4() -> nn.Module:
    return EfficientNet(1.4, 1.8, 0.4)
