# SPDX-License-Identifier: Apache-2.0
"""Images made larger: FSRCNN (transposed convolution), ESPCN, SRResNet and EDSR (pixel shuffle)."""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture


class FSRCNN(nn.Module):
    """Of the brightness alone. The paper counts 12 464 weights, without biases and slopes."""

    def __init__(self, scale: int = 3, d: int = 56, s: int = 12, m: int = 4) -> None:
        super().__init__()
        self.first_part = nn.Sequential(nn.Conv2d(1, d, kernel_size=5, padding=2), nn.PReLU(d))
        mid: list[nn.Module] = [nn.Conv2d(d, s, kernel_size=1), nn.PReLU(s)]
        for _ in range(m):
            mid += [nn.Conv2d(s, s, kernel_size=3, padding=1), nn.PReLU(s)]
        mid += [nn.Conv2d(s, d, kernel_size=1), nn.PReLU(d)]
        self.mid_part = nn.Sequential(*mid)
        self.last_part = nn.ConvTranspose2d(d, 1, kernel_size=9, stride=scale, padding=4, output_padding=scale - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first_part(x)
        x = self.mid_part(x)
        return self.last_part(x)


class ESPCN(nn.Module):
    """Of the brightness alone."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, scale**2, 3, padding=1)
        self.pixel_shuffle = nn.PixelShuffle(scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.conv1(x))
        x = torch.tanh(self.conv2(x))
        return torch.sigmoid(self.pixel_shuffle(self.conv3(x)))


class ResidualBlock(nn.Module):
    """SRResNet's: batch norms, PReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.prelu = nn.PReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = self.bn2(self.conv2(self.prelu(self.bn1(self.conv1(x)))))
        return x + residual


class SRResNet(nn.Module):
    def __init__(self, blocks: int = 16, channels: int = 64) -> None:
        super().__init__()
        self.conv_input = nn.Conv2d(3, channels, 9, padding=4)
        self.prelu = nn.PReLU()
        self.residual = nn.Sequential(*(ResidualBlock(channels) for _ in range(blocks)))
        self.conv_mid = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn_mid = nn.BatchNorm2d(channels)
        upscale: list[nn.Module] = []
        for _ in range(2):
            upscale += [nn.Conv2d(channels, channels * 4, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
        self.upscale4x = nn.Sequential(*upscale)
        self.conv_output = nn.Conv2d(channels, 3, 9, padding=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.prelu(self.conv_input(x))
        residual = out
        out = self.bn_mid(self.conv_mid(self.residual(out)))
        out = torch.add(out, residual)
        return self.conv_output(self.upscale4x(out))


class ResBlock(nn.Module):
    """EDSR's: no norms."""

    def __init__(self, features: int, scale: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(features, features, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(features, features, 3, padding=1),
        )
        self.res_scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        res = self.body(x).mul(self.res_scale)
        res += x
        return res


class EDSR(nn.Module):
    """The mean of the training images is taken off and put back."""

    def __init__(self, blocks: int, features: int, scale: int, residual_scale: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1), persistent=False)
        self.mean: torch.Tensor
        self.head = nn.Sequential(nn.Conv2d(3, features, 3, padding=1))
        self.body = nn.Sequential(
            *(ResBlock(features, residual_scale) for _ in range(blocks)), nn.Conv2d(features, features, 3, padding=1)
        )
        self.tail = nn.Sequential(
            nn.Sequential(nn.Conv2d(features, features * scale**2, 3, padding=1), nn.PixelShuffle(scale)),
            nn.Conv2d(features, 3, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x - self.mean
        x = self.head(x)
        res = self.body(x)
        res += x
        x = self.tail(res)
        return x + self.mean


@register_architecture(
    "FSRCNN x3",
    "Dong, Loy, Tang 2016",
    task="super-resolution",
    input_shape=(1, 128, 128),
    outputs=("picture",),
    unit_range=True,
)
def fsrcnn_x3() -> nn.Module:
    return FSRCNN()


@register_architecture(
    "ESPCN x4",
    "Shi, Caballero, Huszár, Totz, Aitken, Bishop, Rueckert, Wang 2016",
    task="super-resolution",
    input_shape=(1, 128, 128),
    outputs=("picture",),
    parameters=0.0248,
    unit_range=True,
)
def espcn_x4() -> nn.Module:
    return ESPCN(4)


@register_architecture(
    "SRResNet x4",
    "Ledig, Theis, Huszár, Caballero, Cunningham, Acosta, Aitken, Tejani, Totz, Wang, Shi 2016",
    task="super-resolution",
    input_shape=(3, 96, 96),
    outputs=("picture",),
    parameters=1.543,
    unit_range=True,
    residuals=("residual.*.bn2",),
)
def srresnet_x4() -> nn.Module:
    return SRResNet()


@register_architecture(
    "EDSR baseline x2",
    "Lim, Son, Kim, Nah, Lee 2017",
    task="super-resolution",
    licence="MIT",
    input_shape=(3, 96, 96),
    outputs=("picture",),
    parameters=1.37,
    unit_range=True,
    residuals=("body.*.body.2",),
)
def edsr_baseline_x2() -> nn.Module:
    return EDSR(16, 64, 2)
