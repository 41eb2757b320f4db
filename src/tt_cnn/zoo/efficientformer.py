# SPDX-License-Identifier: Apache-2.0
"""EfficientFormer: pooling instead of attention in four dimensions, one block of attention at the end."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Li, Yuan, Wen, Hu, Evangelidis, Tulyakov, Wang, Ren 2022"


class Attention(nn.Module):
    """Keys of 32 values, values of four times as many, a learned bias for each distance."""

    def __init__(self, dim: int, key_dim: int = 32, heads: int = 8, ratio: int = 4, resolution: int = 7) -> None:
        super().__init__()
        self.num_heads = heads
        self.scale = key_dim**-0.5
        self.key_dim = key_dim
        self.value_dim = ratio * key_dim
        self.qkv = nn.Linear(dim, heads * (2 * key_dim + self.value_dim))
        self.proj = nn.Linear(heads * self.value_dim, dim)
        points = list(itertools.product(range(resolution), range(resolution)))
        distances: dict[tuple[int, int], int] = {}
        indices = [
            distances.setdefault((abs(a[0] - b[0]), abs(a[1] - b[1])), len(distances)) for a in points for b in points
        ]
        self.attention_biases = nn.Parameter(torch.randn(heads, len(distances)) * 0.1)
        self.register_buffer("attention_bias_idxs", torch.tensor(indices).view(len(points), len(points)))
        self.attention_bias_idxs: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, _ = x.shape
        qkv = self.qkv(x).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        q, k, v = qkv.split([self.key_dim, self.key_dim, self.value_dim], dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.scale + self.attention_biases[:, self.attention_bias_idxs]
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, -1)
        return self.proj(x)


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x) - x


class Mlp(nn.Module):
    """1x1 convolutions with norms."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(dim, hidden, 1)
        self.norm1 = nn.BatchNorm2d(hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Conv2d(hidden, dim, 1)
        self.norm2 = nn.BatchNorm2d(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm1(self.fc1(x)))
        return self.norm2(self.fc2(x))


class LinearMlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Meta4D(nn.Module):
    def __init__(self, dim: int, scale: float = 1e-5) -> None:
        super().__init__()
        self.token_mixer = Pooling()
        self.mlp = Mlp(dim, 4 * dim)
        self.layer_scale_1 = nn.Parameter(scale * torch.ones(dim))
        self.layer_scale_2 = nn.Parameter(scale * torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.layer_scale_1.unsqueeze(-1).unsqueeze(-1) * self.token_mixer(x)
        return x + self.layer_scale_2.unsqueeze(-1).unsqueeze(-1) * self.mlp(x)


class Flat(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).transpose(1, 2)


class Meta3D(nn.Module):
    def __init__(self, dim: int, scale: float = 1e-5) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mixer = Attention(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = LinearMlp(dim, 4 * dim)
        self.layer_scale_1 = nn.Parameter(scale * torch.ones(dim))
        self.layer_scale_2 = nn.Parameter(scale * torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.layer_scale_1 * self.token_mixer(self.norm1(x))
        return x + self.layer_scale_2 * self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(inputs, outputs, 3, 2, 1)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.proj(x))


class EfficientFormer(nn.Module):
    def __init__(self, depths: tuple[int, ...], dims: tuple[int, ...], attention: int = 1, classes: int = 1000) -> None:
        super().__init__()
        half = dims[0] // 2
        self.patch_embed = nn.Sequential(
            nn.Conv2d(3, half, 3, 2, 1),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, dims[0], 3, 2, 1),
            nn.BatchNorm2d(dims[0]),
            nn.ReLU(),
        )
        network: list[nn.Module] = []
        for index, (depth, dim) in enumerate(zip(depths, dims, strict=True)):
            last = index == len(depths) - 1
            blocks: list[nn.Module] = [Meta4D(dim) for _ in range(depth - attention if last else depth)]
            if last:
                blocks += [Flat(), *(Meta3D(dim) for _ in range(attention))]
            network.append(nn.Sequential(*blocks))
            if not last:
                network.append(Embedding(dim, dims[index + 1]))
        self.network = nn.ModuleList(network)
        self.norm = nn.LayerNorm(dims[-1])
        self.head = nn.Linear(dims[-1], classes)
        self.dist_head = nn.Linear(dims[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(x)
        for block in self.network:
            x = block(x)
        x = self.norm(x)
        x = x.mean(-2)
        return (self.head(x) + self.dist_head(x)) / 2


@register_architecture(
    "EfficientFormer-L1",
    PAPER,
    licence="Apache-2.0",
    parameters=12.29,
    gmacs=1.30,
    residuals=("network.*.layer_scale_[12]",),
)
def efficientformer_l1() -> nn.Module:
    return EfficientFormer((3, 2, 6, 4), (48, 96, 224, 448))
