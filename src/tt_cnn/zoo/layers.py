# SPDX-License-Identifier: Apache-2.0
"""Layers that several families share."""

from __future__ import annotations

import torch
from torch import nn


def make_divisible(channels: float, divisor: int = 8) -> int:
    """The nearest multiple, not more than a tenth below (MobileNetV2's rule)."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class ConvNormActivation(nn.Sequential):
    """A convolution, its batch norm, an activation; padded so that the stride alone decides the size.

    The names of the modules are 0, 1 and 2, as torchvision's.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        activation: type[nn.Module] | None = nn.ReLU,
        dilation: int = 1,
        eps: float = 1e-5,
    ) -> None:
        padding = (kernel - 1) // 2 * dilation
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False),
            nn.BatchNorm2d(outputs, eps=eps),
        ]
        if activation is not None:
            layers.append(activation(inplace=True))
        super().__init__(*layers)


class SqueezeExcitation(nn.Module):
    """Channels weighed by what the whole image has of them (Hu, Shen, Albanie, Sun, Wu 2017)."""

    def __init__(
        self,
        channels: int,
        squeezed: int,
        activation: type[nn.Module] = nn.ReLU,
        gate: type[nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = activation()
        self.scale_activation = gate()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.avgpool(x)
        scale = self.activation(self.fc1(scale))
        scale = self.scale_activation(self.fc2(scale))
        return scale * x
