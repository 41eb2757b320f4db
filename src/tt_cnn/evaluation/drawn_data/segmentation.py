# SPDX-License-Identifier: Apache-2.0
"""Images like micrographs: granular cells to find, among stains, bubbles and fibres that are none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import numpy as np

from tt_cnn.evaluation.drawn_data.drawn import DrawnPictures
from tt_cnn.evaluation.drawn_data.files import new_folder, write_png
from tt_cnn.evaluation.drawn_data.noise import (
    Plane,
    fractal,
    grain,
    shading,
    soften,
    to_picture,
    uniform,
    value_noise,
)
from tt_cnn.evaluation.drawn_data.outlines import Point, Window, cover, disc, stroke
from tt_cnn.evaluation.drawn_data.targets import Mask, Picture

STAINS = (
    ((0.92, 0.78, 0.85), (0.62, 0.30, 0.58)),
    ((0.86, 0.88, 0.93), (0.35, 0.42, 0.72)),
    ((0.93, 0.89, 0.78), (0.66, 0.44, 0.28)),
    ((0.83, 0.90, 0.84), (0.30, 0.55, 0.48)),
    ((0.90, 0.82, 0.76), (0.68, 0.28, 0.30)),
)
"""What the tissue and what a cell lets through of red, green and blue light."""

DARK_FIELD = 0.15
"""The part of the images that are seen in dark field: inverted."""
WITHOUT_CELLS = 0.04


class SegmentationShapes(DrawnPictures[Mask]):
    """(image, mask): the mask is 1 on cells, (height, width) uint8."""

    class_names: ClassVar[tuple[str, ...]] = ("cell",)
    default_size: ClassVar[tuple[int, int]] = (480, 640)
    default_count: ClassVar[dict[str, int]] = {"train": 6000, "val": 200}
    stream: ClassVar[int] = 1

    def draw(self, random: np.random.Generator) -> tuple[Picture, Mask]:
        slide = _Slide(random, self.size)
        for _ in range(random.integers(1, 7)):
            slide.add_stain()
        for _ in range(random.integers(0, 4)):
            slide.add_bubble()
        if uniform(random, 0, 1) >= WITHOUT_CELLS:
            for _ in range(random.integers(2, 14)):
                slide.add_cell()
        for _ in range(random.integers(0, 5)):
            slide.add_fibre()
        return slide.picture(), slide.mask.astype(np.uint8)

    def write(self, folder: Path | str) -> None:
        """`images/000000.png` and so on, and masks of the same names in `masks`, 255 on cells."""
        path = new_folder(folder)
        for name in ("images", "masks"):
            (path / name).mkdir()
        for index, (picture, mask) in enumerate(self):
            write_png(path / "images" / f"{index:06}.png", picture)
            write_png(path / "masks" / f"{index:06}.png", mask * np.uint8(255))


class _Slide:
    """Light through tissue and all that lies on it; every layer takes some of the light away."""

    def __init__(self, random: np.random.Generator, size: tuple[int, int]) -> None:
        self.random, self.size = random, size
        self.unit = min(size) / 480
        """Lengths below are for images 480 pixels high."""
        tissue, cell = (np.array(each, np.float32) for each in STAINS[random.integers(len(STAINS))])
        tissue = np.clip(tissue + uniform(random, -0.07, 0.07, 3), 0, 1)
        self.cell = np.clip(cell + uniform(random, -0.10, 0.10, 3), 0.1, 0.9)
        broad = fractal(random, size, 220 * self.unit, 10 * self.unit, 0.55)
        streaks = fractal(random, size, 40 * self.unit, 4, 0.7)
        contrast, streak_contrast = uniform(random, 0.1, 0.4), uniform(random, 0.05, 0.25)
        density = 1 + contrast * broad + streak_contrast * streaks
        self.light = 1 - (1 - tissue[:, None, None]) * density * uniform(random, 0.8, 1.8)
        self.mask = np.zeros(size, bool)

    def add_cell(self) -> None:
        """A granular body with a dark rim and a darker nucleus."""
        random = self.random
        radius = self.unit * 12 * 6.5 ** float(uniform(random, 0, 1))
        found = self._blob(radius, roughness=float(uniform(random, 0.12, 0.34)))
        if found is None:
            return
        window, depth, center = found
        body = cover(depth, float(uniform(random, 1.0, 9.0)))
        strength = uniform(random, 0.16, 0.85)
        granules = value_noise(random, window.size, max(2.5, 4.5 * self.unit))
        granules += value_noise(random, window.size, max(2.0, 2.5 * self.unit))
        texture = 1 + uniform(random, 0.15, 0.35) * granules
        rim = np.clip(1 - np.abs(depth - 2 * self.unit) / np.float32(3 * self.unit), 0, 1) * uniform(random, 0.1, 0.6)
        x, y = window.offsets(self._near(center, radius * 0.3))
        nucleus = cover(disc(x, y, radius * float(uniform(random, 0.25, 0.4))), 3) * uniform(random, 0.2, 0.7)
        self._absorb(window, body * strength * (texture + nucleus + rim), self.cell)
        self.mask[window.index] |= depth > 0

    def add_stain(self) -> None:
        """The colour of cells without rim, granules or nucleus, and with a soft edge."""
        random = self.random
        radius = self.unit * 25 * 4 ** float(uniform(random, 0, 1))
        found = self._blob(radius, roughness=float(uniform(random, 0.2, 0.45)))
        if found is None:
            return
        window, depth, _ = found
        softness = self.unit * float(uniform(random, 4, 30))
        self._absorb(window, cover(depth, softness) * uniform(random, 0.2, 0.7), self.cell)

    def add_bubble(self) -> None:
        """A thin dark ring about a bright inside."""
        random = self.random
        radius = self.unit * float(uniform(random, 8, 45))
        center = self._anywhere()
        window = Window.around(center, radius + 4, self.size)
        if window.empty:
            return
        depth = disc(*window.offsets(center), radius)
        ring = np.clip(1 - np.abs(depth - 2) / np.float32(2.5 * self.unit + 0.5), 0, 1)
        self._absorb(window, ring * uniform(random, 0.5, 1.0), np.full(3, 0.35, np.float32))
        part = window.of(self.light)
        part += cover(depth, 3) * uniform(random, 0.0, 0.1)

    def add_fibre(self) -> None:
        """A bent thread across the image; it hides no cell."""
        random = self.random
        width = self.size[1]
        (x, y), heading = self._anywhere(), float(uniform(random, 0, 2 * math.pi))
        points = [(x, y)]
        for turn in uniform(random, -0.35, 0.35, int(random.integers(4, 10))):
            heading += float(turn)
            x, y = x + 0.08 * width * math.cos(heading), y + 0.08 * width * math.sin(heading)
            points.append((x, y))
        middle = (sum(p[0] for p in points) / len(points), sum(p[1] for p in points) / len(points))
        reach = max(math.dist(middle, point) for point in points) + 6
        window = Window.around(middle, reach, self.size)
        if window.empty:
            return
        depth = stroke(*window.offsets((0, 0)), points, self.unit * float(uniform(random, 1.5, 5)))
        color = np.clip(self.cell + uniform(random, -0.25, 0.25, 3), 0.05, 0.9)
        self._absorb(window, cover(depth, 1.5) * uniform(random, 0.5, 1.0), color)

    def picture(self) -> Picture:
        random = self.random
        light = self.light * shading(random, self.size, slope=0.18, vignette=0.35)
        if uniform(random, 0, 1) < DARK_FIELD:
            light = np.float32(1.02) - light
        if uniform(random, 0, 1) < 0.5:
            light = soften(light)
        light = (light - np.float32(0.5)) * uniform(random, 0.8, 1.1) + np.float32(0.5) + uniform(random, -0.06, 0.06)
        return to_picture(light + grain(random, light.shape, float(uniform(random, 0.005, 0.05))))

    def _blob(self, radius: float, roughness: float) -> tuple[Window, Plane, Point] | None:
        """An ellipse whose edge noise has moved."""
        random = self.random
        center = self._anywhere()
        window = Window.around(center, radius * 1.9, self.size)
        if window.empty:
            return None
        x, y = window.offsets(center)
        angle, squeeze = float(uniform(random, 0, math.pi)), float(uniform(random, 0.6, 1.0))
        cosine, sine = np.float32(math.cos(angle)), np.float32(math.sin(angle))
        along, across = x * cosine + y * sine, (y * cosine - x * sine) * np.float32(1 / squeeze)
        moved = roughness * value_noise(random, window.size, radius * 0.9)
        moved += np.float32(roughness * 0.35) * value_noise(random, window.size, radius * 0.3)
        depth = (np.float32(squeeze) - moved) * np.float32(radius) - np.sqrt(along * along + across * across)
        return window, depth * np.float32(squeeze), center

    def _anywhere(self) -> Point:
        height, width = self.size
        return float(uniform(self.random, 0, width)), float(uniform(self.random, 0, height))

    def _near(self, point: Point, distance: float) -> Point:
        dx, dy = uniform(self.random, -distance, distance, 2)
        return point[0] + float(dx), point[1] + float(dy)

    def _absorb(self, window: Window, amount: Plane, color: Plane) -> None:
        part = window.of(self.light)
        part *= 1 - np.clip(amount, 0, np.float32(1.3)) * (1 - color[:, None, None])
