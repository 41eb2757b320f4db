# SPDX-License-Identifier: Apache-2.0
"""Joints as maps: the simple baseline, three transposed convolutions upon a ResNet. Named as the authors' code."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import Bottleneck, ResNetStages

PAPER = "Xiao, Wu, Wei 2018"


class PoseResNet(ResNetStages):
    def __init__(self, layers: tuple[int, int, int, int], joints: int = 17) -> None:
        super().__init__(Bottleneck, layers)
        deconvs: list[nn.Module] = []
        inputs = 2048
        for _ in range(3):
            deconvs += [
                nn.ConvTranspose2d(inputs, 256, kernel_size=4, stride=2, padding=1, output_padding=0, bias=False),
                nn.BatchNorm2d(256),
                nn.ReLU(inplace=True),
            ]
            inputs = 256
        self.deconv_layers = nn.Sequential(*deconvs)
        self.final_layer = nn.Conv2d(256, joints, kernel_size=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        x = self.stages(x)[-1]
        x = self.deconv_layers(x)
        return self.final_layer(x)


@register_architecture(
    "Simple baseline, ResNet-50",
    PAPER,
    task="keypoints",
    licence="MIT",
    input_shape=(3, 256, 192),
    outputs=("heatmaps",),
    parameters=34.0,
    residuals=("layer*.bn3",),
)
def pose_resnet50() -> nn.Module:
    return PoseResNet((3, 4, 6, 3))
