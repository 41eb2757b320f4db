# SPDX-License-Identifier: Apache-2.0
"""HRNet: branches of several resolutions side by side, which exchange what they have found. Named as the authors'."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import BasicBlock, Bottleneck

PAPER = "Wang, Sun, Cheng, Jiang, Deng, Zhao, Liu, Mu, Tan, Wang, Liu, Xiao 2019"


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class HighResolutionModule(nn.Module):
    """Four blocks on each branch, then every branch gets the sum of all, brought to its resolution."""

    def __init__(self, widths: tuple[int, ...], blocks: int = 4) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(*(BasicBlock(width, width) for _ in range(blocks))) for width in widths
        )
        self.fuse_layers = nn.ModuleList(
            nn.ModuleList(self._path(widths, source, target) for source in range(len(widths)))
            for target in range(len(widths))
        )
        self.relu = nn.ReLU()

    @staticmethod
    def _path(widths: tuple[int, ...], source: int, target: int) -> nn.Module:
        if source == target:
            return nn.Identity()
        if source > target:
            up = nn.Upsample(scale_factor=2 ** (source - target), mode="nearest")
            return nn.Sequential(*conv_norm(widths[source], widths[target], 1), up)
        steps = [
            nn.Sequential(*conv_norm(widths[source], widths[source], 3, 2), nn.ReLU())
            for _ in range(target - source - 1)
        ]
        return nn.Sequential(*steps, nn.Sequential(*conv_norm(widths[source], widths[target], 3, 2)))

    def forward(self, maps: list[torch.Tensor]) -> list[torch.Tensor]:
        maps = [branch(x) for branch, x in zip(self.branches, maps, strict=True)]
        fused = []
        for paths in self.fuse_layers:
            assert isinstance(paths, nn.ModuleList)
            y = paths[0](maps[0])
            for path, x in zip(list(paths)[1:], maps[1:], strict=True):
                y = y + path(x)
            fused.append(self.relu(y))
        return fused


class HRNet(nn.Module):
    def __init__(self, width: int, modules: tuple[int, int, int] = (1, 4, 3), classes: int = 1000) -> None:
        super().__init__()
        widths = tuple(width * 2**power for power in range(4))
        self.conv1, self.bn1 = conv_norm(3, 64, 3, 2)
        self.conv2, self.bn2 = conv_norm(64, 64, 3, 2)
        self.layer1 = nn.Sequential(Bottleneck(64, 64), *(Bottleneck(256, 64) for _ in range(3)))
        self.transition1 = nn.ModuleList([self._first(256, widths[0]), nn.Sequential(self._down(256, widths[1]))])
        self.stage2 = nn.ModuleList(HighResolutionModule(widths[:2]) for _ in range(modules[0]))
        self.transition2 = nn.Sequential(self._down(widths[1], widths[2]))
        self.stage3 = nn.ModuleList(HighResolutionModule(widths[:3]) for _ in range(modules[1]))
        self.transition3 = nn.Sequential(self._down(widths[2], widths[3]))
        self.stage4 = nn.ModuleList(HighResolutionModule(widths) for _ in range(modules[2]))
        heads = (32, 64, 128, 256)
        self.incre_modules = nn.ModuleList(
            nn.Sequential(Bottleneck(inputs, head)) for inputs, head in zip(widths, heads, strict=True)
        )
        self.downsamp_modules = nn.ModuleList(
            nn.Sequential(nn.Conv2d(head * 4, head * 8, 3, 2, 1), nn.BatchNorm2d(head * 8), nn.ReLU())
            for head in heads[:-1]
        )
        self.final_layer = nn.Sequential(nn.Conv2d(1024, 2048, 1), nn.BatchNorm2d(2048), nn.ReLU())
        self.classifier = nn.Linear(2048, classes)

    @staticmethod
    def _first(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(*conv_norm(inputs, outputs, 3), nn.ReLU())

    @staticmethod
    def _down(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(*conv_norm(inputs, outputs, 3, 2), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = self.layer1(x)
        maps = [transition(x) for transition in self.transition1]
        for module in self.stage2:
            maps = module(maps)
        maps.append(self.transition2(maps[-1]))
        for module in self.stage3:
            maps = module(maps)
        maps.append(self.transition3(maps[-1]))
        for module in self.stage4:
            maps = module(maps)
        y = self.incre_modules[0](maps[0])
        for down, widen, x in zip(self.downsamp_modules, list(self.incre_modules)[1:], maps[1:], strict=True):
            y = widen(x) + down(y)
        y = self.final_layer(y)
        y = F.avg_pool2d(y, kernel_size=y.size()[2:]).view(y.size(0), -1)
        return self.classifier(y)


@register_architecture(
    "HRNet-W18",
    PAPER,
    licence="MIT",
    parameters=21.299,
    gmacs=4.32,
    residuals=("stage*.branches.*.bn2", "layer1.*.bn3"),
)
def hrnet_w18() -> nn.Module:
    return HRNet(18)
