# SPDX-License-Identifier: Apache-2.0
"""Discs, squares, triangles and stars, of any colour and texture, on cluttered ground and partly behind each other."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

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
from tt_cnn.evaluation.drawn_data.outlines import Point, Window, cover, disc, polygon, stroke, turned
from tt_cnn.evaluation.drawn_data.targets import Boxes, Picture

LEAST_VISIBLE = 0.45
"""The part of an object that later ones must leave to be seen."""
TRIES = 12
LEAST_CONTRAST = 0.13


class DetectionShapes(DrawnPictures[Boxes]):
    """(image, boxes of the four shapes); other shapes lie about that are none of them."""

    class_names: ClassVar[tuple[str, ...]] = ("disc", "square", "triangle", "star")
    default_size: ClassVar[tuple[int, int]] = (320, 320)
    default_count: ClassVar[dict[str, int]] = {"train": 30000, "val": 500}
    stream: ClassVar[int] = 2

    def draw(self, random: np.random.Generator) -> tuple[Picture, Boxes]:
        scene = _Scene(random, self.size)
        for _ in range(random.integers(3, 12)):
            scene.add_clutter()
        for _ in range(random.integers(1, 9)):
            scene.add_object()
        return scene.picture(), scene.boxes()

    def write(self, folder: Path | str) -> None:
        """`images/000000.png` and so on, and `annotations.json` in COCO's format (its category ids start at 1)."""
        path = new_folder(folder)
        (path / "images").mkdir()
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for index, (picture, boxes) in enumerate(self):
            name = f"{index:06}.png"
            write_png(path / "images" / name, picture)
            images.append({"id": index + 1, "file_name": name, "height": self.size[0], "width": self.size[1]})
            for box, label in zip(boxes.xywh.tolist(), boxes.labels.tolist(), strict=True):
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": index + 1,
                        "category_id": label + 1,
                        "bbox": box,
                        "area": box[2] * box[3],
                        "iscrowd": 0,
                    }
                )
        categories = [{"id": label + 1, "name": name} for label, name in enumerate(self.class_names)]
        everything = {"images": images, "annotations": annotations, "categories": categories}
        (path / "annotations.json").write_text(json.dumps(everything))


