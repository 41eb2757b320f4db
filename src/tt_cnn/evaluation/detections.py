# SPDX-License-Identifier: Apache-2.0
"""From a detector's boxes and confidences to the objects that it sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch

MOST_CANDIDATES = 2000
"""Pairs of box and class that suppression looks at, the most confident first."""


@dataclass(frozen=True)
class Detections:
    """Objects, the most confident first: corners (n, 4) left, top, right, bottom; scores (n,); classes (n,)."""

    corners: torch.Tensor
    scores: torch.Tensor
    classes: torch.Tensor

    def __len__(self) -> int:
        return len(self.scores)


def overlaps(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Intersection over union of each box of the first (n, 4) with each of the second (m, 4): (n, m)."""
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(dim=1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return torch.where(union > 0, shared / union, 0.0)


def suppress(corners: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor, limit: float) -> torch.Tensor:
    """Indexes of the boxes that stay, by falling score: a box goes where a better one of its class overlaps it more
    than `limit`.
    """
    order = scores.argsort(descending=True, stable=True)
    rivals = (overlaps(corners[order], corners[order]) > limit) & (classes[order][:, None] == classes[order][None, :])
    alive = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if alive[index]:
            alive[index + 1 :] &= ~rivals[index, index + 1 :]
    return order[alive]


def detect(
    corners: torch.Tensor,
    confidences: torch.Tensor,
    *,
    threshold: float = 0.25,
    overlap: float = 0.45,
    most: int = 100,
) -> Detections:
    """Objects among boxes (n, 4) with a confidence in each class (n, classes): confident ones, without doubles."""
    box, label = torch.nonzero(confidences > threshold, as_tuple=True)
    scores = confidences[box, label]
    best = scores.argsort(descending=True, stable=True)[:MOST_CANDIDATES]
    box, label, scores = box[best], label[best], scores[best]
    kept = suppress(corners[box], scores, label, overlap)[:most]
    return Detections(corners[box[kept]], scores[kept], label[kept])
