# SPDX-License-Identifier: Apache-2.0
"""YOLOv8: blocks that keep every step (C2f), a head whose distances are distributions, boxes decoded in the model.

After its published description. Two outputs: boxes (N, 4, positions), centre and size in pixels, and scores.
"""

from __future__ import annotations

import torch
from torch import nn

from tt_cnn.zoo.registry import register_architecture
from tt_cnn.zoo.yolov5 import SPPF, Conv

BINS = 16
"""A distance is the mean of a distribution over as many steps."""


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, inner: int, outputs: int, shortcut: bool) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, inner, 3)
        self.cv2 = Conv(inner, outputs, 3)
        self.add = shortcut and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.cv2(self.cv1(x)) if self.add else self.cv2(self.cv1(x))


class C2f(nn.Module):
    """Half of the channels through `blocks`, one after the other; all their outputs are read at the end."""

    def __init__(self, inputs: int, outputs: int, half: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.cv1 = Conv(inputs, 2 * half, 1)
        self.cv2 = Conv((2 + len(blocks)) * half, outputs, 1)
        self.m = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        y.extend(m(y[-1]) for m in self.m)
        return self.cv2(torch.cat(y, 1))


def c2f(inputs: int, outputs: int, count: int, shortcut: bool) -> C2f:
    half = outputs // 2
    return C2f(inputs, outputs, half, [Bottleneck(half, half, half, shortcut) for _ in range(count)])


class DFL(nn.Module):
    """The mean of a distribution, as a 1x1 convolution whose weights are the steps (Li et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.arange(BINS, dtype=torch.float).view(1, BINS, 1, 1), persistent=False)
        self.steps: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, positions = x.shape
        x = x.view(batch, 4, BINS, positions).transpose(2, 1).softmax(1)
        return nn.functional.conv2d(x, self.steps).view(batch, 4, positions)


class Detect(nn.Module):
    """`box` and `cls` are the branches of each map. Distances (N, 4, positions) in cells to the sides of the boxes, and
    scores (N, classes, positions).
    """

    def __init__(self, box: list[nn.Module], cls: list[nn.Module], classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.cv2 = nn.ModuleList(box)
        self.cv3 = nn.ModuleList(cls)
        self.dfl = DFL()

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        joined = [torch.cat((box(x), cls(x)), 1) for box, cls, x in zip(self.cv2, self.cv3, maps, strict=True)]
        x = torch.cat([y.view(y.shape[0], y.shape[1], -1) for y in joined], 2)
        distances, scores = x.split((4 * BINS, self.classes), 1)
        return self.dfl(distances), scores.sigmoid()


def boxes_of(distances: torch.Tensor, maps: list[torch.Tensor]) -> torch.Tensor:
    points, strides = positions_of(maps)
    left_top, right_bottom = distances.chunk(2, 1)
    low, high = points - left_top, points + right_bottom
    return torch.cat(((low + high) / 2, high - low), 1) * strides


def positions_of(maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The middles of all cells in cells, (1, 2, positions), and the strides of their maps, (1, 1, positions)."""
    points, strides = [], []
    for power, x in enumerate(maps):
        height, width = x.shape[2:]
        rows = torch.arange(height, device=x.device, dtype=x.dtype) + 0.5
        columns = torch.arange(width, device=x.device, dtype=x.dtype) + 0.5
        y, x_ = torch.meshgrid(rows, columns, indexing="ij")
        points.append(torch.stack((x_, y)).view(2, -1))
        strides.append(torch.full((1, height * width), 8.0 * 2**power, dtype=x.dtype, device=x.device))
    return torch.cat(points, 1).unsqueeze(0), torch.cat(strides, 1).unsqueeze(0)


def box_branch(inputs: int, inner: int) -> nn.Sequential:
    return nn.Sequential(Conv(inputs, inner, 3), Conv(inner, inner, 3), nn.Conv2d(inner, 4 * BINS, 1))


class YOLOv8(nn.Module):
    def __init__(self, width: int, depths: tuple[int, int], classes: int = 80) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = (width * 2**power for power in range(5))
        few, many = depths
        self.conv0 = Conv(3, w1, 3, 2)
        self.conv1 = Conv(w1, w2, 3, 2)
        self.c2f_2 = c2f(w2, w2, few, True)
        self.conv3 = Conv(w2, w3, 3, 2)
        self.c2f_4 = c2f(w3, w3, many, True)
        self.conv5 = Conv(w3, w4, 3, 2)
        self.c2f_6 = c2f(w4, w4, many, True)
        self.conv7 = Conv(w4, w5, 3, 2)
        self.c2f_8 = c2f(w5, w5, few, True)
        self.sppf = SPPF(w5)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.c2f_12 = c2f(w5 + w4, w4, few, False)
        self.c2f_15 = c2f(w4 + w3, w3, few, False)
        self.conv16 = Conv(w3, w3, 3, 2)
        self.c2f_18 = c2f(w3 + w4, w4, few, False)
        self.conv19 = Conv(w4, w4, 3, 2)
        self.c2f_21 = c2f(w4 + w5, w5, few, False)
        widths, inner = (w3, w4, w5), max(w3, min(classes, 100))
        self.detect = Detect(
            [box_branch(channels, max(w3 // 4, 4 * BINS)) for channels in widths],
            [nn.Sequential(Conv(c, inner, 3), Conv(inner, inner, 3), nn.Conv2d(inner, classes, 1)) for c in widths],
            classes,
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.c2f_2(self.conv1(self.conv0(x)))
        p3 = self.c2f_4(self.conv3(x))
        p4 = self.c2f_6(self.conv5(p3))
        p5 = self.sppf(self.c2f_8(self.conv7(p4)))
        middle = self.c2f_12(torch.cat([self.upsample(p5), p4], 1))
        small = self.c2f_15(torch.cat([self.upsample(middle), p3], 1))
        medium = self.c2f_18(torch.cat([self.conv16(small), middle], 1))
        large = self.c2f_21(torch.cat([self.conv19(medium), p5], 1))
        maps = [small, medium, large]
        distances, scores = self.detect(maps)
        return boxes_of(distances, maps), scores


@register_architecture(
    "YOLOv8n",
    "Jocher, Chaurasia, Qiu 2023",
    task="detection",
    licence="AGPL-3.0",
    input_shape=(3, 640, 640),
    outputs=("boxes", "scores"),
    parameters=3.157,
    gmacs=4.35,
    unit_range=True,
    residuals=("c2f_[2468].m.*.cv2.bn",),
    norm_shift=1.5,
)
def yolov8n() -> nn.Module:
    return YOLOv8(16, (1, 2))
