# SPDX-License-Identifier: Apache-2.0
"""Ultra fast lane detection: for each lane and each row, which cell of the row; one linear layer over the image."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import BasicBlock, ResNetStages

PAPER = "Qin, Wang, Li 2020"


class UltraFastLane(nn.Module):
    """(N, cells + 1, rows, lanes): logits of cells, the last for no lane. The defaults are those for TuSimple."""

    def __init__(self, cells: int = 100, rows: int = 56, lanes: int = 4, size: tuple[int, int] = (288, 800)) -> None:
        super().__init__()
        self.cls_dim = (cells + 1, rows, lanes)
        self.flat = 8 * (size[0] // 32) * (size[1] // 32)
        self.model = ResNetStages(BasicBlock, (2, 2, 2, 2))
        self.pool = nn.Conv2d(512, 8, 1)
        self.cls = nn.Sequential(nn.Linear(self.flat, 2048), nn.ReLU(), nn.Linear(2048, (cells + 1) * rows * lanes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fea = self.model(x)[-1]
        fea = self.pool(fea).view(-1, self.flat)
        return self.cls(fea).view(-1, *self.cls_dim)


@register_architecture(
    "Ultra fast lane detection, ResNet-18",
    PAPER,
    task="detection",
    licence="MIT",
    input_shape=(3, 288, 800),
    outputs=("lanes",),
    residuals=("model.layer*.bn2",),
)
def ufld_resnet18() -> nn.Module:
    return UltraFastLane()
