# SPDX-License-Identifier: Apache-2.0
"""SSD300: six maps of a VGG-16 and of convolutions behind it, the first scaled by its norm. Named as torchvision's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.vgg import LAYERS, convolutions

PAPER = "Liu, Anguelov, Erhan, Szegedy, Reed, Fu, Berg 2015"
ANCHORS = (4, 6, 6, 6, 4, 4)
"""At each position of the six maps."""


def extra(inputs: int, inner: int, outputs: int, stride: int) -> nn.Sequential:
    padding = 1 if stride == 2 else 0
    return nn.Sequential(
        nn.Conv2d(inputs, inner, kernel_size=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(inner, outputs, kernel_size=3, stride=stride, padding=padding),
        nn.ReLU(inplace=True),
    )


class SSDFeatureExtractorVGG(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        vgg = convolutions(LAYERS[16], batch_norm=False)
        vgg[16].ceil_mode = True  # type: ignore[assignment]  # the third maximum: 75 pixels become 38
        self.scale_weight = nn.Parameter(torch.ones(512) * 20)
        self.features = nn.Sequential(*list(vgg)[:23])
        fc = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(512, 1024, kernel_size=3, padding=6, dilation=6),
            nn.ReLU(inplace=True),
            nn.Conv2d(1024, 1024, kernel_size=1),
            nn.ReLU(inplace=True),
        )
        self.extra = nn.ModuleList(
            [
                nn.Sequential(*list(vgg)[23:-1], fc),
                extra(1024, 256, 512, 2),
                extra(512, 128, 256, 2),
                extra(256, 128, 256, 1),
                extra(256, 128, 256, 1),
            ]
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.features(x)
        maps = [self.scale_weight.view(1, -1, 1, 1) * F.normalize(x)]
        for block in self.extra:
            x = block(x)
            maps.append(x)
        return maps


class SSDScoringHead(nn.Module):
    def __init__(self, inputs: tuple[int, ...], values: int) -> None:
        super().__init__()
        self.values = values
        self.module_list = nn.ModuleList(
            nn.Conv2d(channels, values * anchors, kernel_size=3, padding=1)
            for channels, anchors in zip(inputs, ANCHORS, strict=True)
        )

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        results = []
        for conv, x in zip(self.module_list, maps, strict=True):
            y = conv(x)
            N, _, H, W = y.shape
            y = y.view(N, -1, self.values, H, W).permute(0, 3, 4, 1, 2)
            results.append(y.reshape(N, -1, self.values))
        return torch.cat(results, dim=1)


class SSD300(nn.Module):
    def __init__(self, classes: int = 91) -> None:
        super().__init__()
        inputs = (512, 1024, 512, 256, 256, 256)
        self.backbone = SSDFeatureExtractorVGG()
        self.head = nn.ModuleDict(
            {
                "classification_head": SSDScoringHead(inputs, classes),
                "regression_head": SSDScoringHead(inputs, 4),
            }
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self.backbone(x)
        return self.head["classification_head"](maps), self.head["regression_head"](maps)


@register_architecture(
    "SSD300, VGG-16",
    PAPER,
    task="detection",
    licence="BSD-3-Clause",
    input_shape=(3, 300, 300),
    outputs=("class_logits", "box_deltas"),
    parameters=35.642,
    gmacs=34.86,
)
def ssd300_vgg16() -> nn.Module:
    return SSD300()
