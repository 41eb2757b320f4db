# SPDX-License-Identifier: Apache-2.0
"""Heads of detectors as people write them, small, and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Forward = Callable[..., Any]


class AnchorHead(nn.Module):
    """Boxes of anchors from maps of two strides, as YOLOv4's decoding makes them; columns and rows differ."""

    anchors = ((12.0, 16.0), (19.0, 36.0), (40.0, 28.0))

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.classes = classes
        self.down = nn.Conv2d(32, 32, 3, 2, 1)
        self.fine, self.coarse = nn.Conv2d(32, 3 * (5 + classes), 1), nn.Conv2d(32, 3 * (5 + classes), 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decoded = [self.decode(self.fine(x), 8), self.decode(self.coarse(self.down(x)), 16)]
        boxes, confidences = zip(*decoded, strict=True)
        return torch.cat(boxes, dim=1), torch.cat(confidences, dim=1)

    def decode(self, maps: torch.Tensor, stride: int) -> tuple[torch.Tensor, torch.Tensor]:
        batch, _, height, width = maps.shape
        x = maps.view(batch, 3, 5 + self.classes, height, width)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        sizes = torch.tensor(self.anchors).view(1, 3, 2, 1, 1) / stride
        center = torch.sigmoid(x[:, :, 0]) + columns, torch.sigmoid(x[:, :, 1]) + rows
        half = torch.exp(x[:, :, 2:4]) * sizes / 2
        corners = torch.stack(
            (
                (center[0] - half[:, :, 0]) / width,
                (center[1] - half[:, :, 1]) / height,
                (center[0] + half[:, :, 0]) / width,
                (center[1] + half[:, :, 1]) / height,
            ),
            dim=-1,
        )
        confidence = torch.sigmoid(x[:, :, 5:]) * torch.sigmoid(x[:, :, 4:5])
        return (
            corners.reshape(batch, -1, 1, 4),
            confidence.permute(0, 1, 3, 4, 2).reshape(batch, -1, self.classes),
        )


class DistributionHead(nn.Module):
    """Sides of boxes as means of distributions: `einsum` as YOLOv8's reference here has it, `convolution` as the public
    one has it."""

    def __init__(self, style: str, classes: int = 5) -> None:
        super().__init__()
        self.style, self.bins = style, 8
        self.down = nn.Conv2d(32, 32, 3, 2, 1)
        self.boxes, self.classes = nn.Conv2d(32, 4 * self.bins, 1), nn.Conv2d(32, classes, 1)
        self.dfl = nn.Conv2d(self.bins, 1, 1, bias=False)
        self.dfl.weight.data = torch.arange(float(self.bins)).view(1, -1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = [torch.cat((self.boxes(y), self.classes(y)), 1) for y in (x, self.down(x))]
        x = torch.cat([each.flatten(2) for each in maps], 2)
        boxes, scores = x.split((4 * self.bins, x.shape[1] - 4 * self.bins), 1)
        middles, strides = self.cells([each.shape[-2:] for each in maps])
        sides = self.distances(boxes)
        left_top, right_bottom = sides.chunk(2, 1)
        if self.style == "einsum":
            found = torch.cat((middles + (right_bottom - left_top) / 2, left_top + right_bottom), 1)
        else:
            first, last = middles - left_top, middles + right_bottom
            found = torch.cat(((first + last) / 2, last - first), 1)
        return torch.cat((found * strides, scores.sigmoid()), 1)

    def distances(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, count = x.shape
        shares = x.view(batch, 4, self.bins, count)
        if self.style == "einsum":
            return torch.einsum("nskb,k->nsb", shares.softmax(2), torch.arange(self.bins).to(x))
        return self.dfl(shares.transpose(2, 1).softmax(1)).view(batch, 4, count)

    def cells(self, sizes: Any) -> tuple[torch.Tensor, torch.Tensor]:
        middles, strides = [], []
        for (height, width), stride in zip(sizes, (8, 16), strict=True):
            rows, columns = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
            middles.append(torch.stack((columns.flatten(), rows.flatten())))
            strides.append(torch.full((1, height * width), float(stride)))
        return torch.cat(middles, dim=1), torch.cat(strides, dim=1)


class RandomHead(nn.Module):
    """Parts of a map treated more or less alike, stacked or joined, and what came of it taken apart again."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        torch.manual_seed(seed)
        self.groups, self.each = self.chance.choice([(1, 12), (3, 8), (2, 6), (4, 4)])
        self.conv = nn.Conv2d(32, self.groups * self.each, 1)
        self.seed = seed

    def forward(self, x: torch.Tensor) -> Any:
        chance = random.Random(self.seed)
        maps = self.conv(x)
        batch, _, height, width = maps.shape
        if chance.random() < 0.3:
            maps = maps.sigmoid()
        y = maps.view(batch, self.groups, self.each, height, width)
        dim = chance.choice((1, 2)) if self.groups > 1 else 2
        count = chance.choice((2, 3, 4))
        first = chance.randrange(y.shape[dim] - count + 1) if y.shape[dim] >= count else 0
        places = [min(first + i, y.shape[dim] - 1) for i in range(count)]
        if chance.random() < 0.2:
            chance.shuffle(places)
        alike = chance.random() < 0.7
        steps = [self._step(chance) for _ in range(chance.randint(0, 3))]
        parts = []
        for index, place in enumerate(places):
            part = y.select(dim, place)
            own = steps if alike else [self._step(chance) for _ in range(2)]
            for step in own:
                part = step(part, index)
            parts.append(part)
        if chance.random() < 0.5:
            z = torch.stack(parts, chance.choice((-1, 1, 2, 0)))
        else:
            z = torch.cat(parts, chance.choice((1, -1, 2)))
        return self._end(chance, z, parts)

    @staticmethod
    def _step(chance: random.Random) -> Forward:
        number = chance.choice((2.0, 0.5, 3.0))
        return chance.choice(
            [
                lambda p, i: p.sigmoid(),
                lambda p, i: p * number,
                lambda p, i: p / (number + i),
                lambda p, i: p + torch.arange(float(p.shape[-1])) * (i + 1),
                lambda p, i: p - torch.arange(float(p.shape[-2]))[:, None],
                lambda p, i: number - p,
                lambda p, i: torch.exp(p / 4),
                lambda p, i: p * p,
                lambda p, i: p.clamp(-1.0, 1.0),
            ]
        )

    @staticmethod
    def _end(chance: random.Random, z: torch.Tensor, parts: list[torch.Tensor]) -> Any:
        end = chance.randrange(6)
        if end == 0:
            return z, parts[0]
        if end == 1:
            return z.flatten(1, 2)
        if end == 2:
            one, other = z[:, : z.shape[1] // 2], z[:, z.shape[1] - z.shape[1] // 2 :]
            return torch.cat(((one + other) / 2, other - one, one * 3 + 1), 1) if one.shape[1] else z
        if end == 3:
            return z.permute(0, *range(2, z.dim()), 1).reshape(z.shape[0], -1, z.shape[1])
        if end == 4:
            return z * 2 + 1
        return z
