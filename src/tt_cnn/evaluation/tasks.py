# SPDX-License-Identifier: Apache-2.0
"""What a model of each task says, read from its outputs: to be judged, to be drawn, to be printed in a line."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from tt_cnn.evaluation import drawing
from tt_cnn.evaluation.detections import Detections, detect
from tt_cnn.evaluation.drawn_data.targets import Boxes
from tt_cnn.evaluation.metrics import MeanAveragePrecision, Metric, Overlap, Ranking
from tt_cnn.evaluation.pictures import Picture
from tt_cnn.evaluation.preparation import Placement

Outputs = Sequence[torch.Tensor]
"""A model's outputs for one image, each with its batch of one in front."""

JUDGED = 0.001
"""Confidences that count for mAP: nearly all, since it is an area under a curve."""


KINDS_NAMED = 5
"""Classes of objects that a line names."""


class Task(ABC):
    """Predictions of one kind. `threshold` is the confidence at which the model says that something is there."""

    threshold: ClassVar[float]
    main_figure: ClassVar[str]

    @abstractmethod
    def prediction(self, outputs: Outputs, placement: Placement, threshold: float | None = None) -> Any:
        """What the outputs mean for the image, in the image's own pixels."""

    @abstractmethod
    def judged(self, outputs: Outputs, placement: Placement) -> Any:
        """The prediction as the metric takes it."""

    @abstractmethod
    def as_target(self, prediction: Any) -> Any:
        """The prediction taken for the truth: what another model is compared with."""

    @abstractmethod
    def metric(self, classes: int) -> Metric: ...

    @abstractmethod
    def drawn(self, picture: Picture, prediction: Any, names: Sequence[str]) -> Picture: ...

    @abstractmethod
    def describe(self, prediction: Any, names: Sequence[str]) -> str:
        """The prediction in words."""

    def told(self, prediction: Any, names: Sequence[str]) -> str:
        """Deprecated: `describe`."""
        warnings.warn("told() is now describe()", DeprecationWarning, stacklevel=2)
        return self.describe(prediction, names)


class Segmentation(Task):
    """A prediction is a mask (height, width): true where the object is."""

    threshold = 0.5
    main_figure = "IoU"

    def prediction(self, outputs: Outputs, placement: Placement, threshold: float | None = None) -> torch.Tensor:
        return placement.map_in_picture(outputs[0][0, 0]) > (self.threshold if threshold is None else threshold)

    def judged(self, outputs: Outputs, placement: Placement) -> torch.Tensor:
        return self.prediction(outputs, placement)

    def as_target(self, prediction: torch.Tensor) -> torch.Tensor:
        return prediction

    def metric(self, classes: int) -> Metric:
        return Overlap()

    def drawn(self, picture: Picture, prediction: torch.Tensor, names: Sequence[str]) -> Picture:
        return drawing.with_mask(picture, prediction)

    def describe(self, prediction: torch.Tensor, names: Sequence[str]) -> str:
        return f"{names[0]} on {float(prediction.float().mean()):.1%} of the image"


class Detection(Task):
    """A prediction is `Detections`, corners in pixels of the image."""

    threshold = 0.3
    main_figure = "mAP"

    def prediction(self, outputs: Outputs, placement: Placement, threshold: float | None = None) -> Detections:
        corners, confidences = boxes_of(outputs, placement.resolution)
        found = detect(corners, confidences, threshold=self.threshold if threshold is None else threshold)
        return Detections(placement.corners_in_picture(found.corners), found.scores, found.classes)

    def judged(self, outputs: Outputs, placement: Placement) -> Detections:
        return self.prediction(outputs, placement, JUDGED)

    def as_target(self, prediction: Detections) -> Boxes:
        sure = prediction.scores > self.threshold
        corners = prediction.corners[sure]
        xywh = torch.cat((corners[:, :2], corners[:, 2:] - corners[:, :2]), dim=1)
        return Boxes(xywh.numpy().astype(np.float32), prediction.classes[sure].numpy().astype(np.int64))

    def metric(self, classes: int) -> Metric:
        return MeanAveragePrecision(classes)

    def drawn(self, picture: Picture, prediction: Detections, names: Sequence[str]) -> Picture:
        return drawing.with_boxes(picture, prediction, names)

    def describe(self, prediction: Detections, names: Sequence[str]) -> str:
        found = Counter(names[number] for number in prediction.classes.tolist())
        counts = sorted(found.items(), key=lambda each: (-each[1], each[0]))
        named = [f"{count} {name}" for name, count in counts[:KINDS_NAMED]]
        others = sum(count for _, count in counts[KINDS_NAMED:])
        return ", ".join([*named, f"{others} others"] if others else named) or "nothing"


class Classification(Task):
    """A prediction is a probability for each class."""

    threshold = 0.0
    main_figure = "top-1"

    def prediction(self, outputs: Outputs, placement: Placement, threshold: float | None = None) -> torch.Tensor:
        return outputs[0].flatten().softmax(dim=0)

    def judged(self, outputs: Outputs, placement: Placement) -> torch.Tensor:
        return outputs[0].flatten()

    def as_target(self, prediction: torch.Tensor) -> int:
        return int(prediction.argmax())

    def metric(self, classes: int) -> Metric:
        return Ranking()

    def drawn(self, picture: Picture, prediction: torch.Tensor, names: Sequence[str]) -> Picture:
        return drawing.with_classes(picture, prediction, names)

    def describe(self, prediction: torch.Tensor, names: Sequence[str]) -> str:
        values, numbers = prediction.topk(min(2, len(prediction)))
        pairs = zip(values.tolist(), numbers.tolist(), strict=True)
        return ", ".join(f"{names[number]} {value:.0%}" for value, number in pairs)


TASKS: dict[str, Task] = {
    "segmentation": Segmentation(),
    "detection": Detection(),
    "classification": Classification(),
}


def boxes_of(outputs: Outputs, resolution: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Corners (n, 4) as fractions of the input and confidences (n, classes), from either form that detectors have:

    boxes (1, n, 1, 4) as such corners with confidences (1, n, classes), or one tensor (1, 4 + classes, n) of centers
    and sizes in pixels with the confidences below them.
    """
    if len(outputs) == 2:
        return outputs[0].reshape(-1, 4), outputs[1][0]
    height, width = resolution
    center, size = outputs[0][0, :2].T, outputs[0][0, 2:4].T
    corners = torch.cat((center - size / 2, center + size / 2), dim=1)
    return corners / torch.tensor([width, height, width, height]), outputs[0][0, 4:].T
