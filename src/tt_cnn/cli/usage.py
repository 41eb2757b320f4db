# SPDX-License-Identifier: Apache-2.0
"""Which names of TT-NN vision models use, how often, and whether the virtual card has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

GROUPS: dict[str, tuple[str, ...]] = {
    "a": ("tt_cnn",),
    "b": ("vanilla_unet",),
    "c": ("yolov4",),
    "d": ("resnet50",),
    "e": ("mobilenetv2", "vgg", "vgg_unet", "ufld_v2", "segformer"),
    "f": (
        *("yolov5x", "yolov6l", "yolov7", "yolov8s", "yolov8s_world", "yolov8x"),
        *("yolov9c", "yolov10x", "yolov11", "yolov11m", "yolov12x"),
    ),
    "g": ("ssd512", "detr3d", "efficientdetd0", "mobilenetv3", "panoptic_deeplab", "yunet"),
}
"""The models whose calls were counted, by group."""


@dataclass(frozen=True)
class Usage:
    """A dotted name without `ttnn.`, and how often each group uses it."""

    name: str
    counts: dict[str, int]
    defined: bool = True
    """TT-NN 0.81.1 defines it; older versions did where it does not."""

    def uses(self, group: str | None = None) -> int:
        return self.counts[group] if group else sum(self.counts.values())


@cache
def usages() -> tuple[Usage, ...]:
    """The table of uses, most used first."""
    text = resources.files("tt_cnn.virtual.ttnn").joinpath("usage.txt").read_text()
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(
        Usage(name.rstrip("-"), dict(zip(GROUPS, map(int, counts), strict=True)), not name.endswith("-"))
        for name, *counts in rows
    )


def group_of(text: str) -> str:
    """A group by its letter or by a model in it."""
    asked = text.lower()
    for letter, models in GROUPS.items():
        if asked == letter or asked in models:
            return letter
    known = "; ".join(f"{letter}: {', '.join(models)}" for letter, models in GROUPS.items())
    raise ValueError(f"{text!r} is not a group of models; the groups are {known}")


def is_there(name: str) -> bool:
    """Whether the virtual card has a dotted name."""
    from tt_cnn.virtual import ttnn

    found: Any = ttnn
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return True
