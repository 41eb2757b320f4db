# SPDX-License-Identifier: Apache-2.0
"""MnasNet: inverted residuals that a search has chosen. Modules are named as torchvision's."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.layers import make_divisible
from tt_cnn.zoo.registry import register_architecture

PAPER = "Tan, Chen, Pang, Vasudevan, Sandler, Howard, Le 2018"
STAGES = ((24, 3, 2, 3, 3), (40, 5, 2, 3, 3), (80, 5, 2, 6, 3), (96, 3, 1, 6, 2), (192, 5, 2, 6, 4), (320, 3, 1, 6, 1))
"""Channels, kernel, stride, expansion and blocks of each stage."""
RESIDUALS = ("layers.*.layers.7",)


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        mid = inputs * expansion
        self.apply_residual = inputs == outputs and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, mid, 1, bias=False),
            nn.BatchNorm2d(mid),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, mid, kernel, padding=kernel // 2, stride=stride, groups=mid, bias=False),
            nn.BatchNorm2d(mid),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.apply_residual:
            return self.layers(x) + x
        return self.layers(x)


class MNASNet(nn.Module):
    def __init__(self, alpha: float, classes: int = 1000) -> None:
        super().__init__()
        stem, inputs = make_divisible(32 * alpha), make_divisible(16 * alpha)
        layers: list[nn.Module] = [
            nn.Conv2d(3, stem, 3, padding=1, stride=2, bias=False),
            nn.BatchNorm2d(stem),
            nn.ReLU(inplace=True),
            nn.Conv2d(stem, stem, 3, padding=1, stride=1, groups=stem, bias=False),
            nn.BatchNorm2d(stem),
            nn.ReLU(inplace=True),
            nn.Conv2d(stem, inputs, 1, bias=False),
            nn.BatchNorm2d(inputs),
        ]
        for channels, kernel, stride, expansion, count in STAGES:
            outputs = make_divisible(channels * alpha)
            first = InvertedResidual(inputs, outputs, kernel, stride, expansion)
            rest = [InvertedResidual(outputs, outputs, kernel, 1, expansion) for _ in range(count - 1)]
            layers.append(nn.Sequential(first, *rest))
            inputs = outputs
        layers += [nn.Conv2d(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(p=0.2, inplace=True), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x)
        x = x.mean([2, 3])
        return self.classifier(x)


@register_architecture("MnasNet 0.5", PAPER, licence="BSD-3-Clause", parameters=2.219, gmacs=0.10, residuals=RESIDUALS)
def mnasnet0_5() -> nn.Module:
    return MNASNet(0.5)


@register_architecture("MnasNet 1.0", PAPER, licence="BSD-3-Clause", parameters=4.383, gmacs=0.31, residuals=RESIDUALS)
def mnasnet1_0() -> nn.Module:
    return MNASNet(1.0)
