# SPDX-License-Identifier: Apache-2.0
"""Lightweight OpenPose: maps of joints and of the fields between them, refined once. Named as the authors' code."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Osokin 2018"


def conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, dilation: int = 1, bn: bool = True, relu: bool = True
) -> nn.Sequential:
    padding = kernel // 2 * dilation
    modules: list[nn.Module] = [nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=True)]
    if bn:
        modules.append(nn.BatchNorm2d(outputs))
    if relu:
        modules.append(nn.ReLU(inplace=True))
    return nn.Sequential(*modules)


def conv_dw(inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, dilation, dilation, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def conv_dw_no_bn(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, 1, 1, groups=channels, bias=False),
        nn.ELU(inplace=True),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.ELU(inplace=True),
    )


class Cpm(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.align = conv(inputs, outputs, 1, bn=False)
        self.trunk = nn.Sequential(conv_dw_no_bn(outputs), conv_dw_no_bn(outputs), conv_dw_no_bn(outputs))
        self.conv = conv(outputs, outputs, bn=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.align(x)
        return self.conv(x + self.trunk(x))


def predictor(inputs: int, inner: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv(inputs, inner, 1, bn=False), conv(inner, outputs, 1, bn=False, relu=False))


class InitialStage(nn.Module):
    def __init__(self, channels: int, heatmaps: int, pafs: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*(conv(channels, channels, bn=False) for _ in range(3)))
        self.heatmaps = predictor(channels, 512, heatmaps)
        self.pafs = predictor(channels, 512, pafs)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.trunk(x)
        return [self.heatmaps(x), self.pafs(x)]


class RefinementStageBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.initial = conv(inputs, outputs, 1, bn=False)
        self.trunk = nn.Sequential(conv(outputs, outputs), conv(outputs, outputs, dilation=2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        initial = self.initial(x)
        return initial + self.trunk(initial)


class RefinementStage(nn.Module):
    def __init__(self, inputs: int, channels: int, heatmaps: int, pafs: int) -> None:
        super().__init__()
        rest = [RefinementStageBlock(channels, channels) for _ in range(4)]
        self.trunk = nn.Sequential(RefinementStageBlock(inputs, channels), *rest)
        self.heatmaps = predictor(channels, channels, heatmaps)
        self.pafs = predictor(channels, channels, pafs)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.trunk(x)
        return [self.heatmaps(x), self.pafs(x)]


class PoseEstimationWithMobileNet(nn.Module):
    def __init__(self, channels: int = 128, heatmaps: int = 19, pafs: int = 38) -> None:
        super().__init__()
        self.model = nn.Sequential(
            conv(3, 32, stride=2),
            conv_dw(32, 64),
            conv_dw(64, 128, stride=2),
            conv_dw(128, 128),
            conv_dw(128, 256, stride=2),
            conv_dw(256, 256),
            conv_dw(256, 512),
            conv_dw(512, 512, dilation=2),
            *(conv_dw(512, 512) for _ in range(4)),
        )
        self.cpm = Cpm(512, channels)
        self.initial_stage = InitialStage(channels, heatmaps, pafs)
        self.refinement_stages = nn.ModuleList([RefinementStage(channels + heatmaps + pafs, channels, heatmaps, pafs)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.cpm(self.model(x))
        outputs = self.initial_stage(features)
        for stage in self.refinement_stages:
            outputs.extend(stage(torch.cat([features, outputs[-2], outputs[-1]], dim=1)))
        return tuple(outputs)


@register_architecture(
    "Lightweight OpenPose",
    PAPER,
    task="keypoints",
    licence="Apache-2.0",
    input_shape=(3, 256, 456),
    outputs=("initial_heatmaps", "initial_pafs", "heatmaps", "pafs"),
    parameters=4.1,
    unit_range=True,
    residuals=("refinement_stages.*.trunk.last.1", "cpm.trunk.2.2"),
    norm_shift=1.5,
)
def lightweight_openpose() -> nn.Module:
    return PoseEstimationWithMobileNet()
