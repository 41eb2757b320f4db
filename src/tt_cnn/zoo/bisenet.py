# SPDX-License-Identifier: Apache-2.0
"""BiSeNet: one path for details and one for context, joined at an eighth of the height and width.

Without the second heads that only training uses.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.resnet import BasicBlock, ResNetStages

V1 = "Yu, Wang, Peng, Gao, Yu, Sang 2018"
V2 = "Yu, Gao, Wang, Yu, Shen, Sang 2020"


class ConvBNReLU(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.bn(self.conv(x)))


def conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


class AttentionRefinementModule(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = ConvBNReLU(inputs, outputs)
        self.conv_atten = nn.Conv2d(outputs, outputs, 1, bias=False)
        self.bn_atten = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        feat = self.conv(x)
        atten = torch.mean(feat, dim=(2, 3), keepdim=True)
        atten = self.bn_atten(self.conv_atten(atten)).sigmoid()
        return torch.mul(feat, atten)


class ContextPath(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.resnet = ResNetStages(BasicBlock, (2, 2, 2, 2))
        self.arm16 = AttentionRefinementModule(256, 128)
        self.arm32 = AttentionRefinementModule(512, 128)
        self.conv_head32 = ConvBNReLU(128, 128)
        self.conv_head16 = ConvBNReLU(128, 128)
        self.conv_avg = ConvBNReLU(512, 128, 1)
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, _, feat16, feat32 = self.resnet(x)
        avg = self.conv_avg(torch.mean(feat32, dim=(2, 3), keepdim=True))
        feat32 = self.arm32(feat32) + avg
        feat32 = self.conv_head32(self.up(feat32))
        feat16 = self.arm16(feat16) + feat32
        return self.conv_head16(self.up(feat16))


class SpatialPath(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = ConvBNReLU(3, 64, 7, 2)
        self.conv2 = ConvBNReLU(64, 64, 3, 2)
        self.conv3 = ConvBNReLU(64, 64, 3, 2)
        self.conv_out = ConvBNReLU(64, 128, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_out(self.conv3(self.conv2(self.conv1(x))))


class FeatureFusionModule(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convblk = ConvBNReLU(inputs, outputs, 1)
        self.conv = nn.Conv2d(outputs, outputs, 1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, fsp: torch.Tensor, fcp: torch.Tensor) -> torch.Tensor:
        feat = self.convblk(torch.cat([fsp, fcp], dim=1))
        atten = torch.mean(feat, dim=(2, 3), keepdim=True)
        atten = self.bn(self.conv(atten)).sigmoid()
        return torch.mul(feat, atten) + feat


class BiSeNetV1(nn.Module):
    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.cp = ContextPath()
        self.sp = SpatialPath()
        self.ffm = FeatureFusionModule(256, 256)
        self.conv_out = nn.Sequential(ConvBNReLU(256, 256), nn.Conv2d(256, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.size()[2:]
        feat = self.ffm(self.sp(x), self.cp(x))
        return F.interpolate(self.conv_out(feat), size, mode="bilinear", align_corners=True)


class DetailBranch(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Sequential(ConvBNReLU(3, 64, 3, 2), ConvBNReLU(64, 64)),
            nn.Sequential(ConvBNReLU(64, 64, 3, 2), ConvBNReLU(64, 64), ConvBNReLU(64, 64)),
            nn.Sequential(ConvBNReLU(64, 128, 3, 2), ConvBNReLU(128, 128), ConvBNReLU(128, 128)),
        )


class StemBlock(nn.Module):
    """A convolution and a maximum side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = ConvBNReLU(3, 16, 3, 2)
        self.left = nn.Sequential(ConvBNReLU(16, 8, 1), ConvBNReLU(8, 16, 3, 2))
        self.right = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.fuse = ConvBNReLU(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return self.fuse(torch.cat([self.left(x), self.right(x)], dim=1))


class GatherExpansion(nn.Module):
    """3x3, depthwise to six times the channels (twice where there is a stride), 1x1 back."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        mid = inputs * 6
        self.conv1 = ConvBNReLU(inputs, inputs)
        depthwise = [conv_bn(inputs, mid, 3, stride, inputs)]
        if stride == 2:
            depthwise.append(conv_bn(mid, mid, 3, 1, mid))
        else:
            depthwise[0].append(nn.ReLU(inplace=True))
        self.dwconv = nn.Sequential(*depthwise)
        self.conv2 = conv_bn(mid, outputs, 1)
        self.shortcut: nn.Module | None = None
        if stride == 2:
            self.shortcut = nn.Sequential(conv_bn(inputs, inputs, 3, 2, inputs), conv_bn(inputs, outputs, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        feat = self.conv2(self.dwconv(self.conv1(x)))
        feat = feat + (x if self.shortcut is None else self.shortcut(x))
        return F.relu(feat)


class ContextEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(128)
        self.conv_gap = ConvBNReLU(128, 128, 1)
        self.conv_last = ConvBNReLU(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        feat = torch.mean(x, dim=(2, 3), keepdim=True)
        feat = self.conv_gap(self.bn(feat))
        return self.conv_last(feat + x)


class BilateralGuidedAggregation(nn.Module):
    """Each branch gates the other."""

    def __init__(self) -> None:
        super().__init__()
        self.left1 = nn.Sequential(conv_bn(128, 128, 3, 1, 128), nn.Conv2d(128, 128, 1, bias=False))
        self.left2 = nn.Sequential(conv_bn(128, 128, 3, 2), nn.AvgPool2d(kernel_size=3, stride=2, padding=1))
        self.right1 = conv_bn(128, 128, 3)
        self.right2 = nn.Sequential(conv_bn(128, 128, 3, 1, 128), nn.Conv2d(128, 128, 1, bias=False))
        self.up1 = nn.Upsample(scale_factor=4)
        self.up2 = nn.Upsample(scale_factor=4)
        self.conv = nn.Sequential(conv_bn(128, 128, 3), nn.ReLU(inplace=True))

    def forward(self, detail: torch.Tensor, semantic: torch.Tensor) -> torch.Tensor:
        left = self.left1(detail) * torch.sigmoid(self.up1(self.right1(semantic)))
        right = self.left2(detail) * torch.sigmoid(self.right2(semantic))
        return self.conv(left + self.up2(right))


class BiSeNetV2(nn.Module):
    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.detail = DetailBranch()
        self.segment = nn.Sequential(
            StemBlock(),
            nn.Sequential(GatherExpansion(16, 32, 2), GatherExpansion(32, 32, 1)),
            nn.Sequential(GatherExpansion(32, 64, 2), GatherExpansion(64, 64, 1)),
            nn.Sequential(GatherExpansion(64, 128, 2), *(GatherExpansion(128, 128, 1) for _ in range(3))),
            ContextEmbedding(),
        )
        self.bga = BilateralGuidedAggregation()
        self.head = nn.Sequential(
            ConvBNReLU(128, 1024),
            nn.Dropout(0.1),
            nn.Conv2d(1024, classes, 1),
            nn.Upsample(scale_factor=8, mode="bilinear", align_corners=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        feat = self.bga(self.detail(x), self.segment(x))
        return self.head(feat)


@register_architecture(
    "BiSeNet, ResNet-18",
    V1,
    task="segmentation",
    licence="MIT",
    input_shape=(3, 256, 512),
    residuals=("cp.resnet.layer*.bn2",),
)
def bisenetv1() -> nn.Module:
    return BiSeNetV1()


@register_architecture(
    "BiSeNet V2",
    V2,
    task="segmentation",
    licence="MIT",
    input_shape=(3, 512, 1024),
    residuals=("segment.*.conv2.1",),
)
def bisenetv2() -> nn.Module:
    return BiSeNetV2()
