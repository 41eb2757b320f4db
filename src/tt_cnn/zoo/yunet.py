# SPDX-License-Identifier: Apache-2.0
"""YuNet: faces with 76 thousand parameters, 1x1 convolutions before depthwise ones. Named as the authors' code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Wu, Peng, Yu 2023"
STRIDES = (8, 16, 32)


class ConvDPUnit(nn.Module):
    def __init__(self, inputs: int, outputs: int, norm_and_relu: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 1, 1, 0, bias=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=True, groups=outputs)
        self.norm_and_relu = norm_and_relu
        if norm_and_relu:
            self.bn = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv2(self.conv1(x))
        if self.norm_and_relu:
            x = self.relu(self.bn(x))
        return x


class ConvHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 2, 1, bias=True)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = ConvDPUnit(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.relu1(self.bn1(self.conv1(x))))


class Conv4layerBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = ConvDPUnit(inputs, inputs)
        self.conv2 = ConvDPUnit(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.conv1(x))


class YuNetBackbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model0 = ConvHead()
        self.model1 = Conv4layerBlock(16, 64)
        self.model2 = Conv4layerBlock(64, 64)
        self.model3 = Conv4layerBlock(64, 64)
        self.model4 = Conv4layerBlock(64, 64)
        self.model5 = Conv4layerBlock(64, 64)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = F.max_pool2d(self.model0(x), 2)
        x = F.max_pool2d(self.model2(self.model1(x)), 2)
        p3 = self.model3(x)
        p4 = self.model4(F.max_pool2d(p3, 2))
        p5 = self.model5(F.max_pool2d(p4, 2))
        return [p3, p4, p5]


class TFPN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lateral_convs = nn.ModuleList(ConvDPUnit(64, 64) for _ in STRIDES)

    def forward(self, feats: list[torch.Tensor]) -> list[torch.Tensor]:
        p3, p4, p5 = feats
        p5 = self.lateral_convs[2](p5)
        p4 = self.lateral_convs[1](p4 + F.interpolate(p5, scale_factor=2.0, mode="nearest"))
        p3 = self.lateral_convs[0](p3 + F.interpolate(p4, scale_factor=2.0, mode="nearest"))
        return [p3, p4, p5]


class YuNet(nn.Module):
    """For each stride: classes, objectness (both after the sigmoid), boxes and five landmarks, by position."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = YuNetBackbone()
        self.neck = TFPN()
        self.multi_level_share_convs = nn.ModuleList(ConvDPUnit(64, 64) for _ in STRIDES)
        self.multi_level_cls = nn.ModuleList(ConvDPUnit(64, 1, False) for _ in STRIDES)
        self.multi_level_bbox = nn.ModuleList(ConvDPUnit(64, 4, False) for _ in STRIDES)
        self.multi_level_obj = nn.ModuleList(ConvDPUnit(64, 1, False) for _ in STRIDES)
        self.multi_level_kps = nn.ModuleList(ConvDPUnit(64, 10, False) for _ in STRIDES)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        feats = self.neck(self.backbone(x))
        feats = [conv(feat) for conv, feat in zip(self.multi_level_share_convs, feats, strict=True)]
        cls = [self._flat(conv(f)).sigmoid() for conv, f in zip(self.multi_level_cls, feats, strict=True)]
        obj = [self._flat(conv(f)).sigmoid() for conv, f in zip(self.multi_level_obj, feats, strict=True)]
        bbox = [self._flat(conv(f)) for conv, f in zip(self.multi_level_bbox, feats, strict=True)]
        kps = [self._flat(conv(f)) for conv, f in zip(self.multi_level_kps, feats, strict=True)]
        return (*cls, *obj, *bbox, *kps)

    @staticmethod
    def _flat(x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1).reshape(x.size(0), -1, x.size(1))


@register_architecture(
    "YuNet",
    PAPER,
    task="detection",
    licence="MIT",
    input_shape=(3, 320, 320),
    outputs=tuple(f"{what}_{stride}" for what in ("cls", "obj", "bbox", "kps") for stride in STRIDES),
    parameters=0.075856,
    norm_shift=1.5,
)
def yunet() -> nn.Module:
    return YuNet()
