# SPDX-License-Identifier: Apache-2.0
"""Reference and card on one data set, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tt_cnn.evaluation.chosen_data import DataSet, name_of
from tt_cnn.evaluation.metrics import Metric
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.tasks import TASKS, Outputs, Task
from tt_cnn.models import ModelEntry
from tt_cnn.models.running import RunningModel, reference_outputs
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
    task = TASKS[entry.task]
    judges = _Judges(task, classes)
    pcc = dict.fromkeys(running.model.outputs, 1.0)
    differing: list[str] = []
    seconds = 0.0
    total = min(count, len(data))
    for start in range(0, total, CHUNK):
        indexes = range(start, min(start + CHUNK, total))
        samples = [data[index] for index in indexes]
        prepared = [prepare(entry, picture, running.model.resolution) for picture, _ in samples]
        images = [image for image, _ in prepared]
        began = time.perf_counter()
        expected = [reference_outputs(reference, image) for image in images]
        seconds += time.perf_counter() - began
        found = running.run(images)
        for index, (_, target), (_, placement), true, ours in zip(
            indexes, samples, prepared, expected, found, strict=True
        ):
            answers = task.judged(true, placement), task.judged(ours, placement)
            judges.add(*answers, target)
            _note_pcc(pcc, true, ours)
            if entry.task == "classification" and task.as_target(answers[0]) != task.as_target(answers[1]):
                differing.append(name_of(data, index))
        progress(len(indexes))
    return Comparison(
        *judges.results(),
        pcc=pcc,
        pictures=total,
        differing=differing,
        reference_per_second=total / seconds if seconds else 0.0,
        card_per_second=running.pictures_per_second,
    )


def _note_pcc(worst: dict[str, float], true: Outputs, ours: Outputs) -> None:
    for name, expected, found in zip(worst, true, ours, strict=True):
        worst[name] = min(worst[name], agreement(expected, found))


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