class _Scene:
    """Ground, then things painted over each other; it remembers whose every pixel is."""

    def __init__(self, random: np.random.Generator, size: tuple[int, int]) -> None:
        self.random, self.size = random, size
        self.unit = min(size) / 320
        """Lengths below are for images of 320 pixels."""
        self.planes = _ground(random, size, self.unit)
        self.owner = np.full(size, -1, np.int32)
        self.areas: list[int] = []
        self.found: list[tuple[int, Window]] = []

    def add_object(self) -> None:
        """One of the classes, where it leaves enough of the others to be seen."""
        random = self.random
        label = int(random.integers(len(OBJECTS)))
        radius = self.unit * 8 * 9 ** float(uniform(random, 0, 1))
        angle, stretch = float(uniform(random, 0, 2 * math.pi)), float(uniform(random, 0.88, 1.12))
        for _ in range(TRIES):
            center = self._anywhere(margin=0.5 * radius)
            window = Window.around(center, radius * 1.25 + 2, self.size)
            depth = OBJECTS[label](random, *window.offsets(center), radius, angle, stretch)
            inside = depth > 0
            if inside.any() and self._leaves_others_visible(window, inside):
                break
        else:
            return
        self._paint(window, depth, center, radius)
        self.owner[window.index][inside] = len(self.areas)
        self.areas.append(int(inside.sum()))
        self.found.append((label, _extent(window, inside)))

    def add_clutter(self) -> None:
        random = self.random
        shape = CLUTTER[random.integers(len(CLUTTER))]
        radius = self.unit * float(uniform(random, 10, 60))
        center = self._anywhere(margin=0)
        window = Window.around(center, radius * 1.3 + 2, self.size)
        depth = shape(random, *window.offsets(center), radius, float(uniform(random, 0, 2 * math.pi)), 1.0)
        self._paint(window, depth, center, radius)

    def picture(self) -> Picture:
        random = self.random
        planes = self.planes * shading(random, self.size, slope=0.2, vignette=0.4)
        for _ in range(random.integers(0, 4)):
            planes = soften(planes)
        half = np.float32(0.5)
        planes = (planes - half) * uniform(random, 0.7, 1.1) + half + uniform(random, -0.08, 0.08)
        return to_picture(planes + grain(random, planes.shape, float(uniform(random, 0.0, 0.06))))

    def boxes(self) -> Boxes:
        corners = [(box.left, box.top, box.right - box.left, box.bottom - box.top) for _, box in self.found]
        return Boxes(
            np.array(corners, np.float32).reshape(-1, 4), np.array([label for label, _ in self.found], np.int64)
        )

    def _leaves_others_visible(self, window: Window, inside: np.ndarray) -> bool:
        covered = np.bincount(self.owner[window.index][inside] + 1, minlength=len(self.areas) + 1)[1:]
        for index in np.flatnonzero(covered):
            seen = int((self.owner == index).sum()) - int(covered[index])
            if seen < LEAST_VISIBLE * self.areas[index]:
                return False
        return True

    def _paint(self, window: Window, depth: Plane, center: Point, radius: float) -> None:
        """Perhaps a shadow, then a textured fill, perhaps with an outline."""
        random = self.random
        part = window.of(self.planes)
        if uniform(random, 0, 1) < 0.3:
            part *= 1 - uniform(random, 0.2, 0.5) * cover(depth + 1.5 * self.unit, 5 * self.unit)
        color = self._color_unlike(part[:, part.shape[1] // 2, part.shape[2] // 2])
        fill = color[:, None, None] + _texture(random, window, center, radius)
        if uniform(random, 0, 1) < 0.35:
            width = float(uniform(random, 1.0, 3.5)) * self.unit
            line = cover(np.float32(width) - depth)
            fill = fill + line * (uniform(random, 0, 1, 3)[:, None, None] - fill)
        part += cover(depth, float(uniform(random, 0.8, 1.8))) * (fill - part)

    def _color_unlike(self, ground: Plane) -> Plane:
        for _ in range(TRIES):
            color = uniform(self.random, 0.05, 0.95, 3)
            if float(np.abs(color - ground).max()) > LEAST_CONTRAST:
                break
        return color

    def _anywhere(self, margin: float) -> Point:
        height, width = self.size
        x = float(uniform(self.random, margin, width - margin))
        return x, float(uniform(self.random, margin, height - margin))


def _ground(random: np.random.Generator, size: tuple[int, int], unit: float) -> Plane:
    """Two landscapes of noise with a border between them, as ground and sky or wall and floor have."""
    planes = _landscape(random, size, unit)
    if uniform(random, 0, 1) < 0.6:
        height, width = size
        angle = float(uniform(random, 0, 2 * math.pi))
        y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)
        across = (x - width / 2) * np.float32(math.cos(angle)) + (y - height / 2) * np.float32(math.sin(angle))
        bent = across + 25 * unit * value_noise(random, size, 90 * unit)
        border = cover(bent - uniform(random, -80, 80) * unit, float(uniform(random, 1, 12)))
        planes += border * (_landscape(random, size, unit) - planes)
    return planes


def _landscape(random: np.random.Generator, size: tuple[int, int], unit: float) -> Plane:
    light = fractal(random, size, 160 * unit, 5, float(uniform(random, 0.45, 0.7)))
    hue = fractal(random, size, 120 * unit, 15 * unit)
    base = uniform(random, 0.2, 0.8, 3)
    bright, tint = uniform(random, 0.05, 0.2), uniform(random, -0.12, 0.12, 3)
    return base[:, None, None] + bright * light + tint[:, None, None] * hue


def _texture(random: np.random.Generator, window: Window, center: Point, radius: float) -> Plane:
    """What is added to a fill's colour: nothing, a slope of light, stripes, checks or noise."""
    kind = random.integers(5)
    strength = uniform(random, 0.08, 0.3)
    x, y = window.offsets(center)
    angle = float(uniform(random, 0, 2 * math.pi))
    along = x * np.float32(math.cos(angle)) + y * np.float32(math.sin(angle))
    across = y * np.float32(math.cos(angle)) - x * np.float32(math.sin(angle))
    period = max(3.0, radius * float(uniform(random, 0.15, 0.5)))
    if kind == 0:
        return np.zeros((1, *window.size), np.float32)
    if kind == 1:
        return (strength * along * np.float32(1 / radius))[None]
    if kind == 2:
        return (strength * _wave(along, period))[None]
    if kind == 3:
        return (strength * np.sign(_wave(along, period) * _wave(across, period)))[None]
    return (strength * fractal(random, window.size, period, 2.5, 0.7))[None]


def _wave(position: Plane, period: float) -> Plane:
    """Between -1 and 1, up and down in straight lines."""
    part = position * np.float32(1 / period)
    return 1 - 4 * np.abs(part - np.floor(part) - np.float32(0.5))


Outline = Callable[[np.random.Generator, Plane, Plane, float, float, float], Plane]
"""(random, x, y, radius, angle, stretch) -> the depth of each point."""


def _regular(corners: int, radius: float, inner: float | None = None) -> list[Point]:
    """A regular polygon, or with `inner` a star."""
    radii = [radius] if inner is None else [radius, inner]
    steps = corners * len(radii)
    return [
        (radii[step % len(radii)] * math.cos(turn), radii[step % len(radii)] * math.sin(turn))
        for step, turn in ((step, 2 * math.pi * step / steps) for step in range(steps))
    ]


def _disc(_: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, stretch: float) -> Plane:
    return disc(x, y, radius * 0.9)


def _square(_: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, stretch: float) -> Plane:
    return polygon(x, y, turned(_regular(4, radius * 1.1), angle, stretch))


def _triangle(_: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, stretch: float) -> Plane:
    return polygon(x, y, turned(_regular(3, radius * 1.1), angle, stretch))


def _star(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, stretch: float) -> Plane:
    inner = radius * 1.1 * float(uniform(random, 0.36, 0.5))
    return polygon(x, y, turned(_regular(5, radius * 1.1, inner), angle, stretch))


def _bar(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    half = radius * float(uniform(random, 0.08, 0.35))
    return polygon(x, y, turned([(-radius, -half), (radius, -half), (radius, half), (-radius, half)], angle))


def _ellipse(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    squeeze = float(uniform(random, 0.35, 0.65))
    corners = [(radius * cosine, radius * squeeze * sine) for cosine, sine in _regular(24, 1.0)]
    return polygon(x, y, turned(corners, angle))


def _hexagon(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    return polygon(x, y, turned(_regular(6, radius), angle))


def _arrow(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    notch = radius * float(uniform(random, -0.1, 0.35))
    return polygon(x, y, turned([(radius, 0), (-radius, 0.8 * radius), (-notch, 0), (-radius, -0.8 * radius)], angle))


def _ring(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    return np.minimum(disc(x, y, radius), -disc(x, y, radius * float(uniform(random, 0.6, 0.8))))


def _crescent(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    ((dx, dy),) = turned([(radius * 0.6, 0.0)], angle)
    return np.minimum(disc(x, y, radius), -disc(x - np.float32(dx), y - np.float32(dy), radius * 0.9))


def _cross(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    return np.maximum(*(_bar(random, x, y, radius, angle + turn, 1.0) for turn in (0, math.pi / 2)))


def _squiggle(random: np.random.Generator, x: Plane, y: Plane, radius: float, angle: float, _: float) -> Plane:
    bends = uniform(random, -0.5 * radius, 0.5 * radius, 5)
    points = [(radius * (step / 2 - 1), float(bend)) for step, bend in enumerate(bends)]
    return stroke(x, y, turned(points, angle), radius * float(uniform(random, 0.06, 0.15)))


OBJECTS: tuple[Outline, ...] = (_disc, _square, _triangle, _star)
"""In the order of `class_names`."""
CLUTTER: tuple[Outline, ...] = (_bar, _ellipse, _hexagon, _arrow, _ring, _crescent, _cross, _squiggle)


def _extent(window: Window, inside: np.ndarray) -> Window:
    """The smallest window that holds a shape."""
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    top, left = window.top, window.left
    return Window(top + int(rows[0]), top + int(rows[-1]) + 1, left + int(columns[0]), left + int(columns[-1]) + 1)
