# SPDX-License-Identifier: Apache-2.0
"""YOLOv6: blocks of RepVGG as deployed, a neck with transposed convolutions, a head with decoupled branches.

After the paper's description of its second release; classes and boxes of all positions are concatenated.
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.repvgg import RepVGGBlock

PAPER = "Li, Li, Jiang, Weng, Geng, Li, Ke, Li, Cheng, Nie et al. 2022"


class SimConv(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, activation: type[nn.Module] = nn.ReLU
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)
        self.act = activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class RepBlock(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, count: int) -> None:
        rest = [RepVGGBlock(outputs, outputs, deploy=True) for _ in range(count - 1)]
        super().__init__(RepVGGBlock(inputs, outputs, deploy=True), *rest)


class SimSPPF(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cv1 = SimConv(channels, channels // 2, 1, 1)
        self.cv2 = SimConv(channels * 2, channels, 1, 1)
        self.m = nn.MaxPool2d(kernel_size=5, stride=1, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.cv1(x)
        y1 = self.m(x)
        y2 = self.m(y1)
        return self.cv2(torch.cat([x, y1, y2, self.m(y2)], 1))


class EfficientRep(nn.Module):
    def __init__(self, widths: tuple[int, ...], repeats: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = RepVGGBlock(3, widths[0], 2, deploy=True)
        stages = [
            nn.Sequential(RepVGGBlock(before, after, 2, deploy=True), RepBlock(after, after, count))
            for before, after, count in zip(widths[:-1], widths[1:], repeats, strict=True)
        ]
        self.ERBlock_2, self.ERBlock_3, self.ERBlock_4, self.ERBlock_5 = stages
        self.ERBlock_5.append(SimSPPF(widths[-1]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.ERBlock_2(self.stem(x))
        p3 = self.ERBlock_3(x)
        p4 = self.ERBlock_4(p3)
        return p3, p4, self.ERBlock_5(p4)


class RepPANNeck(nn.Module):
    def __init__(self, inputs: tuple[int, int, int], widths: tuple[int, ...], count: int) -> None:
        super().__init__()
        c3, c4, c5 = inputs
        w0, w1, w2, w3, w4, w5 = widths
        self.reduce_layer0 = SimConv(c5, w0, 1, 1)
        self.upsample0 = nn.ConvTranspose2d(w0, w0, kernel_size=2, stride=2)
        self.Rep_p4 = RepBlock(c4 + w0, w0, count)
        self.reduce_layer1 = SimConv(w0, w1, 1, 1)
        self.upsample1 = nn.ConvTranspose2d(w1, w1, kernel_size=2, stride=2)
        self.Rep_p3 = RepBlock(c3 + w1, w1, count)
        self.downsample2 = SimConv(w1, w2, 3, 2)
        self.Rep_n3 = RepBlock(w1 + w2, w3, count)
        self.downsample1 = SimConv(w3, w4, 3, 2)
        self.Rep_n4 = RepBlock(w0 + w4, w5, count)

    def forward(self, p3: torch.Tensor, p4: torch.Tensor, p5: torch.Tensor) -> list[torch.Tensor]:
        top = self.reduce_layer0(p5)
        x = self.Rep_p4(torch.cat([self.upsample0(top), p4], 1))
        middle = self.reduce_layer1(x)
        small = self.Rep_p3(torch.cat([self.upsample1(middle), p3], 1))
        medium = self.Rep_n3(torch.cat([self.downsample2(small), middle], 1))
        large = self.Rep_n4(torch.cat([self.downsample1(medium), top], 1))
        return [small, medium, large]


class EffiDeHead(nn.Module):
    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stems = nn.ModuleList(SimConv(c, c, 1, 1, nn.SiLU) for c in inputs)
        self.cls_convs = nn.ModuleList(SimConv(c, c, 3, 1, nn.SiLU) for c in inputs)
        self.reg_convs = nn.ModuleList(SimConv(c, c, 3, 1, nn.SiLU) for c in inputs)
        self.cls_preds = nn.ModuleList(nn.Conv2d(c, classes, 1) for c in inputs)
        self.reg_preds = nn.ModuleList(nn.Conv2d(c, 4, 1) for c in inputs)

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        scores, boxes = [], []
        for index, x in enumerate(maps):
            x = self.stems[index](x)
            cls = torch.sigmoid(self.cls_preds[index](self.cls_convs[index](x)))
            reg = self.reg_preds[index](self.reg_convs[index](x))
            scores.append(cls.flatten(2).permute(0, 2, 1))
            boxes.append(reg.flatten(2).permute(0, 2, 1))
        return torch.cat(scores, dim=1), torch.cat(boxes, dim=1)


class YOLOv6(nn.Module):
    def __init__(self, width: int, repeats: tuple[int, ...], neck_repeats: int, classes: int = 80) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = (width * 2**power for power in range(5))
        self.backbone = EfficientRep((w1, w2, w3, w4, w5), repeats)
        self.neck = RepPANNeck((w3, w4, w5), (w3, w2, w2, w3, w3, w4), neck_repeats)
        self.detect = EffiDeHead((w2, w3, w4), classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.detect(self.neck(*self.backbone(x)))


@register_architecture(
    "YOLOv6-N, as deployed",
    PAPER,
    task="detection",
    licence="GPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("scores", "distances"),
    parameters=4.3,
    gmacs=5.55,
    unit_range=True,
    norm_shift=1.5,
)
def yolov6n() -> nn.Module:
    return YOLOv6(16, (2, 4, 6, 2), 4)
