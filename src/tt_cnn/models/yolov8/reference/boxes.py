# SPDX-License-Identifier: Apache-2.0
"""From YOLOv8's maps to boxes and class scores: each side of a box is the mean of a distribution over 16 distances."""

from __future__ import annotations

from collections.abc import Sequence

import torch

STRIDES = (8, 16, 32)
BINS = 16
"""Distances from a cell's middle to a side of its box, in cells, that the distributions are over."""
SIDES = 4
"""Left, top, right, bottom."""


def decode(maps: Sequence[torch.Tensor]) -> torch.Tensor:
    """(N, 4 + classes, boxes): center x, center y, width and height in pixels, then a score for each class.

    Boxes go by stride, then row, then column.
    """
    distributions = torch.cat([m[:, : SIDES * BINS].flatten(2) for m in maps], dim=2)
    scores = torch.cat([m[:, SIDES * BINS :].flatten(2) for m in maps], dim=2)
    middles, strides = cells([(m.shape[2], m.shape[3]) for m in maps])
    boxes = corners_to_centers(distances(distributions), middles.to(scores)) * strides.to(scores)
    return torch.cat((boxes, torch.sigmoid(scores)), dim=1)


def distances(distributions: torch.Tensor) -> torch.Tensor:
    """(N, 4 * 16, boxes) logits to the mean distances (N, 4, boxes), in cells."""
    batch, _, count = distributions.shape
    shares = distributions.view(batch, SIDES, BINS, count).softmax(dim=2)
    return torch.einsum("nskb,k->nsb", shares, torch.arange(BINS).to(shares))


def corners_to_centers(sides: torch.Tensor, middles: torch.Tensor) -> torch.Tensor:
    """Distances to the sides around the middles of cells, as center and size."""
    left_top, right_bottom = sides.chunk(2, dim=1)
    return torch.cat((middles + (right_bottom - left_top) / 2, left_top + right_bottom), dim=1)


def cells(sizes: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The middle (x, y) of each cell, (2, boxes), in cells of its own map, and its stride, (1, boxes), in pixels."""
    middles, strides = [], []
    for (height, width), stride in zip(sizes, STRIDES, strict=True):
        rows, columns = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        middles.append(torch.stack((columns.flatten(), rows.flatten())))
        strides.append(torch.full((1, height * width), float(stride)))
    return torch.cat(middles, dim=1), torch.cat(strides, dim=1)
