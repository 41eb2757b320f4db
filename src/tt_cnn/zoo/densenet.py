# SPDX-License-Identifier: Apache-2.0
"""DenseNet: every layer reads what all layers of its block before it gave. Modules are named as torchvision's."""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Huang, Liu, van der Maaten, Weinberger 2016"


class DenseLayer(nn.Module):
    """1x1 to four times the growth, 3x3 to the growth; norms come before convolutions."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, kernel_size=3, padding=1, bias=False)

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        x = torch.cat(features, 1)
        x = self.conv1(self.relu1(self.norm1(x)))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers: int, inputs: int, growth: int) -> None:
        super().__init__()
        for index in range(layers):
            self.add_module(f"denselayer{index + 1}", DenseLayer(inputs + index * growth, growth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    """Half the channels, half the height and width."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    def __init__(self, blocks: tuple[int, int, int, int], growth: int = 32, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * growth
        self.features = nn.Sequential(
            OrderedDict[str, nn.Module](
                conv0=nn.Conv2d(3, channels, kernel_size=7, stride=2, padding=3, bias=False),
                norm0=nn.BatchNorm2d(channels),
                relu0=nn.ReLU(inplace=True),
                pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            )
        )
        for index, layers in enumerate(blocks):
            self.features.add_module(f"denseblock{index + 1}", DenseBlock(layers, channels, growth))
            channels += layers * growth
            if index + 1 < len(blocks):
                self.features.add_module(f"transition{index + 1}", Transition(channels, channels // 2))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.features(x)
        out = F.relu(features, inplace=True)
        out = F.adaptive_avg_pool2d(out, (1, 1))
        out = torch.flatten(out, 1)
        return self.classifier(out)


@register_architecture("DenseNet-121", PAPER, licence="BSD-3-Clause", parameters=7.979, gmacs=2.83)
def densenet121() -> nn.Module:
    return DenseNet((6, 12, 24, 16))


@register_architecture("DenseNet-169", PAPER, licence="BSD-3-Clause", parameters=14.149, gmacs=3.36)
def densenet169() -> nn.Module:
    return DenseNet((6, 12, 32, 32))


@register_architecture("DenseNet-201", PAPER, licence="BSD-3-Clause", parameters=20.014, gmacs=4.29)
def densenet201() -> nn.Module:
    return DenseNet((6, 12, 48, 32))
