# SPDX-License-Identifier: Apache-2.0
"""Swin: attention inside windows, which are shifted in every other block. Modules are named as the authors' code."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.vision_transformer import Mlp

PAPER = "Liu, Lin, Cao, Hu, Wei, Zhang, Lin, Guo 2021"
WINDOW = 7


def window_partition(x: torch.Tensor, size: int) -> torch.Tensor:
    """(N, H, W, C) to (N * windows, size, size, C)."""
    B, H, W, C = x.shape
    x = x.view(B, H // size, size, W // size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, C)


def window_reverse(windows: torch.Tensor, size: int, H: int, W: int) -> torch.Tensor:
    B = windows.shape[0] // (H // size * (W // size))
    x = windows.view(B, H // size, W // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


def relative_positions(size: int) -> torch.Tensor:
    """For each pair of positions in a window, which entry of the table of biases is theirs."""
    coords = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
    relative = coords[:, :, None] - coords[:, None, :] + size - 1
    return relative[0] * (2 * size - 1) + relative[1]


def shifted_mask(resolution: int, size: int, shift: int) -> torch.Tensor:
    """-100 between positions that the shift has brought into one window from opposite sides of the image."""
    regions = torch.zeros(1, resolution, resolution, 1)
    parts = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
    for number, (rows, columns) in enumerate((rows, columns) for rows in parts for columns in parts):
        regions[:, rows, columns, :] = number
    windows = window_partition(regions, size).view(-1, size * size)
    differs = windows.unsqueeze(1) - windows.unsqueeze(2)
    return torch.zeros_like(differs).masked_fill(differs != 0, -100.0)


class WindowAttention(nn.Module):
    def __init__(self, dim: int, size: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.scale = (dim // heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * size - 1) ** 2, heads))
        self.register_buffer("relative_position_index", relative_positions(size))
        self.relative_position_index: torch.Tensor
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.softmax = nn.Softmax(dim=-1)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1)
        attn = attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            windows = mask.shape[0]
            attn = attn.view(B_ // windows, windows, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.softmax(attn)
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj(x)


class SwinTransformerBlock(nn.Module):
    def __init__(self, dim: int, resolution: int, heads: int, shift: int) -> None:
        super().__init__()
        self.resolution = resolution
        self.shift_size = 0 if resolution <= WINDOW else shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, WINDOW, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, 4 * dim)
        mask = shifted_mask(resolution, WINDOW, self.shift_size) if self.shift_size else None
        self.register_buffer("attn_mask", mask)
        self.attn_mask: torch.Tensor | None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        H = W = self.resolution
        B, _, C = x.shape
        shortcut = x
        x = self.norm1(x)
        x = x.view(B, H, W, C)
        if self.shift_size > 0:
            x = torch.roll(x, shifts=(-self.shift_size, -self.shift_size), dims=(1, 2))
        windows = window_partition(x, WINDOW).view(-1, WINDOW * WINDOW, C)
        windows = self.attn(windows, self.attn_mask)
        x = window_reverse(windows.view(-1, WINDOW, WINDOW, C), WINDOW, H, W)
        if self.shift_size > 0:
            x = torch.roll(x, shifts=(self.shift_size, self.shift_size), dims=(1, 2))
        x = shortcut + x.view(B, H * W, C)
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    """Four neighbours become one, with twice the channels."""

    def __init__(self, resolution: int, dim: int) -> None:
        super().__init__()
        self.resolution = resolution
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, _, C = x.shape
        x = x.view(B, self.resolution, self.resolution, C)
        x0 = x[:, 0::2, 0::2, :]
        x1 = x[:, 1::2, 0::2, :]
        x2 = x[:, 0::2, 1::2, :]
        x3 = x[:, 1::2, 1::2, :]
        x = torch.cat([x0, x1, x2, x3], -1)
        x = x.view(B, -1, 4 * C)
        return self.reduction(self.norm(x))


class BasicLayer(nn.Module):
    def __init__(self, dim: int, resolution: int, depth: int, heads: int, last: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            SwinTransformerBlock(dim, resolution, heads, 0 if index % 2 == 0 else WINDOW // 2) for index in range(depth)
        )
        self.downsample = None if last else PatchMerging(resolution, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x if self.downsample is None else self.downsample(x)


class PatchEmbed(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=4, stride=4)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.proj(x).flatten(2).transpose(1, 2)
        return self.norm(x)


class SwinTransformer(nn.Module):
    """Masks of the shifted windows are made for images of 224 pixels."""

    def __init__(
        self, dim: int, depths: tuple[int, ...], heads: tuple[int, ...], resolution: int = 224, classes: int = 1000
    ) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(dim)
        self.layers = nn.ModuleList(
            BasicLayer(dim * 2**index, resolution // (4 * 2**index), depth, count, index == len(depths) - 1)
            for index, (depth, count) in enumerate(zip(depths, heads, strict=True))
        )
        features = dim * 2 ** (len(depths) - 1)
        self.norm = nn.LayerNorm(features)
        self.avgpool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(features, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(x)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        x = self.avgpool(x.transpose(1, 2))
        x = torch.flatten(x, 1)
        return self.head(x)


RESIDUALS = ("layers.*.attn.proj", "layers.*.mlp.fc2")


@register_architecture("Swin-T", PAPER, licence="MIT", parameters=28.288, gmacs=4.5, residuals=RESIDUALS)
def swin_tiny() -> nn.Module:
    return SwinTransformer(96, (2, 2, 6, 2), (3, 6, 12, 24))


@register_architecture("Swin-S", PAPER, licence="MIT", parameters=49.606, gmacs=8.75, residuals=RESIDUALS)
def swin_small() -> nn.Module:
    return SwinTransformer(96, (2, 2, 18, 2), (3, 6, 12, 24))
