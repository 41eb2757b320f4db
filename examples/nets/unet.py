"""A small U-shaped network with skips, for two classes of pixels."""

import torch
import torch.nn as nn


def double_conv(in_channels, out_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, num_classes=2, features=(8, 16)):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.downs = nn.ModuleList()
        channels = 3
        for feature in features:
            self.downs.append(double_conv(channels, feature))
            channels = feature
        self.bottleneck = double_conv(channels, channels)
        self.ups = nn.ModuleList()
        self.decoders = nn.ModuleList()
        for feature in reversed(features):
            self.ups.append(nn.ConvTranspose2d(channels, feature, 2, stride=2))
            self.decoders.append(double_conv(feature * 2, feature))
            channels = feature
        self.final = nn.Conv2d(channels, num_classes, 1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottleneck(x)
        for up, decoder, skip in zip(self.ups, self.decoders, reversed(skips), strict=True):
            x = decoder(torch.cat([skip, up(x)], dim=1))
        return self.final(x)
