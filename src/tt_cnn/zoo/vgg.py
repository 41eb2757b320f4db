# SPDX-License-Identifier: Apache-2.0
"""VGG with batch norm: 3x3 convolutions and maxima, then three linear layers. Modules are named as torchvision's."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Simonyan, Zisserman 2014"
LAYERS: dict[int, tuple[int | str, ...]] = {
    11: (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    16: (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"),
    19: (64, 64, "M", 128, 128, "M", *(256,) * 4, "M", *(512,) * 4, "M", *(512,) * 4, "M"),
}
"""Channels of convolutions, M for a maximum that halves the height and the width."""


class VGG(nn.Module):
    def __init__(self, depth: int, classes: int = 1000, batch_norm: bool = True) -> None:
        super().__init__()
        self.features = convolutions(LAYERS[depth], batch_norm)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = self.avgpool(x)
        x = x.view(x.size(0), -1)
        return self.classifier(x)


def convolutions(layers: tuple[int | str, ...], batch_norm: bool) -> nn.Sequential:
    modules: list[nn.Module] = []
    inputs = 3
    for layer in layers:
        if isinstance(layer, str):
            modules.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        modules.append(nn.Conv2d(inputs, layer, kernel_size=3, padding=1))
        if batch_norm:
            modules.append(nn.BatchNorm2d(layer))
        modules.append(nn.ReLU(inplace=True))
        inputs = layer
    return nn.Sequential(*modules)


@register_architecture("VGG-11 with batch norm", PAPER, licence="BSD-3-Clause", parameters=132.869, gmacs=7.61)
def vgg11_bn() -> nn.Module:
    return VGG(11)


@register_architecture("VGG-16 with batch norm", PAPER, licence="BSD-3-Clause", parameters=138.366, gmacs=15.47)
def vgg16_bn() -> nn.Module:
    return VGG(16)


@register_architecture("VGG-19 with batch norm", PAPER, licence="BSD-3-Clause", parameters=143.678, gmacs=19.63)
def vgg19_bn() -> nn.Module:
    return VGG(19)
