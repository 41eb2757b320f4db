# SPDX-License-Identifier: Apache-2.0
"""The inputs of a model: their shapes, how images are normalised, and generated ones to compare outputs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tt_cnn.models.initialization import natural_images

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Normalisation:
    """The model takes (image - mean) / std of each channel, the image's values between 0 and 1."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not all(each > 0 for each in self.std):
            raise ValueError(f"std is {self.std}; it must be three numbers greater than 0")


IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What most models of three channels were trained with."""


def is_image(shape: Shape) -> bool:
    return len(shape) == 4 and shape[1] == 3


def example(
    shape: Shape, batch: int | None = None, seed: int = 0, normalisation: Normalisation = IMAGENET
) -> torch.Tensor:
    """Normalised images, or noise where the input has no three channels."""
    count = batch or shape[0]
    if not is_image(shape):
        return torch.randn(count, *shape[1:], generator=torch.Generator().manual_seed(seed))
    images = natural_images(count, (shape[2], shape[3]), seed)
    mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in (normalisation.mean, normalisation.std))
    return (images - mean) / std


def examples(shapes: Sequence[Shape], seed: int = 0, normalisation: Normalisation = IMAGENET) -> list[torch.Tensor]:
    """One for each input of a model, as the entry of its folder draws them; each of several is noise of its own."""
    if len(shapes) == 1:
        return [example(shapes[0], seed=seed, normalisation=normalisation)]
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def input_shape(text: str) -> Shape:
    """`1x3x224x224`."""
    parts = text.lower().split("x")
    if len(parts) < 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--input is {text!r}; it must be like 1x3x224x224, the batch first")
    return tuple(int(part) for part in parts)


def three_numbers(text: str, option: str) -> tuple[float, float, float]:
    """`0.485,0.456,0.406`, or one number for all channels."""
    parts = text.split(",")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) == 1:
        values *= 3
    if len(values) != 3 or not all(abs(value) < float("inf") for value in values):
        raise ValueError(f"{option} is {text!r}; it must be one number, or three like 0.485,0.456,0.406")
    return values[0], values[1], values[2]
