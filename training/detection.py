# SPDX-License-Identifier: Apache-2.0
"""Train the YOLOv4 of quarter width that the package ships: `python -m training.detection --help`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from training.average_precision import average_precision, chosen_boxes
from training.common import (
    STATISTICS_PICTURES,
    as_shipped,
    chosen,
    draw_all,
    parser,
    pictures_of,
    recolored,
    save,
    settings_of,
    train,
)
from training.yolo_loss import Objects, yolo_loss
from tt_cnn.evaluation.drawn_data import DetectionShapes
from tt_cnn.models.yolov4.reference.model import YOLOv4

OUTPUT = Path("src/tt_cnn/models/yolov4/weights/yolov4_quarter.safetensors")
FIRST_OBJECTNESS = 0.01
"""Before training, hardly any place is thought to hold an object; otherwise the first steps would go to that alone."""


class Batches:
    """Random batches of drawn images; square ones are turned and flipped, others flipped, all recoloured."""

    def __init__(self, dataset: DetectionShapes, workers: int, device: torch.device) -> None:
        pictures, self.targets = draw_all(dataset, workers)
        self.pictures = pictures.to(device)
        self.size = dataset.size
        most = max(1, max(len(target) for target in self.targets))
        centers = torch.zeros(len(self.targets), most, 4)
        labels = torch.full((len(self.targets), most), -1)
        for index, target in enumerate(self.targets):
            xywh = torch.from_numpy(target.xywh)
            centers[index, : len(target)] = torch.cat((xywh[:, :2] + xywh[:, 2:] / 2, xywh[:, 2:]), dim=1)
            labels[index, : len(target)] = torch.from_numpy(target.labels)
        self.centers, self.labels = centers.to(device), labels.to(device)

    def draw(self, count: int, generator: torch.Generator) -> tuple[torch.Tensor, Objects]:
        device = self.pictures.device
        index = torch.randint(len(self.pictures), (count,), device=device, generator=generator)
        pictures, centers, labels = self.pictures[index], self.centers[index], self.labels[index]
        flips = torch.rand(3, count, device=device, generator=generator) < 0.5
        for axis, length in enumerate(reversed(self.size)):
            flipped = centers.clone()
            flipped[..., axis] = length - centers[..., axis]
            pictures = chosen(flips[axis], pictures.flip(-1 - axis), pictures)
            centers = chosen(flips[axis], flipped, centers)
        if self.size[0] == self.size[1]:
            pictures = chosen(flips[2], pictures.transpose(-1, -2), pictures)
            centers = chosen(flips[2], centers[..., [1, 0, 3, 2]], centers)
        there = labels >= 0
        return recolored(pictures_of(pictures), generator), Objects(
            there.nonzero()[:, 0], centers[there], labels[there]
        )

    def in_order(self, size: int, limit: int) -> Iterator[torch.Tensor]:
        for start in range(0, min(limit, len(self.pictures)), size):
            yield pictures_of(self.pictures[start : min(start + size, limit)])


@torch.no_grad()
def mean_average_precision(model: nn.Module, batches: Batches, size: int, classes: int) -> float:
    height, width = batches.size
    scale = torch.tensor([width, height, width, height], device=batches.pictures.device)
    found = []
    for pictures in batches.in_order(size, len(batches.pictures)):
        boxes, confidences = model(pictures)
        found += [chosen_boxes(box[:, 0] * scale, each) for box, each in zip(boxes, confidences, strict=True)]
    wanted = [
        (np.concatenate((each.xywh[:, :2], each.xywh[:, :2] + each.xywh[:, 2:]), axis=1), each.labels)
        for each in batches.targets
    ]
    return average_precision(found, wanted, classes)


def expect_little(model: YOLOv4) -> None:
    """Set the biases of objectness to a chance of `FIRST_OBJECTNESS`."""
    for layer in (model.head.conv2, model.head.conv10, model.head.conv18):
        assert layer.bias is not None
        with torch.no_grad():
            layer.bias.view(3, -1)[:, 4] = -math.log(1 / FIRST_OBJECTNESS - 1)


def main(argv: Sequence[str] | None = None) -> list[float]:
    options = parser(__doc__, steps=4800, batch=64, rate=2e-3, pictures=14000, output=OUTPUT)
    options.add_argument("--width", type=float, default=0.25, help="of the model, 1 is the paper's")
    options.add_argument("--size", type=int, nargs=2, default=DetectionShapes.default_size, help="height, width")
    arguments = options.parse_args(argv)
    settings = settings_of(arguments)
    torch.manual_seed(settings.seed)
    size = (arguments.size[0], arguments.size[1])
    made = (
        DetectionShapes("train", size, arguments.pictures, settings.seed),
        DetectionShapes("val", size, arguments.val_pictures, settings.seed),
    )
    training, held_out = (Batches(each, arguments.workers, settings.device) for each in made)
    classes = len(DetectionShapes.class_names)
    model = YOLOv4(classes=classes, width=arguments.width)
    expect_little(model)

    def batch_loss(model: nn.Module, generator: torch.Generator) -> torch.Tensor:
        pictures, objects = training.draw(settings.batch, generator)
        maps = model.maps(pictures)  # type: ignore[operator]
        with torch.autocast(settings.device.type, enabled=False):
            return yolo_loss(maps, objects, classes)

    def keep(model: nn.Module) -> None:
        shipped = as_shipped(model, training.in_order(settings.batch, STATISTICS_PICTURES))
        figure = mean_average_precision(shipped, held_out, settings.batch, classes)
        description = f"YOLOv4, width {arguments.width}, on {type(made[0]).__name__} {size[0]}x{size[1]}"
        save(shipped, arguments.output, description, f"val mAP50 {figure:.4f} on {len(made[1])} images")

    _, losses = train(model, batch_loss, keep, settings)
    return losses


if __name__ == "__main__":
    main()
