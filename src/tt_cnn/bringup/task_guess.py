# SPDX-License-Identifier: Apache-2.0
"""What a model is for, guessed from the shapes of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Shape = tuple[int, ...]

KEYPOINTS = frozenset({14, 16, 17, 18, 68, 98, 133})
"""Points of the usual data sets: LSP, MPII, COCO, OpenPose, faces, whole bodies."""
MANY = 100
"""Boxes of a detector; a list of fewer is no list of candidates."""


def guess_task(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> tuple[str, str]:
    """The task and what speaks for it; `unknown` where nothing does."""
    image = next((shape for shape in inputs if len(shape) == 4 and shape[1] <= 4), None)
    if image is None:
        return "unknown", "no input is an image of at most 4 channels"
    ranks = {len(shape) for shape in outputs}
    maps = [shape for shape in outputs if len(shape) >= 4 and prod(shape[2:]) > 1]
    rows = [shape for shape in outputs if prod(shape[2:]) == 1 and len(shape) >= 2]
    if len(rows) == len(outputs):
        if all(shape[1] == 1 for shape in rows):
            return "regression", "one number for each image"
        return "classification", f"{rows[0][1]} numbers for each image"
    if ranks == {3}:
        found = [shape for shape in outputs if max(shape[1:]) >= MANY]
        return ("detection", "lists of candidates") if found else ("features", "rows of features")
    if len(maps) == len(outputs) and len({shape[2:4] for shape in maps}) > 1:
        return "detection", "maps of several resolutions"
    if ranks == {4}:
        return _of_maps(image, outputs[0])
    return "unknown", "outputs of several kinds"


def _of_maps(image: Shape, output: Shape) -> tuple[str, str]:
    channels, size, result = image[1], image[2:], output[2:]
    if output[1] == channels and result[0] > size[0] and result[1] > size[1]:
        return "super-resolution", f"an image {result[0] / size[0]:g} times as high"
    if output[1] == channels and result == size:
        return "image to image", "an image of the same size"
    if output[1] in KEYPOINTS and result[0] < size[0]:
        return "keypoints", f"{output[1]} maps at 1/{size[0] / result[0]:g} of the resolution"
    if output[1] == 1:
        return "segmentation", "one map; it may be depth as well"
    return "segmentation", f"{output[1]} maps, one for each class"
