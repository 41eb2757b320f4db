# SPDX-License-Identifier: Apache-2.0
"""What the numbers of classes mean: COCO's 80, ImageNet's 1000, or those of a data set."""

from __future__ import annotations

from functools import cache
from importlib import resources

from torch import nn

COCO = (
    *("person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light"),
    *("fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow"),
    *("elephant", "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee"),
    *("skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard"),
    *("tennis racket", "bottle", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple"),
    *("sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch"),
    *("potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard", "cell phone"),
    *("microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase", "scissors", "teddy bear"),
    *("hair drier", "toothbrush"),
)


@cache
def imagenet() -> tuple[str, ...]:
    text = resources.files("tt_cnn.evaluation").joinpath("imagenet_classes.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


def names_of(reference: nn.Module, count: int, drawn: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names for a model's classes: its own `class_names`, else those of the drawn images if there are as many of
    them, else the well-known ones.
    """
    own = getattr(reference, "class_names", None)
    for names in (own, drawn):
        if isinstance(names, tuple) and len(names) == count:
            return names
    return class_names(count)


def class_names(count: int) -> tuple[str, ...]:
    """Names for a model with so many classes, as the well-known data sets have them; else their numbers."""
    if count == len(COCO):
        return COCO
    if count == len(imagenet()):
        return imagenet()
    return tuple(f"class {number}" for number in range(count))


def class_number(text: str, names: tuple[str, ...]) -> int | None:
    """The class that a person means: by its name, whatever the case and the spaces are, or by its number."""
    if text.isdecimal():
        number = int(text)
        return number if number < len(names) else None
    wanted = _plain(text)
    return next((number for number, name in enumerate(names) if _plain(name) == wanted), None)


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
