# SPDX-License-Identifier: Apache-2.0
"""Vision transformers: patches as words. Attention is written in the three ways that people write it: by hand (DeiT,
named as timm's), with PyTorch's function (the small ViT, the same names), with PyTorch's module (ViT-B, torchvision's).
"""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture

VIT = "Dosovitskiy, Beyer, Kolesnikov, Weissenborn, Zhai, Unterthiner, Dehghani, Minderer, Heigold, Gelly et al. 2020"
DEIT = "Touvron, Cord, Douze, Massa, Sablayrolles, Jégou 2020"


class PatchEmbed(nn.Module):
    def __init__(self, patch: int, dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)  # (N, C, H, W) -> (N, H * W, C)


class Attention(nn.Module):
    """`fused` takes PyTorch's function for what is else written out."""

    def __init__(self, dim: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.num_heads = heads
        self.scale = (dim // heads) ** -0.5
        self.fused = fused
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            attn = (q @ k.transpose(-2, -1)) * self.scale
            attn = attn.softmax(dim=-1)
            x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc1(x)
        x = self.act(x)
        return self.fc2(x)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads, fused)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, 4 * dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, dim: int, heads: int, depth: int = 12, fused: bool = False, classes: int = 1000) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(16, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 14 * 14 + 1, dim))
        self.blocks = nn.Sequential(*(Block(dim, heads, fused) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(x)
        cls_token = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls_token, x), dim=1)
        x = x + self.pos_embed
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x[:, 0])


class EncoderBlock(nn.Module):
    """torchvision's."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(0.0), nn.Linear(4 * dim, dim), nn.Dropout(0.0)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, dim: int, heads: int, depth: int, length: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, length, dim).normal_(std=0.02))
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{index}", EncoderBlock(dim, heads)) for index in range(depth))
        )
        self.ln = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(self.layers(x + self.pos_embedding))


class TorchvisionViT(nn.Module):
    def __init__(self, dim: int, heads: int, depth: int, patch: int = 16, classes: int = 1000) -> None:
        super().__init__()
        self.dim = dim
        self.conv_proj = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.encoder = Encoder(dim, heads, depth, (224 // patch) ** 2 + 1)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(dim, classes)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        x = self.conv_proj(x)
        x = x.reshape(n, self.dim, -1).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(n, -1, -1), x], dim=1)
        x = self.encoder(x)
        return self.heads(x[:, 0])


RESIDUALS = ("blocks.*.attn.proj", "blocks.*.mlp.fc2")


@register_architecture("DeiT-Ti", DEIT, licence="Apache-2.0", parameters=5.717, gmacs=1.26, residuals=RESIDUALS)
def deit_tiny() -> nn.Module:
    return VisionTransformer(192, 3)


@register_architecture("DeiT-S", DEIT, licence="Apache-2.0", parameters=22.051, gmacs=4.61, residuals=RESIDUALS)
def deit_small() -> nn.Module:
    return VisionTransformer(384, 6)


@register_architecture("ViT-S/16", VIT, licence="Apache-2.0", parameters=22.051, gmacs=4.61, residuals=RESIDUALS)
def vit_small() -> nn.Module:
    return VisionTransformer(384, 6, fused=True)


@register_architecture(
    "ViT-B/16",
    VIT,
    licence="BSD-3-Clause",
    parameters=86.568,
    gmacs=17.56,
    residuals=("*.self_attention.out_proj", "*.mlp.3"),
)
def vit_b_16() -> nn.Module:
    return TorchvisionViT(768, 12, 12)
