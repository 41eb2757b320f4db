# SPDX-License-Identifier: Apache-2.0
"""Textures from seeded noise.

Everything is drawn in single precision with additions, multiplications and square roots, which all machines round
alike, so that an image is the same everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]


def uniform(random: np.random.Generator, low: float, high: float, shape: int | tuple[int, ...] | None = None) -> Plane:
    """Single-precision numbers between two; one number where no shape is given."""
    return low + (high - low) * random.random(shape, dtype=np.float32)


def value_noise(random: np.random.Generator, size: tuple[int, int], cell: float) -> Plane:
    """Random values between -1 and 1 on a grid `cell` pixels wide, joined smoothly."""
    (rows, rows_weight), (columns, columns_weight) = (_grid(random, length, cell) for length in size)
    values = uniform(random, -1, 1, (int(rows[-1]) + 2, int(columns[-1]) + 2))
    wide = _mix(values[:, columns], values[:, columns + 1], columns_weight)
    return _mix(wide[rows], wide[rows + 1], rows_weight[:, None])


def fractal(
    random: np.random.Generator, size: tuple[int, int], coarsest: float, finest: float, roughness: float = 0.5
) -> Plane:
    """Noise of halving cells from `coarsest` to `finest` pixels, each octave `roughness` as strong as the last."""
    total = np.zeros(size, np.float32)
    cell, strength = coarsest, 1.0
    while cell >= finest:
        total += np.float32(strength) * value_noise(random, size, cell)
        cell, strength = cell / 2, strength * roughness
    return total


def grain(random: np.random.Generator, shape: tuple[int, ...], strength: float) -> Plane:
    """A sensor's noise: the sum of two even ones, `strength` its standard deviation."""
    first, second = random.integers(0, 256, (2, *shape), dtype=np.uint8).astype(np.float32)
    return (first + second - 255) * np.float32(strength / 104.5)


def soften(planes: Plane) -> Plane:
    """Each pixel mixed with its neighbours, 1-2-1 both ways."""
    wide = np.pad(planes, ((0, 0), (1, 1), (1, 1)), mode="edge")
    down = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    return (down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]) * np.float32(1 / 16)


def shading(random: np.random.Generator, size: tuple[int, int], slope: float, vignette: float) -> Plane:
    """Light that falls from one side, and corners that get less of it; about 1."""
    y = np.linspace(-1, 1, size[0], dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, size[1], dtype=np.float32)
    across, down = uniform(random, -slope, slope, 2)
    return 1 + across * x + down * y - uniform(random, 0, vignette) * (x * x + y * y) * np.float32(0.5)


def to_picture(planes: Plane) -> NDArray[np.uint8]:
    """(3, height, width) between 0 and 1 as an image."""
    levels = np.clip(planes, 0, 1) * np.float32(255) + np.float32(0.5)
    return np.ascontiguousarray(levels.astype(np.uint8).transpose(1, 2, 0))


def _grid(random: np.random.Generator, length: int, cell: float) -> tuple[NDArray[np.int64], Plane]:
    position = np.arange(length, dtype=np.float32) / np.float32(cell) + random.random(dtype=np.float32)
    left = np.floor(position)
    part = position - left
    return left.astype(np.int64), part * part * (3 - 2 * part)


def _mix(first: Plane, second: Plane, weight: Plane) -> Plane:
    return first + (second - first) * weight
