# SPDX-License-Identifier: Apache-2.0
"""ShuffleNet V2: half of the channels pass by, and halves are mixed by a shuffle. Named as torchvision's."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Ma, Zhang, Zheng, Sun 2018"


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, channels, height, width)


class InvertedResidual(nn.Module):
    """With a stride both branches have convolutions; without, the first half of the channels stays as it is."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        half = outputs // 2
        self.branch1 = nn.Sequential()
        if stride > 1:
            self.branch1 = nn.Sequential(
                depthwise(inputs, stride),
                nn.BatchNorm2d(inputs),
                nn.Conv2d(inputs, half, kernel_size=1, bias=False),
                nn.BatchNorm2d(half),
                nn.ReLU(inplace=True),
            )
        self.branch2 = nn.Sequential(
            nn.Conv2d(inputs if stride > 1 else half, half, kernel_size=1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
            depthwise(half, stride),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, kernel_size=1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.stride == 1:
            x1, x2 = x.chunk(2, dim=1)
            out = torch.cat((x1, self.branch2(x2)), dim=1)
        else:
            out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        return channel_shuffle(out, 2)


def depthwise(channels: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)


class ShuffleNetV2(nn.Module):
    def __init__(self, widths: tuple[int, int, int, int], classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.stage2 = self._stage(24, widths[0], 4)
        self.stage3 = self._stage(widths[0], widths[1], 8)
        self.stage4 = self._stage(widths[1], widths[2], 4)
        self.conv5 = nn.Sequential(
            nn.Conv2d(widths[2], widths[3], 1, bias=False), nn.BatchNorm2d(widths[3]), nn.ReLU(inplace=True)
        )
        self.fc = nn.Linear(widths[3], classes)

    @staticmethod
    def _stage(inputs: int, outputs: int, count: int) -> nn.Sequential:
        rest = [InvertedResidual(outputs, outputs, 1) for _ in range(count - 1)]
        return nn.Sequential(InvertedResidual(inputs, outputs, 2), *rest)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x)
        x = self.maxpool(x)
        x = self.stage2(x)
        x = self.stage3(x)
        x = self.stage4(x)
        x = self.conv5(x)
        x = x.mean([2, 3])
        return self.fc(x)


@register_architecture("ShuffleNet V2 x0.5", PAPER, licence="BSD-3-Clause", parameters=1.367, gmacs=0.04)
def shufflenet_v2_x0_5() -> nn.Module:
    return ShuffleNetV2((48, 96, 192, 1024))


@register_architecture("ShuffleNet V2 x1.0", PAPER, licence="BSD-3-Clause", parameters=2.279, gmacs=0.145)
def shufflenet_v2_x1_0() -> nn.Module:
    return ShuffleNetV2((116, 232, 464, 1024))


@register_architecture("ShuffleNet V2 x1.5", PAPER, licence="BSD-3-Clause", parameters=3.504, gmacs=0.30)
def shufflenet_v2_x1_5() -> nn.Module:
    return ShuffleNetV2((176, 352, 704, 1024))
