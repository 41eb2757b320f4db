# SPDX-License-Identifier: Apache-2.0
"""DeepLabV3+: the map of DeepLabV3, refined by an early one before it grows to the picture's size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.deeplab import ASPP
from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import Bottleneck, ResNetStages

EARLY_CHANNELS = 48
"""Of the early map in the decoder: few beside the 256 of the late one, which would else count less."""


def conv_norm(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class ResNetBackbone(ResNetStages):
    """ResNet-50, a sixteenth of the height and width: what the first stage and the last give."""

    def __init__(self) -> None:
        super().__init__(Bottleneck, (3, 4, 6, 3), dilate=(False, True))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        first, _, _, last = self.stages(x)
        return first, last


class DeepLabV3Plus(nn.Module):
    def __init__(self, backbone: nn.Module, early: int, last: int, classes: int = 21) -> None:
        super().__init__()
        self.backbone = backbone
        self.aspp = ASPP(last, (6, 12, 18))
        self.project = conv_norm(early, EARLY_CHANNELS, 1)
        self.decoder = nn.Sequential(
            conv_norm(256 + EARLY_CHANNELS, 256, 3), conv_norm(256, 256, 3), nn.Conv2d(256, classes, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        early, last = self.backbone(x)
        late = F.interpolate(self.aspp(last), size=early.shape[-2:], mode="bilinear", align_corners=False)
        out = self.decoder(torch.cat([self.project(early), late], dim=1))
        return F.interpolate(out, size=x.shape[-2:], mode="bilinear", align_corners=False)


@register_architecture(
    "DeepLabV3+, ResNet-50",
    "Chen, Zhu, Papandreou, Schroff, Adam 2018",
    task="segmentation",
    input_shape=(3, 256, 256),
    residuals=("backbone.layer*.bn3",),
)
def deeplabv3plus_resnet50() -> nn.Module:
    return DeepLabV3Plus(ResNetBackbone(), 256, 2048)
