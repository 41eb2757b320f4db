# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt: 7x7 depthwise convolutions, layer norms, GELU. Modules are named as the authors' code names them."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Liu, Mao, Wu, Feichtenhofer, Darrell, Xie 2022"


class LayerNorm2d(nn.LayerNorm):
    """Over the channels of NCHW."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Block(nn.Module):
    """Depthwise 7x7, then two linear layers at every pixel, channels last; the branch is scaled by `gamma`."""

    def __init__(self, dim: int, layer_scale: float = 1e-6) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(layer_scale * torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        x = self.dwconv(x)
        x = x.permute(0, 2, 3, 1)  # (N, C, H, W) -> (N, H, W, C)
        x = self.norm(x)
        x = self.pwconv1(x)
        x = self.act(x)
        x = self.pwconv2(x)
        x = self.gamma * x
        x = x.permute(0, 3, 1, 2)  # (N, H, W, C) -> (N, C, H, W)
        return shortcut + x


class ConvNeXt(nn.Module):
    def __init__(self, depths: tuple[int, ...], dims: tuple[int, ...], classes: int = 1000) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, dims[0], kernel_size=4, stride=4), LayerNorm2d(dims[0], eps=1e-6))
        self.downsample_layers = nn.ModuleList([stem])
        for before, after in pairwise(dims):
            self.downsample_layers.append(
                nn.Sequential(LayerNorm2d(before, eps=1e-6), nn.Conv2d(before, after, kernel_size=2, stride=2))
            )
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(dim) for _ in range(depth))) for dim, depth in zip(dims, depths, strict=True)
        )
        self.norm = nn.LayerNorm(dims[-1], eps=1e-6)
        self.head = nn.Linear(dims[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for downsample, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = downsample(x)
            x = stage(x)
        x = self.norm(x.mean([-2, -1]))
        return self.head(x)


@register_architecture("ConvNeXt-T", PAPER, licence="MIT", parameters=28.589, gmacs=4.46, residuals=("stages.*.gamma",))
def convnext_tiny() -> nn.Module:
    return ConvNeXt((3, 3, 9, 3), (96, 192, 384, 768))
