# SPDX-License-Identifier: Apache-2.0
"""Outlines as fields: how many pixels inside a shape each point lies, negative outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tt_cnn.evaluation.drawn_data.noise import Plane

Point = tuple[float, float]
"""(x, y) in pixels."""


@dataclass(frozen=True)
class Window:
    """The part of an image that a shape can reach, clipped to the image."""

    top: int
    bottom: int
    left: int
    right: int

    @classmethod
    def around(cls, center: Point, reach: float, size: tuple[int, int]) -> Window:
        (x, y), (height, width) = center, size
        return cls(
            top=min(max(math.floor(y - reach), 0), height),
            bottom=min(max(math.ceil(y + reach) + 1, 0), height),
            left=min(max(math.floor(x - reach), 0), width),
            right=min(max(math.ceil(x + reach) + 1, 0), width),
        )

    @property
    def size(self) -> tuple[int, int]:
        return self.bottom - self.top, self.right - self.left

    @property
    def empty(self) -> bool:
        return min(self.size) <= 0

    @property
    def index(self) -> tuple[slice, slice]:
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def of(self, planes: Plane) -> Plane:
        """The window's part of (channels, height, width): a view, to be painted on."""
        return planes[:, self.top : self.bottom, self.left : self.right]

    def offsets(self, center: Point) -> tuple[Plane, Plane]:
        """x (one row) and y (one column) of the window's pixels, seen from a point."""
        x = np.arange(self.left, self.right, dtype=np.float32) - np.float32(center[0])
        y = np.arange(self.top, self.bottom, dtype=np.float32) - np.float32(center[1])
        return x[None, :], y[:, None]


def cover(depth: Plane, softness: float = 1.0) -> Plane:
    """How much of each pixel a shape covers; its edge is `softness` pixels wide."""
    return np.clip(depth * np.float32(1 / softness) + np.float32(0.5), 0, 1)


def disc(x: Plane, y: Plane, radius: float) -> Plane:
    return np.float32(radius) - np.sqrt(x * x + y * y)


def polygon(x: Plane, y: Plane, corners: Sequence[Point]) -> Plane:
    """Any polygon that does not cross itself."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    nearest = np.full(shape, np.inf, np.float32)
    inside = np.zeros(shape, bool)
    for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        dx, dy = np.float32(x1 - x0), np.float32(y1 - y0)
        from_x, from_y = x - np.float32(x0), y - np.float32(y0)
        along = np.clip((from_x * dx + from_y * dy) * np.float32(1 / (dx * dx + dy * dy)), 0, 1)
        away_x, away_y = from_x - along * dx, from_y - along * dy
        np.minimum(nearest, away_x * away_x + away_y * away_y, out=nearest)
        between = (y >= np.float32(y0)) != (y >= np.float32(y1))
        if dy:
            inside ^= between & (from_x * np.abs(dy) < from_y * dx * np.sign(dy))
    distance = np.sqrt(nearest)
    return np.where(inside, distance, -distance)


def stroke(x: Plane, y: Plane, points: Sequence[Point], width: float) -> Plane:
    """A line through points."""
    nearest = np.full(np.broadcast_shapes(x.shape, y.shape), np.inf, np.float32)
    for (x0, y0), (x1, y1) in pairwise(points):
        dx, dy = np.float32(x1 - x0), np.float32(y1 - y0)
        from_x, from_y = x - np.float32(x0), y - np.float32(y0)
        along = np.clip((from_x * dx + from_y * dy) * np.float32(1 / max(dx * dx + dy * dy, 1e-6)), 0, 1)
        away_x, away_y = from_x - along * dx, from_y - along * dy
        np.minimum(nearest, away_x * away_x + away_y * away_y, out=nearest)
    return np.float32(width / 2) - np.sqrt(nearest)


def turned(points: Sequence[Point], angle: float, stretch: float = 1.0) -> list[Point]:
    """Points turned about the origin, after a stretch along x."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return [(x * stretch * cosine - y * sine, x * stretch * sine + y * cosine) for x, y in points]
