# SPDX-License-Identifier: Apache-2.0
"""Depth from one image: FastDepth (depthwise decoder, skips added) and the small MiDaS (refined in four steps)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.layers import make_divisible
from tt_cnn.zoo.registry import register_architecture

FASTDEPTH = "Wofk, Ma, Yang, Karaman, Sze 2019"
MIDAS = "Ranftl, Lasinger, Hafner, Schindler, Koltun 2019"


def conv_bn(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True)
    )


def conv_dw(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(inplace=True),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


def depthwise(channels: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, kernel, padding=kernel // 2, bias=False, groups=channels),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
    )


def pointwise(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class FastDepth(nn.Module):
    """MobileNet, then five times: 5x5 depthwise, 1x1, twice the height and width, a map of the encoder added."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0 = conv_bn(3, 32, 2)
        rows = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
        rows += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
        for number, row in enumerate(rows, start=1):
            self.add_module(f"conv{number}", conv_dw(*row))
        for number, inputs in enumerate((1024, 512, 256, 128, 64), start=1):
            self.add_module(f"decode_conv{number}", nn.Sequential(depthwise(inputs, 5), pointwise(inputs, inputs // 2)))
        self.decode_conv6 = pointwise(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = {}
        for number in range(14):
            x = self.get_submodule(f"conv{number}")(x)
            if number in (1, 3, 5):
                skips[number] = x
        for number, skip in ((1, None), (2, 5), (3, 3), (4, 1), (5, None)):
            x = self.get_submodule(f"decode_conv{number}")(x)
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            if skip is not None:
                x = x + skips[skip]
        return self.decode_conv6(x)


class Conv2dSame(nn.Conv2d):
    """Padded as TensorFlow does: the odd pixel to the right and below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = (self._padding(size, axis) for axis, size in enumerate(x.shape[-2:]))
        x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _padding(self, size: int, axis: int) -> int:
        stride, kernel = self.stride[axis], self.kernel_size[axis]
        return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


class InvertedResidual(nn.Module):
    """EfficientNet-Lite's: ReLU6, nothing squeezed. timm's names."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int = 6) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.has_residual = inputs == outputs and stride == 1
        self.conv_pw = nn.Conv2d(inputs, hidden, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(hidden, eps=1e-3)
        self.conv_dw = Conv2dSame(hidden, hidden, kernel, stride, groups=hidden, bias=False)
        self.bn2 = nn.BatchNorm2d(hidden, eps=1e-3)
        self.conv_pwl = nn.Conv2d(hidden, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        x = F.relu6(self.bn1(self.conv_pw(x)))
        x = F.relu6(self.bn2(self.conv_dw(x)))
        x = self.bn3(self.conv_pwl(x))
        return x + shortcut if self.has_residual else x


class SeparableConv(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv_dw = Conv2dSame(inputs, inputs, 3, 1, groups=inputs, bias=False)
        self.bn1 = nn.BatchNorm2d(inputs, eps=1e-3)
        self.conv_pw = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn2(self.conv_pw(F.relu6(self.bn1(self.conv_dw(x)))))


class EfficientNetLite3(nn.Module):
    """Maps at a stride of 4, 8, 16 and 32."""

    rows = ((24, 3, 2, 2), (40, 5, 2, 2), (80, 3, 2, 3), (112, 5, 1, 3), (192, 5, 2, 4))
    """Channels, kernel, stride and blocks of B0's middle stages; here 1.2 and 1.4 times as many."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = Conv2dSame(3, 32, 3, 2, bias=False)
        self.bn1 = nn.BatchNorm2d(32, eps=1e-3)
        inputs = make_divisible(16 * 1.2)
        blocks: list[nn.Module] = [nn.Sequential(SeparableConv(32, inputs))]
        for channels, kernel, stride, count in self.rows:
            outputs = make_divisible(channels * 1.2)
            stage = [InvertedResidual(inputs, outputs, kernel, stride)]
            stage += [InvertedResidual(outputs, outputs, kernel, 1) for _ in range(math.ceil(count * 1.4) - 1)]
            blocks.append(nn.Sequential(*stage))
            inputs = outputs
        blocks.append(nn.Sequential(InvertedResidual(inputs, make_divisible(320 * 1.2), 3, 1)))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = F.relu6(self.bn1(self.conv_stem(x)))
        maps = []
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in (1, 2, 4, 6):
                maps.append(x)
        return maps


class ResidualConvUnit(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(features, features, 3, padding=1)
        self.conv2 = nn.Conv2d(features, features, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv1(F.relu(x))
        out = self.conv2(F.relu(out))
        return out + x


class FeatureFusionBlock(nn.Module):
    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.resConfUnit1 = ResidualConvUnit(features)
        self.resConfUnit2 = ResidualConvUnit(features)
        self.out_conv = nn.Conv2d(features, outputs, kernel_size=1)

    def forward(self, x: torch.Tensor, skip: torch.Tensor | None = None) -> torch.Tensor:
        if skip is not None:
            x = x + self.resConfUnit1(skip)
        x = self.resConfUnit2(x)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        return self.out_conv(x)


class MidasSmall(nn.Module):
    """Inverse depth (N, H, W), up to scale and shift."""

    def __init__(self, features: int = 64) -> None:
        super().__init__()
        self.pretrained = EfficientNetLite3()
        widths = (features, features * 2, features * 4, features * 8)
        self.layer_rn = nn.ModuleList(
            nn.Conv2d(inputs, width, 3, padding=1, bias=False)
            for inputs, width in zip((32, 48, 136, 384), widths, strict=True)
        )
        self.refinenet4 = FeatureFusionBlock(widths[3], widths[2])
        self.refinenet3 = FeatureFusionBlock(widths[2], widths[1])
        self.refinenet2 = FeatureFusionBlock(widths[1], widths[0])
        self.refinenet1 = FeatureFusionBlock(widths[0], widths[0])
        self.output_conv = nn.Sequential(
            nn.Conv2d(features, features // 2, 3, padding=1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(features // 2, 32, 3, padding=1),
            nn.ReLU(False),
            nn.Conv2d(32, 1, 1),
            nn.ReLU(True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = self.pretrained(x)
        rn1, rn2, rn3, rn4 = (conv(y) for conv, y in zip(self.layer_rn, maps, strict=True))
        path = self.refinenet4(rn4)
        path = self.refinenet3(path, rn3)
        path = self.refinenet2(path, rn2)
        path = self.refinenet1(path, rn1)
        return torch.squeeze(self.output_conv(path), dim=1)


@register_architecture(
    "FastDepth",
    FASTDEPTH,
    task="depth",
    licence="MIT",
    outputs=("depth",),
    parameters=3.9,
    gmacs=0.74,
    unit_range=True,
    norm_shift=1.0,
)
def fastdepth() -> nn.Module:
    return FastDepth()


@register_architecture(
    "MiDaS v2.1 small",
    MIDAS,
    task="depth",
    licence="MIT",
    input_shape=(3, 256, 256),
    outputs=("inverse_depth",),
    parameters=21.0,
    residuals=("pretrained.blocks.*.bn3", "refinenet*.conv2"),
    norm_shift=1.0,
)
def midas_small() -> nn.Module:
    return MidasSmall()
