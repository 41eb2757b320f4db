# SPDX-License-Identifier: Apache-2.0
"""PSPNet: means over a pyramid of regions beside the map of a dilated ResNet. Named as mmsegmentation's heads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.deeplab import FCNHead, ResNetBackbone
from tt_cnn.zoo.registry import register_architecture

PAPER = "Zhao, Shi, Qi, Wang, Jia 2016"


class PyramidPooling(nn.Module):
    def __init__(self, inputs: int, outputs: int, bins: tuple[int, ...]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(size),
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            )
            for size in bins
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = [x]
        for stage in self.stages:
            maps.append(F.interpolate(stage(x), x.size()[2:], mode="bilinear", align_corners=True))
        return torch.cat(maps, 1)


class PSPNet(nn.Module):
    """Both heads at the size of the image."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.backbone = ResNetBackbone()
        self.psp_modules = PyramidPooling(2048, 512, (1, 2, 3, 6))
        self.bottleneck = nn.Sequential(
            nn.Conv2d(2048 + 4 * 512, 512, 3, padding=1, bias=False), nn.BatchNorm2d(512), nn.ReLU(inplace=True)
        )
        self.dropout = nn.Dropout2d(0.1)
        self.conv_seg = nn.Conv2d(512, classes, 1)
        self.auxiliary_head = FCNHead(1024, classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = x.shape[2:]
        early, last = self.backbone(x)
        out = self.conv_seg(self.dropout(self.bottleneck(self.psp_modules(last))))
        out = F.interpolate(out, size=size, mode="bilinear", align_corners=True)
        aux = F.interpolate(self.auxiliary_head(early), size=size, mode="bilinear", align_corners=True)
        return out, aux


@register_architecture(
    "PSPNet, ResNet-50",
    PAPER,
    task="segmentation",
    licence="Apache-2.0",
    input_shape=(3, 240, 240),
    outputs=("out", "aux"),
    parameters=48.97,
    residuals=("backbone.layer*.bn3",),
)
def pspnet_resnet50() -> nn.Module:
    return PSPNet()
