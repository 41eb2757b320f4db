# SPDX-License-Identifier: Apache-2.0
"""The loss of YOLOv4's maps: complete IoU of boxes, and cross entropies of objectness and class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from tt_cnn.models.yolov4.reference.boxes import ANCHORS, STRIDES

SAME_SIZE = 0.3
"""An anchor answers for an object when their sizes overlap this much; the best one always does."""
NEAR_ENOUGH = 0.6
"""A box that overlaps an object this much, but does not answer for it, is neither right nor wrong."""
BOX_WEIGHT = 3.0


@dataclass(frozen=True)
class Objects:
    """All objects of a batch, one after the other."""

    picture: torch.Tensor
    """Which image of the batch each is in."""
    centers: torch.Tensor
    """(objects, 4): center x, center y, width, height in pixels."""
    labels: torch.Tensor


def yolo_loss(maps: Sequence[torch.Tensor], objects: Objects, classes: int) -> torch.Tensor:
    """The sum of the parts, each over the number of anchors that answer for an object."""
    owners = _anchors_for(objects.centers)
    zero = torch.zeros((), device=maps[0].device)
    box, objectness, label, answering = zero, zero, zero, 0
    for level, values in enumerate(maps):
        predictions = values.float().unflatten(1, (len(ANCHORS[level]), 5 + classes)).permute(0, 1, 3, 4, 2)
        boxes = _boxes(predictions, level)
        which, anchor = owners[:, level].nonzero(as_tuple=True)
        picture, (row, column) = objects.picture[which], _cells(objects.centers[which], level, values.shape)
        at = (picture, anchor, row, column)
        overlap = complete_iou(boxes[at], objects.centers[which])
        wanted = torch.zeros_like(predictions[..., 4])
        wanted[at] = 0.5 + 0.5 * overlap.detach().clamp(0, 1)
        counted = (wanted > 0) | ~_near(boxes.detach(), objects)
        errors = binary_cross_entropy_with_logits(predictions[..., 4], wanted, reduction="none")
        right = torch.nn.functional.one_hot(objects.labels[which], classes).float()
        box = box + (1 - overlap).sum()
        objectness = objectness + (errors * counted).sum()
        label = label + binary_cross_entropy_with_logits(predictions[at][:, 5:], right, reduction="sum")
        answering += len(which)
    return (BOX_WEIGHT * box + objectness + label) / max(1, answering)


def complete_iou(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """IoU less the distance of the centers and the difference of the shapes (Zheng et al. 2020)."""
    iou, enclosing = _iou(found, wanted)
    distance = ((found[:, :2] - wanted[:, :2]) ** 2).sum(1) / (enclosing**2).sum(1).clamp(min=1e-6)
    angles = [torch.atan(box[:, 2] / box[:, 3].clamp(min=1e-3)) for box in (found, wanted)]
    shape = (4 / math.pi**2) * (angles[0] - angles[1]) ** 2
    with torch.no_grad():
        weight = shape / (1 - iou + shape).clamp(min=1e-6)
    return iou - distance - weight * shape


def _iou(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of boxes as centers and sizes that broadcast, and the size of what encloses both."""
    low = [box[..., :2] - box[..., 2:] / 2 for box in (first, second)]
    high = [box[..., :2] + box[..., 2:] / 2 for box in (first, second)]
    both = (torch.minimum(*high) - torch.maximum(*low)).clamp(min=0).prod(-1)
    either = first[..., 2:].prod(-1) + second[..., 2:].prod(-1) - both
    return both / either.clamp(min=1e-6), torch.maximum(*high) - torch.minimum(*low)


def _boxes(predictions: torch.Tensor, level: int) -> torch.Tensor:
    """(images, anchors, rows, columns, 4): centers and sizes in pixels, as the model decodes them."""
    rows, columns = predictions.shape[2:4]
    device = predictions.device
    anchors = torch.tensor(ANCHORS[level], device=device, dtype=torch.float32).view(1, -1, 1, 1, 2)
    y, x = torch.meshgrid(torch.arange(rows, device=device), torch.arange(columns, device=device), indexing="ij")
    centers = (torch.sigmoid(predictions[..., :2]) + torch.stack((x, y), dim=-1)) * STRIDES[level]
    return torch.cat((centers, torch.exp(predictions[..., 2:4].clamp(max=5)) * anchors), dim=-1)


def _anchors_for(centers: torch.Tensor) -> torch.Tensor:
    """(objects, levels, anchors): which anchors answer for each object, by size alone."""
    anchors = torch.tensor(ANCHORS, device=centers.device, dtype=torch.float32).view(-1, 2)
    sizes = centers[:, None, 2:]
    both = torch.minimum(sizes, anchors).prod(-1)
    overlap = both / (sizes.prod(-1) + anchors.prod(-1) - both)
    best = overlap == overlap.amax(dim=1, keepdim=True)
    return ((overlap > SAME_SIZE) | best).view(-1, len(ANCHORS), len(ANCHORS[0]))


def _cells(centers: torch.Tensor, level: int, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor]:
    cell = (centers[:, :2] / STRIDES[level]).long()
    return cell[:, 1].clamp(0, shape[2] - 1), cell[:, 0].clamp(0, shape[3] - 1)


def _near(boxes: torch.Tensor, objects: Objects) -> torch.Tensor:
    """Which boxes overlap an object of their image."""
    pictures = len(boxes)
    counts = torch.bincount(objects.picture, minlength=pictures)
    most = int(counts.max()) if len(objects.picture) else 0
    if most == 0:
        return torch.zeros(boxes.shape[:-1], dtype=torch.bool, device=boxes.device)
    place = torch.arange(len(objects.picture), device=boxes.device) - (counts.cumsum(0) - counts)[objects.picture]
    padded = torch.full((pictures, most, 4), -1e4, device=boxes.device)
    padded[..., 2:] = 1
    padded[objects.picture, place] = objects.centers
    iou, _ = _iou(boxes.reshape(pictures, -1, 1, 4), padded[:, None])
    return (iou.amax(dim=2) > NEAR_ENOUGH).view(boxes.shape[:-1])
