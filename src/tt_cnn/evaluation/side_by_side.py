# SPDX-License-Identifier: Apache-2.0
"""Reference and card on one data set, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tt_cnn.evaluation.chosen_data import DataSet, name_of
from tt_cnn.evaluation.metrics import Metric
from tt_cnn.evaluation.pictures import Picture
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.tasks import TASKS, Task
from tt_cnn.models import ModelEntry
from tt_cnn.models.running import RunningModel, card_name, reference_outputs
from tt_cnn.testing import agreement

CHUNK = 8
"""Images that go through the card together; no more of them are held in memory."""


@dataclass
class Comparison:
    """What came of it. Figures are in points, 0 to 100."""

    reference: dict[str, float]
    """PyTorch's figures; none where the images have no annotations."""
    card: dict[str, float]
    agreement: dict[str, float]
    """The card's figures, were PyTorch's answers the truth."""
    pcc: dict[str, float]
    """The worst of any image, for each output."""
    pictures: int
    differing: list[str] = field(default_factory=list)
    """Images of a classifier whose first class is another one than PyTorch's."""
    reference_per_second: float = 0.0
    card_per_second: float = 0.0

    def differences(self) -> dict[str, float]:
        """Card less reference."""
        return {name: self.card[name] - value for name, value in self.reference.items()}


@dataclass(frozen=True)
class Examined:
    """One image, seen by both."""

    name: str
    reference: Any
    """The prediction, as the metric takes it."""
    card: Any
    target: Any
    """None where it is unknown."""
    agreements: Mapping[str, float]
    """The PCC of each output."""
    on: str
    """What the card is called."""
    reference_seconds: float
    card_seconds: float


@dataclass(frozen=True)
class Sample:
    name: str
    picture: Picture
    target: Any

    @classmethod
    def of(cls, data: DataSet, index: int) -> Sample:
        return cls(name_of(data, index), *data[index])


def examine(
    entry: ModelEntry, reference: nn.Module, running: RunningModel, samples: Sequence[Sample]
) -> list[Examined]:
    """Images through both, together."""
    task = TASKS[entry.task]
    prepared = [prepare(entry, sample.picture, running.model.resolution) for sample in samples]
    images = [image for image, _ in prepared]
    began = time.perf_counter()
    expected = [reference_outputs(reference, image) for image in images]
    seconds = time.perf_counter() - began
    before = running.seconds
    found = running.run(images)
    card_seconds = running.seconds - before
    return [
        Examined(
            sample.name,
            task.judged(true, placement),
            task.judged(ours, placement),
            sample.target,
            dict(zip(running.model.outputs, map(agreement, true, ours), strict=True)),
            card_name(running.model.device),
            seconds / len(samples),
            card_seconds / len(samples),
        )
        for sample, (_, placement), true, ours in zip(samples, prepared, expected, found, strict=True)
    ]


def compare(
    entry: ModelEntry,
    reference: nn.Module,
    running: RunningModel,
    data: DataSet,
    *,
    count: int,
    classes: int,
    progress: Callable[[int], None] = lambda pictures: None,
) -> Comparison:
    """Run the first `count` images through both; `progress` is called with the number that went through."""
    sums = Sums(entry, classes)
    total = min(count, len(data))
    for start in range(0, total, CHUNK):
        samples = [Sample.of(data, index) for index in range(start, min(start + CHUNK, total))]
        for each in examine(entry, reference, running, samples):
            sums.add(each)
        progress(len(samples))
    return sums.comparison()


class Sums:
    """A comparison in the making: images are added in the order of the data, wherever they were examined."""

    def __init__(self, entry: ModelEntry, classes: int) -> None:
        self.task, self.classifies = TASKS[entry.task], entry.task == "classification"
        self.judges = _Judges(self.task, classes)
        self.pcc: dict[str, float] = {}
        self.differing: list[str] = []
        self.pictures = 0
        self.seconds = self.card_seconds = 0.0

    def add(self, image: Examined) -> None:
        self.judges.add(image.reference, image.card, image.target)
        for name, value in image.agreements.items():
            self.pcc[name] = min(self.pcc.get(name, 1.0), value)
        if self.classifies and self.task.as_target(image.reference) != self.task.as_target(image.card):
            self.differing.append(image.name)
        self.pictures += 1
        self.seconds += image.reference_seconds
        self.card_seconds += image.card_seconds

    def comparison(self) -> Comparison:
        return Comparison(
            *self.judges.results(),
            pcc=self.pcc,
            pictures=self.pictures,
            differing=self.differing,
            reference_per_second=self.pictures / self.seconds if self.seconds else 0.0,
            card_per_second=self.pictures / self.card_seconds if self.card_seconds else 0.0,
        )


class _Judges:
    """The same figures three times: PyTorch's and the card's against the truth, the card's against PyTorch's."""

    def __init__(self, task: Task, classes: int) -> None:
        self.task = task
        self.reference, self.card, self.agreement = (task.metric(classes) for _ in range(3))
        self.labelled = False

    def add(self, reference: Any, card: Any, target: Any) -> None:
        self.agreement.add(card, self.task.as_target(reference))
        if target is not None:
            self.labelled = True
            self.reference.add(reference, target)
            self.card.add(card, target)

    def results(self) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        def of(metric: Metric) -> dict[str, float]:
            return metric.results() if self.labelled else {}

        return of(self.reference), of(self.card), self.agreement.results()


def classes_of(entry: ModelEntry, reference: nn.Module, resolution: tuple[int, int]) -> int:
    """How many classes the model tells apart: it says so, or its output shows it."""
    if entry.task == "segmentation":
        return 1
    classes_of_model = getattr(reference, "classes", None)
    if isinstance(classes_of_model, int):
        return classes_of_model
    outputs: Sequence[torch.Tensor] = reference_outputs(reference, torch.zeros(1, 3, *resolution))
    return int(outputs[-1].shape[-1]) if entry.task == "classification" else int(outputs[0].shape[1]) - 4
