# SPDX-License-Identifier: Apache-2.0
"""ResNet and its wider relatives: a stem, four stages of residual blocks, a classifier.

Modules are named as torchvision names them. The stride of a bottleneck is in its 3x3 convolution.
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

RESNET = "He, Zhang, Ren, Sun 2015"
WIDE = "Zagoruyko, Komodakis 2016"
RESNEXT = "Xie, Girshick, Dollár, Tu, He 2016"
BSD = "BSD-3-Clause"


class BasicBlock(nn.Module):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(
        self, inputs: int, width: int, stride: int = 1, dilation: int = 1, groups: int = 1, base_width: int = 64
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1, 3x3 (maybe in groups, maybe dilated), 1x1 to four times as many channels."""

    expansion = 4

    def __init__(
        self, inputs: int, width: int, stride: int = 1, dilation: int = 1, groups: int = 1, base_width: int = 64
    ) -> None:
        super().__init__()
        inner = int(width * base_width / 64) * groups
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(
            inner, inner, 3, stride=stride, padding=dilation, dilation=dilation, groups=groups, bias=False
        )
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """Brings the input into the shape of the output, where it has another."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """Images (N, 3, H, W) to logits (N, classes). `dilate` turns the strides of the last stages into dilations."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: tuple[int, int, int, int],
        classes: int = 1000,
        groups: int = 1,
        base_width: int = 64,
        dilate: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__()
        self.inputs = 64
        self.dilation = 1
        self.groups = groups
        self.base_width = base_width
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._stage(block, 64, layers[0])
        self.layer2 = self._stage(block, 128, layers[1], stride=2)
        self.layer3 = self._stage(block, 256, layers[2], stride=2, dilate=dilate[0])
        self.layer4 = self._stage(block, 512, layers[3], stride=2, dilate=dilate[1])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, classes)

    def _stage(
        self, block: type[BasicBlock] | type[Bottleneck], width: int, count: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        blocks = [block(self.inputs, width, stride, before, self.groups, self.base_width)]
        self.inputs = width * block.expansion
        for _ in range(1, count):
            blocks.append(block(self.inputs, width, 1, self.dilation, self.groups, self.base_width))
        return nn.Sequential(*blocks)

    def stages(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the four stages give, for the networks that are built upon them."""
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        c2 = self.layer1(x)
        c3 = self.layer2(c2)
        c4 = self.layer3(c3)
        c5 = self.layer4(c4)
        return c2, c3, c4, c5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stages(x)[-1]
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.fc(x)


class ResNetStages(ResNet):
    """A backbone: the maps of the four stages, no classifier."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        del self.avgpool, self.fc

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        return self.stages(x)


@register_architecture(
    "ResNet-18", RESNET, licence=BSD, parameters=11.690, gmacs=1.81, residuals=("layer*.bn2",), norm_shift=0.0
)
def resnet18() -> nn.Module:
    return ResNet(BasicBlock, (2, 2, 2, 2))


@register_architecture(
    "ResNet-34", RESNET, licence=BSD, parameters=21.798, gmacs=3.66, residuals=("layer*.bn2",), norm_shift=0.0
)
def resnet34() -> nn.Module:
    return ResNet(BasicBlock, (3, 4, 6, 3))


@register_architecture(
    "ResNet-50", RESNET, licence=BSD, parameters=25.557, gmacs=4.09, residuals=("layer*.bn3",), norm_shift=0.0
)
def resnet50() -> nn.Module:
    return ResNet(Bottleneck, (3, 4, 6, 3))


@register_architecture(
    "ResNet-101", RESNET, licence=BSD, parameters=44.549, gmacs=7.80, residuals=("layer*.bn3",), norm_shift=0.0
)
def resnet101() -> nn.Module:
    return ResNet(Bottleneck, (3, 4, 23, 3))


@register_architecture(
    "ResNet-152", RESNET, licence=BSD, parameters=60.193, gmacs=11.51, residuals=("layer*.bn3",), norm_shift=0.0
)
def resnet152() -> nn.Module:
    return ResNet(Bottleneck, (3, 8, 36, 3))


@register_architecture(
    "Wide ResNet-50-2", WIDE, licence=BSD, parameters=68.883, gmacs=11.40, residuals=("layer*.bn3",), norm_shift=0.0
)
def wide_resnet50_2() -> nn.Module:
    return ResNet(Bottleneck, (3, 4, 6, 3), base_width=128)


@register_architecture(
    "ResNeXt-50 32x4d", RESNEXT, licence=BSD, parameters=25.029, gmacs=4.23, residuals=("layer*.bn3",), norm_shift=0.0
)
def resnext50_32x4d() -> nn.Module:
    return ResNet(Bottleneck, (3, 4, 6, 3), groups=32, base_width=4)


@register_architecture(
    "ResNeXt-101 32x8d", RESNEXT, licence=BSD, parameters=88.791, gmacs=16.41, residuals=("layer*.bn3",), norm_shift=0.0
)
def resnext101_32x8d() -> nn.Module:
    return ResNet(Bottleneck, (3, 4, 23, 3), groups=32, base_width=8)
