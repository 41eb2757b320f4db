# SPDX-License-Identifier: Apache-2.0
"""From an image of any size to a model's input, and from what the model finds back to the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import interpolate

from tt_cnn.evaluation.pictures import Picture
from tt_cnn.models import ModelEntry

Fit = Literal["stretch", "letterbox", "crop"]
FIT_OF_TASK: dict[str, Fit] = {"segmentation": "stretch", "detection": "letterbox", "classification": "crop"}
"""Masks lose nothing when pixels are stretched; boxes keep their proportions; classes are in the middle."""

CROPPED = 0.875
"""How much of the shorter side a classifier sees: 224 of 256, as ImageNet is evaluated."""
LETTERBOX_GRAY = 114 / 255


@dataclass(frozen=True)
class Placement:
    """Where the whole image lies in the model's input, in pixels of the input; for a crop it reaches outside."""

    picture: tuple[int, int]
    resolution: tuple[int, int]
    top: int
    left: int
    height: int
    width: int

    @classmethod
    def of(cls, picture: tuple[int, int], resolution: tuple[int, int], fit: Fit) -> Placement:
        """An image that has the input's size already is taken as it is."""
        ratios = (resolution[0] / picture[0], resolution[1] / picture[1])
        if fit == "stretch" or picture == resolution:
            height, width = resolution
        else:
            scale = min(ratios) if fit == "letterbox" else max(ratios) / CROPPED
            height, width = (max(1, round(side * scale)) for side in picture)
        return cls(picture, resolution, (resolution[0] - height) // 2, (resolution[1] - width) // 2, height, width)

    def corners_in_picture(self, corners: torch.Tensor) -> torch.Tensor:
        """(n, 4) left, top, right, bottom as fractions of the input, to pixels of the image, cut at its edges."""
        (rows, columns), (input_rows, input_columns) = self.picture, self.resolution
        x = (corners[:, 0::2] * input_columns - self.left) * columns / self.width
        y = (corners[:, 1::2] * input_rows - self.top) * rows / self.height
        x, y = x.clamp(0, columns), y.clamp(0, rows)
        return torch.stack((x[:, 0], y[:, 0], x[:, 1], y[:, 1]), dim=1)

    def map_in_picture(self, values: torch.Tensor) -> torch.Tensor:
        """(height, width) of the input, to the image's size; 0 where the input does not show the image."""
        rows, columns = max(self.height, self.resolution[0]), max(self.width, self.resolution[1])
        canvas = torch.zeros(rows, columns)
        top, left = max(0, -self.top), max(0, -self.left)
        canvas[top : top + self.resolution[0], left : left + self.resolution[1]] = values
        top, left = max(0, self.top), max(0, self.left)
        return _resized(canvas[None, top : top + self.height, left : left + self.width], self.picture)[0]


def place(picture: Picture, resolution: tuple[int, int], fit: Fit) -> tuple[torch.Tensor, Placement]:
    """(3, height, width) between 0 and 1, and where in it the image is."""
    placement = Placement.of((picture.shape[0], picture.shape[1]), resolution, fit)
    values = torch.from_numpy(picture.copy()).permute(2, 0, 1).float() / 255
    content = _resized(values, (placement.height, placement.width))
    rows, columns = resolution
    top, left = max(0, -placement.top), max(0, -placement.left)
    content = content[:, top : top + rows, left : left + columns]
    canvas = torch.full((3, rows, columns), LETTERBOX_GRAY)
    top, left = max(0, placement.top), max(0, placement.left)
    canvas[:, top : top + content.shape[1], left : left + content.shape[2]] = content
    return canvas, placement


def prepare(
    entry: ModelEntry, picture: Picture, resolution: tuple[int, int] | None = None
) -> tuple[torch.Tensor, Placement]:
    """(1, 3, height, width) as the entry's reference takes it, and where in it the image is."""
    values, placement = place(picture, resolution or entry.resolution, FIT_OF_TASK[entry.task])
    return entry.normalize(values[None]), placement


def _resized(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """(channels, height, width); smaller ones are averaged, not sampled."""
    if tuple(values.shape[1:]) == tuple(size):
        return values
    return interpolate(values[None], size=size, mode="bilinear", align_corners=False, antialias=True)[0].clamp(0, 1)
