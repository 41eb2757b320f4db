# SPDX-License-Identifier: Apache-2.0
"""UNet (Ronneberger, Fischer, Brox 2015) with batch norm: four encoders, a bottleneck, four decoders, a sigmoid."""

from __future__ import annotations

import torch
from torch import nn

DEPTH = 4


class UNet(nn.Module):
    """Images (N, 3, H, W) to masks (N, 1, H, W) between 0 and 1; H and W are multiples of 16."""

    def __init__(self, in_channels: int = 3, out_channels: int = 1, features: int = 32) -> None:
        super().__init__()
        widths = [features * 2**level for level in range(DEPTH + 1)]
        self.encoder1 = block(in_channels, widths[0])
        self.encoder2 = block(widths[0], widths[1])
        self.encoder3 = block(widths[1], widths[2])
        self.encoder4 = block(widths[2], widths[3])
        self.pool1 = nn.MaxPool2d(2)
        self.pool2 = nn.MaxPool2d(2)
        self.pool3 = nn.MaxPool2d(2)
        self.pool4 = nn.MaxPool2d(2)
        self.bottleneck = block(widths[3], widths[4])
        self.upconv4 = nn.ConvTranspose2d(widths[4], widths[3], kernel_size=2, stride=2)
        self.decoder4 = block(widths[4], widths[3])
        self.upconv3 = nn.ConvTranspose2d(widths[3], widths[2], kernel_size=2, stride=2)
        self.decoder3 = block(widths[3], widths[2])
        self.upconv2 = nn.ConvTranspose2d(widths[2], widths[1], kernel_size=2, stride=2)
        self.decoder2 = block(widths[2], widths[1])
        self.upconv1 = nn.ConvTranspose2d(widths[1], widths[0], kernel_size=2, stride=2)
        self.decoder1 = block(widths[1], widths[0])
        self.conv = nn.Conv2d(widths[0], out_channels, kernel_size=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.logits(images))

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """What the loss of training takes."""
        skip1 = self.encoder1(images)
        skip2 = self.encoder2(self.pool1(skip1))
        skip3 = self.encoder3(self.pool2(skip2))
        skip4 = self.encoder4(self.pool3(skip3))
        x = self.bottleneck(self.pool4(skip4))
        x = self.decoder4(torch.cat((self.upconv4(x), skip4), dim=1))
        x = self.decoder3(torch.cat((self.upconv3(x), skip3), dim=1))
        x = self.decoder2(torch.cat((self.upconv2(x), skip2), dim=1))
        x = self.decoder1(torch.cat((self.upconv1(x), skip1), dim=1))
        return self.conv(x)


def block(in_channels: int, out_channels: int) -> nn.Sequential:
    """Two convolutions of 3x3, each with batch norm and ReLU; 0 and 3 are the convolutions, 1 and 4 their norms."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )
