# SPDX-License-Identifier: Apache-2.0
"""What a model sees, drawn into the image; images side by side under their titles."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tt_cnn.evaluation.detections import Detections
from tt_cnn.evaluation.optional import require
from tt_cnn.evaluation.pictures import Picture

Color = tuple[int, int, int]

GAP = 8
PANEL_HEIGHT = 360
"""Smaller images are shown this high at least, so that labels can be read."""
MOST_HEIGHT = 720
MASK_COLOR: Color = (255, 64, 129)
MASK_OPACITY = 0.45
TITLE_COLOR: Color = (32, 33, 36)
PAPER: Color = (255, 255, 255)


def class_color(number: int) -> Color:
    """Bright, and far from those of its neighbours: hues go round by the golden section."""
    hue = (0.02 + number * 0.618034) % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.85, 0.95)
    return int(red * 255), int(green * 255), int(blue * 255)


def with_boxes(picture: Picture, found: Detections, names: Sequence[str]) -> Picture:
    """A frame and a label for each object, the least confident first, so that the best are on top."""
    picture, scale = _large_enough(picture)
    image, draw = _canvas(picture)
    line = max(2, round(min(image.size) / 200))
    font = _font(max(12, round(min(image.size) / 28)))
    for index in reversed(range(len(found))):
        number = int(found.classes[index])
        corners = [float(value) * scale for value in found.corners[index]]
        color = class_color(number)
        draw.rectangle(corners, outline=color, width=line)
        text = f"{names[number]} {float(found.scores[index]):.2f}"
        _label(draw, (corners[0], corners[1]), text, font, color, image.size)
    return np.asarray(image)


def with_mask(picture: Picture, mask: torch.Tensor, color: Color = MASK_COLOR) -> Picture:
    """The mask as a tint, its edge as a line; mask (height, width), true where the object is."""
    picture, scale = _large_enough(picture)
    inside = mask.bool().numpy()
    if scale != 1:
        inside = _scaled_mask(inside, (picture.shape[1], picture.shape[0]))
    tinted = picture.astype(np.float32)
    tinted[inside] = tinted[inside] * (1 - MASK_OPACITY) + np.array(color, np.float32) * MASK_OPACITY
    tinted[_edge(inside)] = color
    return tinted.astype(np.uint8)


def with_classes(picture: Picture, probabilities: torch.Tensor, names: Sequence[str], places: int = 3) -> Picture:
    """The likeliest classes as bars at the bottom of the image."""
    picture, _ = _large_enough(picture)
    image, _ = _canvas(picture)
    drawing = require("PIL.ImageDraw", "drawing")
    draw = drawing.Draw(image, "RGBA")
    size = max(13, round(min(image.size) / 22))
    font, row = _font(size), round(size * 1.55)
    values, numbers = probabilities.topk(min(places, len(probabilities)))
    top = image.size[1] - row * len(values) - GAP
    draw.rectangle([0, top - GAP // 2, *image.size], fill=(0, 0, 0, 170))
    for index, (value, number) in enumerate(zip(values.tolist(), numbers.tolist(), strict=True)):
        y = top + index * row
        draw.rectangle([0, y, round(image.size[0] * value), y + row - 3], fill=(*class_color(number), 150))
        draw.text((GAP, y + (row - 3) / 2), names[number], fill="white", font=font, anchor="lm")
        draw.text((image.size[0] - GAP, y + (row - 3) / 2), f"{value:.1%}", fill="white", font=font, anchor="rm")
    return np.asarray(image)


def side_by_side(panels: Sequence[tuple[str, Picture]]) -> Picture:
    """Images in a row, each under its title, all as high as the lowest."""
    image_module = require("PIL.Image", "drawing")
    images = [image_module.fromarray(picture) for _, picture in panels]
    height = min(max(PANEL_HEIGHT, min(image.height for image in images)), MOST_HEIGHT)
    images = [_fitted(image, height, image_module) for image in images]
    font = _font(18)
    header = 34
    width = sum(image.width for image in images) + GAP * (len(images) + 1)
    sheet = image_module.new("RGB", (width, height + header + GAP), PAPER)
    draw = require("PIL.ImageDraw", "drawing").Draw(sheet)
    x = GAP
    for (title, _), image in zip(panels, images, strict=True):
        text = _shortened(title, font, image.width)
        draw.text((x, header / 2 + 1), text, fill=TITLE_COLOR, font=font, anchor="lm")
        sheet.paste(image, (x, header))
        x += image.width + GAP
    return np.asarray(sheet)


def shown(picture: Picture) -> Picture:
    """The image without anything, as large as the others are drawn."""
    return _large_enough(picture)[0]


def _large_enough(picture: Picture) -> tuple[Picture, float]:
    height = picture.shape[0]
    if height >= PANEL_HEIGHT:
        return picture, 1.0
    image_module = require("PIL.Image", "drawing")
    scale = PANEL_HEIGHT / height
    size = (round(picture.shape[1] * scale), PANEL_HEIGHT)
    return np.asarray(image_module.fromarray(picture).resize(size, image_module.Resampling.BICUBIC)), scale


def _scaled_mask(mask: np.ndarray[Any, Any], size: tuple[int, int]) -> np.ndarray[Any, Any]:
    image_module = require("PIL.Image", "drawing")
    image = image_module.fromarray(mask.astype(np.uint8) * 255).resize(size, image_module.Resampling.BILINEAR)
    return np.asarray(image) > 127


def _edge(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pixels of the mask with a neighbour that is not of it, two pixels wide."""
    inner = mask.copy()
    for _ in range(2):
        padded = np.pad(inner, 1, mode="edge")
        inner = inner & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inner


def _canvas(picture: Picture) -> tuple[Any, Any]:
    image = require("PIL.Image", "drawing").fromarray(picture.copy())
    return image, require("PIL.ImageDraw", "drawing").Draw(image)


def _font(size: int) -> Any:
    return require("PIL.ImageFont", "drawing").load_default(size)


def _label(draw: Any, at: tuple[float, float], text: str, font: Any, color: Color, size: tuple[int, int]) -> None:
    """Above the frame's corner, or below its top edge where there is no room above."""
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    width, height = right - left + 8, bottom - top + 6
    x = min(max(0.0, at[0]), max(0.0, size[0] - width))
    y = at[1] - height if at[1] >= height else at[1]
    draw.rectangle([x, y, x + width, y + height], fill=color)
    dark = sum(share * value for share, value in zip((0.3, 0.59, 0.11), color, strict=True)) < 140
    draw.text((x + 4 - left, y + 3 - top), text, fill="white" if dark else "black", font=font)


def _fitted(image: Any, height: int, image_module: Any) -> Any:
    if image.height == height:
        return image
    return image.resize((round(image.width * height / image.height), height), image_module.Resampling.LANCZOS)


def _shortened(text: str, font: Any, width: int) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"
