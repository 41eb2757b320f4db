# SPDX-License-Identifier: Apache-2.0
"""DeepLabV3: dilated convolutions at several rates side by side upon a backbone. Named as torchvision's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.mobilenet import large_rows, v3_features
from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import Bottleneck, ResNetStages

PAPER = "Chen, Papandreou, Schroff, Adam 2017"


class ASPPConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )


class ASPPPooling(nn.Sequential):
    """The mean of the image, at every pixel."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.shape[-2:]
        for module in self:
            x = module(x)
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    def __init__(self, inputs: int, rates: tuple[int, int, int], outputs: int = 256) -> None:
        super().__init__()
        first = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        dilated = [ASPPConv(inputs, outputs, rate) for rate in rates]
        self.convs = nn.ModuleList([first, *dilated, ASPPPooling(inputs, outputs)])
        self.project = nn.Sequential(
            nn.Conv2d(len(self.convs) * outputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Dropout(0.5),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.project(torch.cat([conv(x) for conv in self.convs], dim=1))


class DeepLabHead(nn.Sequential):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(
            ASPP(inputs, (12, 24, 36)),
            nn.Conv2d(256, 256, 3, padding=1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.Conv2d(256, classes, 1),
        )


class FCNHead(nn.Sequential):
    def __init__(self, inputs: int, classes: int) -> None:
        inner = inputs // 4
        super().__init__(
            nn.Conv2d(inputs, inner, 3, padding=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(inner, classes, 1),
        )


class MobileNetBackbone(nn.Sequential):
    """MobileNetV3 Large, a sixteenth of the height and width: its map before the third stride, and its last."""

    def __init__(self) -> None:
        super().__init__(*v3_features(large_rows(dilated=True)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        early = x
        for index, layer in enumerate(self):
            x = layer(x)
            if index == 4:
                early = x
        return early, x


class ResNetBackbone(ResNetStages):
    """ResNet-50, an eighth of the height and width: what the last two stages give."""

    def __init__(self) -> None:
        super().__init__(Bottleneck, (3, 4, 6, 3), dilate=(True, True))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        return self.stages(x)[2:]


class DeepLabV3(nn.Module):
    def __init__(self, backbone: nn.Module, early: int, last: int, classes: int = 21) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = DeepLabHead(last, classes)
        self.aux_classifier = FCNHead(early, classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = x.shape[-2:]
        early, last = self.backbone(x)
        out = F.interpolate(self.classifier(last), size=size, mode="bilinear", align_corners=False)
        aux = F.interpolate(self.aux_classifier(early), size=size, mode="bilinear", align_corners=False)
        return out, aux


@register_architecture(
    "DeepLabV3, MobileNetV3 Large",
    PAPER,
    task="segmentation",
    licence="BSD-3-Clause",
    input_shape=(3, 512, 512),
    outputs=("out", "aux"),
    parameters=11.029,
    residuals=("backbone.*.block.last.last",),
    norm_shift=1.0,
)
def deeplabv3_mobilenet_v3_large() -> nn.Module:
    return DeepLabV3(MobileNetBackbone(), 40, 960)


@register_architecture(
    "DeepLabV3, ResNet-50",
    PAPER,
    task="segmentation",
    licence="BSD-3-Clause",
    input_shape=(3, 256, 256),
    outputs=("out", "aux"),
    parameters=42.004,
    residuals=("backbone.layer*.bn3",),
)
def deeplabv3_resnet50() -> nn.Module:
    return DeepLabV3(ResNetBackbone(), 1024, 2048)
