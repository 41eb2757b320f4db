# SPDX-License-Identifier: Apache-2.0
"""U-Net: down four times and up again, each step up reads what the step down of its size gave. With batch norms and
padded convolutions, as it is used today.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture

PAPER = "Ronneberger, Fischer, Brox 2015"


class DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, inner: int | None = None) -> None:
        inner = inner or outputs
        super().__init__(
            nn.Conv2d(inputs, inner, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, outputs, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """Upsampled by transposed convolutions."""

    def __init__(self, inputs: int = 3, classes: int = 2) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.encoder1 = DoubleConv(inputs, 64)
        self.encoder2 = DoubleConv(64, 128)
        self.encoder3 = DoubleConv(128, 256)
        self.encoder4 = DoubleConv(256, 512)
        self.bottleneck = DoubleConv(512, 1024)
        self.upconv4 = nn.ConvTranspose2d(1024, 512, kernel_size=2, stride=2)
        self.decoder4 = DoubleConv(1024, 512)
        self.upconv3 = nn.ConvTranspose2d(512, 256, kernel_size=2, stride=2)
        self.decoder3 = DoubleConv(512, 256)
        self.upconv2 = nn.ConvTranspose2d(256, 128, kernel_size=2, stride=2)
        self.decoder2 = DoubleConv(256, 128)
        self.upconv1 = nn.ConvTranspose2d(128, 64, kernel_size=2, stride=2)
        self.decoder1 = DoubleConv(128, 64)
        self.conv = nn.Conv2d(64, classes, kernel_size=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        enc1 = self.encoder1(x)
        enc2 = self.encoder2(self.pool(enc1))
        enc3 = self.encoder3(self.pool(enc2))
        enc4 = self.encoder4(self.pool(enc3))
        bottleneck = self.bottleneck(self.pool(enc4))
        dec4 = self.decoder4(torch.cat((self.upconv4(bottleneck), enc4), dim=1))
        dec3 = self.decoder3(torch.cat((self.upconv3(dec4), enc3), dim=1))
        dec2 = self.decoder2(torch.cat((self.upconv2(dec3), enc2), dim=1))
        dec1 = self.decoder1(torch.cat((self.upconv1(dec2), enc1), dim=1))
        return self.conv(dec1)


class Up(nn.Module):
    """Twice the height and width, the skipped map in front, two convolutions."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(inputs, outputs, inputs // 2)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.cat([skip, self.up(x)], dim=1))


class BilinearUNet(nn.Module):
    """Upsampled by interpolation: half the channels in the middle."""

    def __init__(self, inputs: int = 3, classes: int = 2) -> None:
        super().__init__()
        self.first = DoubleConv(inputs, 64)
        widths = (64, 128, 256, 512, 512)
        self.downs = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), DoubleConv(before, after)) for before, after in pairwise(widths)
        )
        self.ups = nn.ModuleList([Up(1024, 256), Up(512, 128), Up(256, 64), Up(128, 64)])
        self.last = nn.Conv2d(64, classes, kernel_size=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = [self.first(x)]
        for down in self.downs:
            maps.append(down(maps[-1]))
        x = maps.pop()
        for up in self.ups:
            x = up(x, maps.pop())
        return self.last(x)


@register_architecture(
    "U-Net", PAPER, task="segmentation", input_shape=(3, 256, 256), parameters=31.04, unit_range=True
)
def unet() -> nn.Module:
    return UNet()


@register_architecture(
    "U-Net, bilinear upsampling",
    PAPER,
    task="segmentation",
    input_shape=(3, 256, 256),
    parameters=17.26,
    unit_range=True,
)
def unet_bilinear() -> nn.Module:
    return BilinearUNet()
