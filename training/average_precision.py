# SPDX-License-Identifier: Apache-2.0
"""Boxes chosen from predictions, and how right they are (average precision at IoU 0.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

LEAST_CONFIDENCE = 0.01
SAME_OBJECT = 0.5
"""Of two boxes of a class that overlap more than this, the less confident one is dropped."""
MOST_BOXES = 300
FAR = 1e4
"""Pixels; no image is as large, but the boxes of an untrained model are."""

Detections = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]
"""Corners (boxes, 4), confidences, labels."""


def chosen_boxes(boxes: torch.Tensor, confidences: torch.Tensor) -> Detections:
    """One image's boxes (boxes, 4) and confidences (boxes, classes), without the doubles."""
    box, label = (confidences > LEAST_CONFIDENCE).nonzero(as_tuple=True)
    confidence = confidences[box, label]
    order = confidence.argsort(descending=True)[: 2 * MOST_BOXES]
    near = boxes[box].clamp(-FAR, FAR)
    corners, certain, labels = (each[order].cpu().numpy() for each in (near, confidence, label))
    kept = _without_doubles(corners + labels[:, None] * np.float32(4 * FAR))[:MOST_BOXES]
    return corners[kept], certain[kept], labels[kept]


def average_precision(
    detections: Sequence[Detections], wanted: Sequence[tuple[NDArray[np.float32], NDArray[np.int64]]], classes: int
) -> float:
    """The mean over classes of the area under precision by recall; a box counts at an IoU of 1/2."""
    return float(np.mean([_of_class(detections, wanted, label) for label in range(classes)]))


def _of_class(detections: Sequence[Detections], wanted: Sequence[tuple[NDArray, NDArray]], label: int) -> float:
    confidences: list[NDArray] = []
    right: list[NDArray] = []
    objects = 0
    for (corners, confidence, labels), (boxes, box_labels) in zip(detections, wanted, strict=True):
        mine, boxes = labels == label, boxes[box_labels == label]
        objects += len(boxes)
        confidences.append(confidence[mine])
        right.append(_matched(corners[mine], boxes))
    order = np.argsort(-np.concatenate(confidences), kind="stable")
    hits = np.concatenate(right)[order].cumsum()
    if not objects or not len(hits):
        return 0.0
    recall, precision = hits / objects, hits / np.arange(1, len(hits) + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
    return float(np.append(best_from_here, 0.0)[steps].mean())


def _matched(found: NDArray, wanted: NDArray) -> NDArray:
    """For each box, the most confident first: whether it finds an object that none before it found."""
    hits = np.zeros(len(found), bool)
    overlaps = _overlaps(found, wanted)
    for index, row in enumerate(overlaps):
        if row.size and row.max() >= 0.5:
            hits[index] = True
            overlaps[:, row.argmax()] = 0
    return hits


def _without_doubles(corners: NDArray) -> NDArray:
    overlaps = _overlaps(corners, corners) > SAME_OBJECT
    kept = np.ones(len(corners), bool)
    for index in range(len(corners)):
        if kept[index]:
            kept[index + 1 :] &= ~overlaps[index, index + 1 :]
    return np.flatnonzero(kept)


def _overlaps(first: NDArray, second: NDArray) -> NDArray:
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(-1)
    areas = [(each[:, 2:] - each[:, :2]).prod(-1) for each in (first, second)]
    return both / np.maximum(areas[0][:, None] + areas[1][None] - both, 1e-9)
