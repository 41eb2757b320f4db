# SPDX-License-Identifier: Apache-2.0
"""MobileViT: MobileNetV2's blocks, and transformers over unfolded patches between convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.layers import ConvNormActivation
from tt_cnn.zoo.registry import register_architecture

PAPER = "Mehta, Rastegari 2021"
PATCH = 2
HEADS = 4


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int = 4) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.use_res_connect = stride == 1 and inputs == outputs
        self.exp_1x1 = ConvNormActivation(inputs, hidden, 1, activation=nn.SiLU)
        self.conv_3x3 = ConvNormActivation(hidden, hidden, 3, stride, hidden, nn.SiLU)
        self.red_1x1 = ConvNormActivation(hidden, outputs, 1, activation=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.red_1x1(self.conv_3x3(self.exp_1x1(x)))
        return x + y if self.use_res_connect else y


class TransformerLayer(nn.Module):
    """Norms before attention and before the linear layers; heads by splitting the last dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(batch, length, HEADS, dim // HEADS).transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (dim // HEADS) ** 0.5
        out = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.out_proj(out.transpose(1, 2).reshape(batch, length, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.silu(self.fc1(self.norm2(x))))


class MobileViTBlock(nn.Module):
    """Pixels at the same place of all patches attend to each other."""

    def __init__(self, channels: int, dim: int, depth: int) -> None:
        super().__init__()
        self.conv_3x3_in = ConvNormActivation(channels, channels, 3, activation=nn.SiLU)
        self.conv_1x1_in = nn.Conv2d(channels, dim, 1, bias=False)
        self.global_rep = nn.Sequential(*(TransformerLayer(dim) for _ in range(depth)), nn.LayerNorm(dim))
        self.conv_proj = ConvNormActivation(dim, channels, 1, activation=nn.SiLU)
        self.fusion = ConvNormActivation(2 * channels, channels, 3, activation=nn.SiLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv_1x1_in(self.conv_3x3_in(x))
        batch, dim, height, width = y.shape
        rows, columns = height // PATCH, width // PATCH
        y = y.reshape(batch * dim * rows, PATCH, columns, PATCH).transpose(1, 2)
        y = y.reshape(batch, dim, rows * columns, PATCH * PATCH).transpose(1, 3)
        y = self.global_rep(y.reshape(batch * PATCH * PATCH, rows * columns, dim))
        y = y.view(batch, PATCH * PATCH, rows * columns, dim).transpose(1, 3)
        y = y.reshape(batch * dim * rows, columns, PATCH, PATCH).transpose(1, 2)
        y = y.reshape(batch, dim, height, width)
        return self.fusion(torch.cat((x, self.conv_proj(y)), dim=1))


class MobileViT(nn.Module):
    def __init__(self, widths: tuple[int, ...], dims: tuple[int, int, int], classes: int = 1000) -> None:
        super().__init__()
        stem, w1, w2, w3, w4, w5, last = widths
        self.conv_1 = ConvNormActivation(3, stem, 3, 2, activation=nn.SiLU)
        self.layer_1 = nn.Sequential(InvertedResidual(stem, w1, 1))
        self.layer_2 = nn.Sequential(
            InvertedResidual(w1, w2, 2), InvertedResidual(w2, w2, 1), InvertedResidual(w2, w2, 1)
        )
        self.layer_3 = nn.Sequential(InvertedResidual(w2, w3, 2), MobileViTBlock(w3, dims[0], 2))
        self.layer_4 = nn.Sequential(InvertedResidual(w3, w4, 2), MobileViTBlock(w4, dims[1], 4))
        self.layer_5 = nn.Sequential(InvertedResidual(w4, w5, 2), MobileViTBlock(w5, dims[2], 3))
        self.conv_1x1_exp = ConvNormActivation(w5, last, 1, activation=nn.SiLU)
        self.classifier = nn.Linear(last, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_1(x)
        x = self.layer_2(self.layer_1(x))
        x = self.layer_5(self.layer_4(self.layer_3(x)))
        x = self.conv_1x1_exp(x)
        x = torch.mean(x, dim=[-2, -1])
        return self.classifier(x)


@register_architecture(
    "MobileViT-S",
    PAPER,
    input_shape=(3, 256, 256),
    parameters=5.578,
    gmacs=2.03,
    unit_range=True,
    residuals=("layer_*.red_1x1.1", "layer_*.out_proj", "layer_*.fc2"),
)
def mobilevit_s() -> nn.Module:
    return MobileViT((16, 32, 64, 96, 128, 160, 640), (144, 192, 240))
