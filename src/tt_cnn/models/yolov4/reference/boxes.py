# SPDX-License-Identifier: Apache-2.0
"""From YOLOv4's maps to boxes and confidences."""

from __future__ import annotations

from collections.abc import Sequence

import torch

STRIDES = (8, 16, 32)
ANCHORS = (
    ((12, 16), (19, 36), (40, 28)),
    ((36, 75), (76, 55), (72, 146)),
    ((142, 110), (192, 243), (459, 401)),
)
"""(width, height) in pixels, three for each stride."""


def decode(maps: Sequence[torch.Tensor], classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Corners (left, top, right, bottom) as fractions of the image, (N, boxes, 1, 4), and the confidence in each
    class, (N, boxes, classes). Boxes go by stride, then anchor, then row and column.
    """
    decoded = [_decode_one(*each, classes) for each in zip(maps, STRIDES, ANCHORS, strict=True)]
    boxes, confidences = zip(*decoded, strict=True)
    return torch.cat(boxes, dim=1), torch.cat(confidences, dim=1)


def _decode_one(
    predictions: torch.Tensor, stride: int, anchors: Sequence[tuple[int, int]], classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, _, height, width = predictions.shape
    x = predictions.view(batch, len(anchors), 5 + classes, height, width)
    rows, columns = torch.meshgrid(
        torch.arange(height, device=x.device), torch.arange(width, device=x.device), indexing="ij"
    )
    sizes = torch.tensor(anchors, dtype=x.dtype, device=x.device).view(1, len(anchors), 2, 1, 1) / stride
    center_x, center_y = torch.sigmoid(x[:, :, 0]) + columns, torch.sigmoid(x[:, :, 1]) + rows
    half = torch.exp(x[:, :, 2:4]) * sizes / 2
    corners = torch.stack(
        (
            (center_x - half[:, :, 0]) / width,
            (center_y - half[:, :, 1]) / height,
            (center_x + half[:, :, 0]) / width,
            (center_y + half[:, :, 1]) / height,
        ),
        dim=-1,
    )
    confidence = torch.sigmoid(x[:, :, 5:]) * torch.sigmoid(x[:, :, 4:5])
    return (
        corners.reshape(batch, -1, 1, 4),
        confidence.permute(0, 1, 3, 4, 2).reshape(batch, -1, classes),
    )
