# SPDX-License-Identifier: Apache-2.0
"""Panoptic-DeepLab: classes, centres of things, and the way from each pixel to its centre, from one backbone.

As trained on Cityscapes with Detectron2: ResNet-52 is ResNet-50 with three convolutions for a stem; the last stage is
dilated, each of its blocks twice as far as the one before; two decoders bring its map to a quarter of the picture's
height and width by way of the maps of the first two stages.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.deeplab import ASPP
from tt_cnn.zoo.deeplab_plus import conv_norm
from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import Bottleneck, shortcut

EARLY = ((512, 64), (256, 32))
"""Channels of the early maps that a decoder takes in, and what it projects them to."""
CITYSCAPES_CLASSES = 19
STRIDE = 4
"""Of what the decoders give; offsets are counted in pixels of the picture."""


class ResNet52(nn.Module):
    """A sixteenth of the height and width: what the first two stages give, and the last."""

    def __init__(self) -> None:
        super().__init__()
        first = nn.Sequential(nn.Conv2d(3, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.stem = nn.Sequential(first, conv_norm(64, 64, 3), conv_norm(64, 128, 3), nn.MaxPool2d(3, 2, 1))
        self.layer1 = _stage(128, 64, stride=1, dilations=(1,) * 3)
        self.layer2 = _stage(256, 128, stride=2, dilations=(1,) * 4)
        self.layer3 = _stage(512, 256, stride=2, dilations=(1,) * 6)
        self.layer4 = _stage(1024, 512, stride=1, dilations=(2, 4, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first = self.layer1(self.stem(x))
        second = self.layer2(first)
        return first, second, self.layer4(self.layer3(second))


def _stage(inputs: int, width: int, stride: int, dilations: tuple[int, ...]) -> nn.Sequential:
    outputs = width * Bottleneck.expansion
    blocks = [Bottleneck(inputs, width, stride, dilations[0])]
    blocks += [Bottleneck(outputs, width, 1, dilation) for dilation in dilations[1:]]
    if blocks[0].downsample is None:
        blocks[0].downsample = shortcut(inputs, outputs, stride)
    return nn.Sequential(*blocks)


class ImagePooling(nn.Module):
    """The mean of the image, at every pixel; without a norm, which would have one value of each image to learn from."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = F.relu(self.conv(F.adaptive_avg_pool2d(x, 1)))
        return F.interpolate(mean, size=x.shape[-2:], mode="bilinear", align_corners=False)


class Decoder(nn.Module):
    """The last map through ASPP, then twice: grown, joined with an early map, two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.aspp = ASPP(2048, (6, 12, 18))
        self.aspp.convs[-1] = ImagePooling(2048, 256)
        self.project = nn.ModuleList(conv_norm(early, projected, 1) for early, projected in EARLY)
        self.fuse = nn.ModuleList(
            nn.Sequential(conv_norm(projected + late, channels, 3), conv_norm(channels, channels, 3))
            for (_, projected), late in zip(EARLY, (256, channels), strict=True)
        )

    def forward(self, first: torch.Tensor, second: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        out = self.aspp(last)
        for early, project, fuse in zip((second, first), self.project, self.fuse, strict=True):
            grown = F.interpolate(out, size=early.shape[-2:], mode="bilinear", align_corners=False)
            out = fuse(torch.cat([project(early), grown], dim=1))
        return out


def _head(inputs: int, inner: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv_norm(inputs, inputs, 3), conv_norm(inputs, inner, 3), nn.Conv2d(inner, outputs, 1))


class PanopticDeepLab(nn.Module):
    def __init__(self, classes: int = CITYSCAPES_CLASSES) -> None:
        super().__init__()
        self.backbone = ResNet52()
        self.semantic_decoder = Decoder(256)
        self.semantic_head = _head(256, 256, classes)
        self.instance_decoder = Decoder(128)
        self.center_head = _head(128, 32, 1)
        self.offset_head = _head(128, 32, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        maps = self.backbone(x)
        semantic, instance = self.semantic_decoder(*maps), self.instance_decoder(*maps)
        return (
            _grown(self.semantic_head(semantic)),
            _grown(self.center_head(instance)),
            _grown(self.offset_head(instance)) * STRIDE,
        )


def _grown(x: torch.Tensor) -> torch.Tensor:
    """To the picture's size."""
    return F.interpolate(x, scale_factor=STRIDE, mode="bilinear", align_corners=False)


@register_architecture(
    "Panoptic-DeepLab, ResNet-52",
    "Cheng, Collins, Zhu, Liu, Huang, Adam, Chen 2019",
    task="segmentation",
    licence="Apache-2.0",
    input_shape=(3, 512, 1024),
    outputs=("semantic", "center", "offset"),
    residuals=("backbone.layer*.bn3",),
    norm_shift=1.0,
)
def panoptic_deeplab() -> nn.Module:
    return PanopticDeepLab()
