# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet: fire modules, no norms, a convolution as the classifier. Modules are named as torchvision's."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer 2016"


class Fire(nn.Module):
    """1x1 to few channels; 1x1 and 3x3 side by side on these."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1
        )


class SqueezeNet(nn.Module):
    """Sizes of maxima are rounded up (`ceil_mode`)."""

    def __init__(self, features: nn.Sequential, classes: int = 1000) -> None:
        super().__init__()
        self.features = features
        self.classifier = nn.Sequential(
            nn.Dropout(p=0.5),
            nn.Conv2d(512, classes, kernel_size=1),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = self.classifier(x)
        return torch.flatten(x, 1)


def halve() -> nn.Module:
    return nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)


@register_architecture("SqueezeNet 1.0", PAPER, licence="BSD-3-Clause", parameters=1.248, gmacs=0.82)
def squeezenet1_0() -> nn.Module:
    return SqueezeNet(
        nn.Sequential(
            nn.Conv2d(3, 96, kernel_size=7, stride=2),
            nn.ReLU(inplace=True),
            halve(),
            Fire(96, 16, 64),
            Fire(128, 16, 64),
            Fire(128, 32, 128),
            halve(),
            Fire(256, 32, 128),
            Fire(256, 48, 192),
            Fire(384, 48, 192),
            Fire(384, 64, 256),
            halve(),
            Fire(512, 64, 256),
        )
    )


@register_architecture("SqueezeNet 1.1", PAPER, licence="BSD-3-Clause", parameters=1.235, gmacs=0.35)
def squeezenet1_1() -> nn.Module:
    return SqueezeNet(
        nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=3, stride=2),
            nn.ReLU(inplace=True),
            halve(),
            Fire(64, 16, 64),
            Fire(128, 16, 64),
            halve(),
            Fire(128, 32, 128),
            Fire(256, 32, 128),
            halve(),
            Fire(256, 48, 192),
            Fire(384, 48, 192),
            Fire(384, 64, 256),
            Fire(512, 64, 256),
        )
    )
