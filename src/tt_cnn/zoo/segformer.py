# SPDX-License-Identifier: Apache-2.0
"""SegFormer: a pyramid of transformers with shortened keys, a decoder of linear layers. Named as the authors' code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Xie, Wang, Yu, Anandkumar, Alvarez, Luo 2021"


class DWConv(nn.Module):
    """A depthwise convolution of tokens, seen as a map."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 3, 1, 1, bias=True, groups=dim)

    def forward(self, x: torch.Tensor, H: int, W: int) -> torch.Tensor:
        B, _, C = x.shape
        x = x.transpose(1, 2).view(B, C, H, W)
        x = self.dwconv(x)
        return x.flatten(2).transpose(1, 2)


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.dwconv = DWConv(hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: torch.Tensor, H: int, W: int) -> torch.Tensor:
        x = self.fc1(x)
        x = self.act(self.dwconv(x, H, W))
        return self.fc2(x)


class Attention(nn.Module):
    """Keys and values are of a map that is `ratio` times smaller."""

    def __init__(self, dim: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.scale = (dim // heads) ** -0.5
        self.sr_ratio = ratio
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, dim * 2)
        self.proj = nn.Linear(dim, dim)
        if ratio > 1:
            self.sr = nn.Conv2d(dim, dim, kernel_size=ratio, stride=ratio)
            self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor, H: int, W: int) -> torch.Tensor:
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        if self.sr_ratio > 1:
            x = x.permute(0, 2, 1).reshape(B, C, H, W)
            x = self.sr(x).reshape(B, C, -1).permute(0, 2, 1)
            x = self.norm(x)
        kv = self.kv(x).reshape(B, -1, 2, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        k, v = kv[0], kv[1]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads, ratio)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, 4 * dim)

    def forward(self, x: torch.Tensor, H: int, W: int) -> torch.Tensor:
        x = x + self.attn(self.norm1(x), H, W)
        return x + self.mlp(self.norm2(x), H, W)


class OverlapPatchEmbed(nn.Module):
    def __init__(self, inputs: int, dim: int, patch: int, stride: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(inputs, dim, patch, stride, patch // 2)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
        x = self.proj(x)
        _, _, H, W = x.shape
        x = x.flatten(2).transpose(1, 2)
        return self.norm(x), H, W


class Stage(nn.Module):
    def __init__(self, inputs: int, dim: int, depth: int, heads: int, ratio: int, first: bool) -> None:
        super().__init__()
        self.patch_embed = OverlapPatchEmbed(inputs, dim, 7 if first else 3, 4 if first else 2)
        self.block = nn.ModuleList(Block(dim, heads, ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B = x.shape[0]
        x, H, W = self.patch_embed(x)
        for block in self.block:
            x = block(x, H, W)
        x = self.norm(x)
        return x.reshape(B, H, W, -1).permute(0, 3, 1, 2).contiguous()


class LinearEmbedding(nn.Module):
    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(inputs, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(2).transpose(1, 2)
        return self.proj(x)


class SegFormerHead(nn.Module):
    def __init__(self, inputs: tuple[int, ...], dim: int, classes: int) -> None:
        super().__init__()
        self.linear_c = nn.ModuleList(LinearEmbedding(width, dim) for width in inputs)
        self.linear_fuse = nn.Sequential(
            nn.Conv2d(dim * len(inputs), dim, kernel_size=1, bias=False), nn.BatchNorm2d(dim), nn.ReLU(inplace=True)
        )
        self.dropout = nn.Dropout2d(0.1)
        self.linear_pred = nn.Conv2d(dim, classes, kernel_size=1)

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        size = maps[0].shape[2:]
        embedded = []
        for linear, x in zip(self.linear_c, maps, strict=True):
            y = linear(x).permute(0, 2, 1).reshape(x.shape[0], -1, x.shape[2], x.shape[3])
            embedded.append(F.interpolate(y, size=size, mode="bilinear", align_corners=False))
        y = self.linear_fuse(torch.cat(embedded[::-1], dim=1))
        return self.linear_pred(self.dropout(y))


class SegFormer(nn.Module):
    """Logits at a quarter of the height and width, as its decoder gives them."""

    def __init__(
        self, dims: tuple[int, ...], depths: tuple[int, ...], heads: tuple[int, ...], decoder: int, classes: int = 150
    ) -> None:
        super().__init__()
        ratios = (8, 4, 2, 1)
        inputs = (3, *dims[:-1])
        self.backbone = nn.ModuleList(
            Stage(*numbers, first=index == 0)
            for index, numbers in enumerate(zip(inputs, dims, depths, heads, ratios, strict=True))
        )
        self.decode_head = SegFormerHead(dims, decoder, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = []
        for stage in self.backbone:
            x = stage(x)
            maps.append(x)
        return self.decode_head(maps)


@register_architecture(
    "SegFormer-B0",
    PAPER,
    task="segmentation",
    licence="NVIDIA Source Code License (non-commercial)",
    input_shape=(3, 512, 512),
    parameters=3.75,
    gmacs=8.4,
    residuals=("backbone.*.attn.proj", "backbone.*.mlp.fc2"),
)
def segformer_b0() -> nn.Module:
    return SegFormer((32, 64, 160, 256), (2, 2, 2, 2), (1, 2, 5, 8), 256)
