# SPDX-License-Identifier: Apache-2.0
"""Detectors upon a feature pyramid: RetinaNet, and FCOS, whose heads have group norms. Named as torchvision's.

Outputs are what torchvision's heads give before boxes are decoded: all positions of all levels in one dimension.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import BasicBlock, Bottleneck, ResNetStages

FPN = "Lin, Dollár, Girshick, He, Hariharan, Belongie 2016"
RETINANET = "Lin, Goyal, Girshick, He, Dollár 2017"
FCOS_PAPER = "Tian, Shen, Chen, He 2019"


class FeaturePyramidNetwork(nn.Module):
    """Maps of one width from top to bottom, and two more by strides."""

    def __init__(self, inputs: tuple[int, ...], width: int = 256) -> None:
        super().__init__()
        self.inner_blocks = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in inputs)
        self.layer_blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in inputs)
        self.p6 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.p7 = nn.Conv2d(width, width, 3, stride=2, padding=1)

    def forward(self, maps: list[torch.Tensor]) -> list[torch.Tensor]:
        last = self.inner_blocks[-1](maps[-1])
        results = [self.layer_blocks[-1](last)]
        for index in range(len(maps) - 2, -1, -1):
            lateral = self.inner_blocks[index](maps[index])
            top_down = F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            last = lateral + top_down
            results.insert(0, self.layer_blocks[index](last))
        p6 = self.p6(results[-1])
        p7 = self.p7(F.relu(p6))
        return [*results, p6, p7]


class Backbone(nn.Module):
    def __init__(self, block: type[BasicBlock] | type[Bottleneck], layers: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.body = ResNetStages(block, layers)
        e = block.expansion
        self.fpn = FeaturePyramidNetwork((128 * e, 256 * e, 512 * e))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return self.fpn(list(self.body(x)[1:]))


def flattened(x: torch.Tensor, values: int) -> torch.Tensor:
    """(N, anchors * values, H, W) to (N, H * W * anchors, values)."""
    batch, _, height, width = x.shape
    x = x.view(batch, -1, values, height, width)
    x = x.permute(0, 3, 4, 1, 2)
    return x.reshape(batch, -1, values)


class RetinaNetHead(nn.Module):
    """Four convolutions and one that predicts; the same for all levels."""

    def __init__(self, channels: int, anchors: int, values: int, name: str, prior: float | None = None) -> None:
        super().__init__()
        self.values = values
        self.name = name
        convs: list[nn.Module] = []
        for _ in range(4):
            convs += [nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())]
        self.conv = nn.Sequential(*convs)
        predictor = nn.Conv2d(channels, anchors * values, 3, padding=1)
        if prior is not None:
            nn.init.constant_(predictor.bias, -math.log((1 - prior) / prior))  # type: ignore[arg-type]
        setattr(self, name, predictor)

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        predictor = getattr(self, self.name)
        return torch.cat([flattened(predictor(self.conv(features)), self.values) for features in maps], dim=1)


class RetinaNet(nn.Module):
    def __init__(self, backbone: Backbone, classes: int = 91, anchors: int = 9) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.ModuleDict(
            {
                "classification_head": RetinaNetHead(256, anchors, classes, "cls_logits", prior=0.01),
                "regression_head": RetinaNetHead(256, anchors, 4, "bbox_reg"),
            }
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self.backbone(x)
        return self.head["classification_head"](maps), self.head["regression_head"](maps)


def fcos_tower(channels: int = 256) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(32, channels), nn.ReLU()]
    return nn.Sequential(*layers)


class FCOSClassificationHead(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.conv = fcos_tower()
        self.cls_logits = nn.Conv2d(256, classes, 3, padding=1)

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([flattened(self.cls_logits(self.conv(x)), self.classes) for x in maps], dim=1)


class FCOSRegressionHead(nn.Module):
    """Distances to four sides, and how near to the middle of its box a position is."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = fcos_tower()
        self.bbox_reg = nn.Conv2d(256, 4, 3, padding=1)
        self.bbox_ctrness = nn.Conv2d(256, 1, 3, padding=1)

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        distances, centerness = [], []
        for x in maps:
            x = self.conv(x)
            distances.append(flattened(F.relu(self.bbox_reg(x)), 4))
            centerness.append(flattened(self.bbox_ctrness(x), 1))
        return torch.cat(distances, dim=1), torch.cat(centerness, dim=1)


class FCOS(nn.Module):
    def __init__(self, backbone: Backbone, classes: int = 91) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.ModuleDict(
            {"classification_head": FCOSClassificationHead(classes), "regression_head": FCOSRegressionHead()}
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        maps = self.backbone(x)
        distances, centerness = self.head["regression_head"](maps)
        return self.head["classification_head"](maps), distances, centerness


@register_architecture(
    "RetinaNet, ResNet-18 FPN",
    f"{RETINANET}; {FPN}",
    task="detection",
    input_shape=(3, 512, 512),
    outputs=("class_logits", "box_deltas"),
    residuals=("backbone.body.layer*.bn2",),
)
def retinanet_resnet18_fpn() -> nn.Module:
    return RetinaNet(Backbone(BasicBlock, (2, 2, 2, 2)))


@register_architecture(
    "RetinaNet, ResNet-50 FPN",
    f"{RETINANET}; {FPN}",
    task="detection",
    licence="BSD-3-Clause",
    input_shape=(3, 512, 512),
    outputs=("class_logits", "box_deltas"),
    parameters=34.015,
    residuals=("backbone.body.layer*.bn3",),
)
def retinanet_resnet50_fpn() -> nn.Module:
    return RetinaNet(Backbone(Bottleneck, (3, 4, 6, 3)))


@register_architecture(
    "FCOS, ResNet-50 FPN",
    FCOS_PAPER,
    task="detection",
    licence="BSD-3-Clause",
    input_shape=(3, 512, 512),
    outputs=("class_logits", "distances", "centerness"),
    parameters=32.270,
    residuals=("backbone.body.layer*.bn3",),
)
def fcos_resnet50_fpn() -> nn.Module:
    return FCOS(Backbone(Bottleneck, (3, 4, 6, 3)))
