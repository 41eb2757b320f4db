# SPDX-License-Identifier: Apache-2.0
"""YOLOv10: no suppression of double boxes, inverted blocks with large kernels, attention on half of the channels.

After the paper, with the head that inference uses.
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.yolov5 import SPPF, Conv
from tt_cnn.zoo.yolov8 import C2f, Detect, box_branch, c2f

PAPER = "Wang, Chen, Liu, Chen, Lin, Han, Ding 2024"


class ConvNorm(nn.Module):
    """Depthwise where `groups` says so; SiLU where `activate` does."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, activate: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)
        self.act = nn.SiLU(inplace=True) if activate else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class SCDown(nn.Module):
    """Channels by a 1x1, the stride by a depthwise convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.cv1 = ConvNorm(inputs, outputs, 1)
        self.cv2 = ConvNorm(outputs, outputs, 3, 2, outputs, activate=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cv2(self.cv1(x))


class LargeKernel(nn.Module):
    """7x7 and 3x3 depthwise, added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = ConvNorm(channels, channels, 7, 1, channels, activate=False)
        self.conv1 = ConvNorm(channels, channels, 3, 1, channels, activate=False)
        self.act = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.conv(x) + self.conv1(x))


class CIB(nn.Module):
    """Compact inverted block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cv1 = nn.Sequential(
            ConvNorm(channels, channels, 3, 1, channels),
            ConvNorm(channels, 2 * channels, 1),
            LargeKernel(2 * channels),
            ConvNorm(2 * channels, channels, 1),
            ConvNorm(channels, channels, 3, 1, channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.cv1(x)


class Attention(nn.Module):
    """Of a map: keys half as long as values, positions by a depthwise convolution."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.head_dim = dim // heads
        self.key_dim = self.head_dim // 2
        self.scale = self.key_dim**-0.5
        self.qkv = ConvNorm(dim, dim + 2 * self.key_dim * heads, 1, activate=False)
        self.proj = ConvNorm(dim, dim, 1, activate=False)
        self.pe = ConvNorm(dim, dim, 3, 1, dim, activate=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C, H, W = x.shape
        N = H * W
        qkv = self.qkv(x).view(B, self.num_heads, 2 * self.key_dim + self.head_dim, N)
        q, k, v = qkv.split([self.key_dim, self.key_dim, self.head_dim], dim=2)
        attn = (q.transpose(-2, -1) @ k) * self.scale
        attn = attn.softmax(dim=-1)
        x = (v @ attn.transpose(-2, -1)).view(B, C, H, W) + self.pe(v.reshape(B, C, H, W))
        return self.proj(x)


class PSABlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.attn = Attention(channels, max(channels // 64, 1))
        self.ffn = nn.Sequential(
            ConvNorm(channels, 2 * channels, 1), ConvNorm(2 * channels, channels, 1, activate=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(x)
        return x + self.ffn(x)


class PSA(nn.Module):
    """Partial self-attention: on half of the channels."""

    def __init__(self, channels: int, count: int = 1) -> None:
        super().__init__()
        half = channels // 2
        self.sizes = (half, half)
        self.cv1 = ConvNorm(channels, channels, 1)
        self.cv2 = ConvNorm(channels, channels, 1)
        self.m = nn.Sequential(*(PSABlock(half) for _ in range(count)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.cv1(x).split(self.sizes, dim=1)
        return self.cv2(torch.cat((a, self.m(b)), 1))


def light_branch(inputs: int, inner: int, classes: int) -> nn.Sequential:
    """The branch of classes: each 3x3 is depthwise, before a 1x1."""
    return nn.Sequential(
        nn.Sequential(ConvNorm(inputs, inputs, 3, 1, inputs), ConvNorm(inputs, inner, 1)),
        nn.Sequential(ConvNorm(inner, inner, 3, 1, inner), ConvNorm(inner, inner, 1)),
        nn.Conv2d(inner, classes, 1),
    )


class YOLOv10N(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.conv0 = Conv(3, 16, 3, 2)
        self.conv1 = Conv(16, 32, 3, 2)
        self.c2f_2 = c2f(32, 32, 1, True)
        self.conv3 = Conv(32, 64, 3, 2)
        self.c2f_4 = c2f(64, 64, 2, True)
        self.down5 = SCDown(64, 128)
        self.c2f_6 = c2f(128, 128, 2, True)
        self.down7 = SCDown(128, 256)
        self.c2f_8 = c2f(256, 256, 1, True)
        self.sppf = SPPF(256)
        self.psa = PSA(256)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.c2f_13 = c2f(256 + 128, 128, 1, False)
        self.c2f_16 = c2f(128 + 64, 64, 1, False)
        self.conv17 = Conv(64, 64, 3, 2)
        self.c2f_19 = c2f(64 + 128, 128, 1, False)
        self.down20 = SCDown(128, 128)
        self.c2f_22 = C2f(128 + 256, 256, 128, [CIB(128)])
        widths = (64, 128, 256)
        self.detect = Detect(
            [box_branch(channels, 64) for channels in widths],
            [light_branch(channels, 80, classes) for channels in widths],
            classes,
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.c2f_2(self.conv1(self.conv0(x)))
        p3 = self.c2f_4(self.conv3(x))
        p4 = self.c2f_6(self.down5(p3))
        p5 = self.psa(self.sppf(self.c2f_8(self.down7(p4))))
        middle = self.c2f_13(torch.cat([self.upsample(p5), p4], 1))
        small = self.c2f_16(torch.cat([self.upsample(middle), p3], 1))
        medium = self.c2f_19(torch.cat([self.conv17(small), middle], 1))
        large = self.c2f_22(torch.cat([self.down20(medium), p5], 1))
        return self.detect([small, medium, large])


@register_architecture(
    "YOLOv10-N",
    PAPER,
    task="detection",
    licence="AGPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("distances", "scores"),
    parameters=2.3,
    gmacs=3.35,
    unit_range=True,
    residuals=("c2f_[2468].m.*.cv2.bn", "c2f_22.m.0.cv1.4.bn", "psa.*.attn.proj.bn", "psa.*.ffn.1.bn"),
    norm_shift=1.5,
)
def yolov10n() -> nn.Module:
    return YOLOv10N()
