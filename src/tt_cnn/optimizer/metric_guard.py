# SPDX-License-Identifier: Apache-2.0
"""The task's own figure as a guard: mAP, IoU or top-1 on a data set, beside the PCC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tt_cnn.builder.overrides import Assignment
from tt_cnn.evaluation.chosen_data import DataSet
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.side_by_side import classes_of
from tt_cnn.evaluation.tasks import TASKS
from tt_cnn.models.running import reference_outputs
from tt_cnn.optimizer.accuracy import ModelOnCard
from tt_cnn.optimizer.guard import CHANCE, PccGuard
from tt_cnn.optimizer.moves import Losses, Move
from tt_cnn.optimizer.search import Verdict


class TaskMetric:
    """The main figure of a model's task on the first images of a data set, in points (0 to 100)."""

    def __init__(self, model: ModelOnCard, data: DataSet, count: int) -> None:
        self.model = model
        self.task = TASKS[model.entry.task]
        self.name = self.task.main_figure
        self.classes = classes_of(model.entry, model.reference, model.model.resolution)
        samples = [data[index] for index in range(min(count, len(data)))]
        if not samples:
            raise ValueError("the data set has no images; a metric needs at least one")
        self.prepared = [prepare(model.entry, picture, model.model.resolution) for picture, _ in samples]
        self.targets = self._known_targets([target for _, target in samples])
        self._known: dict[Assignment, float] = {}

    def of(self, assignment: Assignment) -> float:
        """On the card."""
        key = self.model.relevant(assignment)
        if key not in self._known:
            size = self.model.images_per_run
            outputs: list[tuple[torch.Tensor, ...]] = []
            for start in range(0, len(self.prepared), size):
                images = [image for image, _ in self.prepared[start : start + size]]
                filled = torch.cat([*images, *[images[-1]] * (size - len(images))])
                values = self.model.outputs(assignment, filled)
                outputs += [tuple(value[i : i + 1] for value in values) for i in range(len(images))]
            self._known[key] = self._figure(outputs)
        return self._known[key]

    def of_reference(self) -> float:
        """In PyTorch."""
        return self._figure([reference_outputs(self.model.reference, image) for image, _ in self.prepared])

    def _known_targets(self, targets: Sequence[Any]) -> list[Any]:
        """Where the images have no annotations, PyTorch's answers are the truth."""
        if all(target is not None for target in targets):
            return list(targets)
        answers = (
            self.task.judged(reference_outputs(self.model.reference, image), placement)
            for image, placement in self.prepared
        )
        return [self.task.as_target(answer) for answer in answers]

    def _figure(self, outputs: Sequence[Sequence[torch.Tensor]]) -> float:
        if not all(bool(value.isfinite().all()) for each in outputs for value in each):
            return 0.0
        metric = self.task.metric(self.classes)
        for values, (_, placement), target in zip(outputs, self.prepared, self.targets, strict=True):
            metric.add(self.task.judged(values, placement), target)
        return metric.results()[self.name]


def metric_floor(min_metric: float, start: float, chance: float = 0.0) -> float:
    """What the figure must reach: the minimum, or what the start has, less a share of what that lacks."""
    return min_metric if start >= min_metric else start - chance * (100.0 - start)


class MetricGuard:
    """Accepts what the PCC guard accepts, if the figure is at least `min_metric` or not lower than the start's.

    Whoever wants the figure alone to decide gives the PCC guard a low `min_pcc`: it still orders the layers by what
    they lose, and keeps away what is far off without a run over the data set.
    """

    def __init__(
        self, guard: PccGuard, metric: TaskMetric, min_metric: float, unseen: TaskMetric | None = None
    ) -> None:
        self.guard = guard
        self.metric = metric
        self.min_metric = min_metric
        self.unseen = unseen
        """The figure on images that no choice is made on; None where there are no such images."""

    def accepts(self, assignment: Assignment) -> Verdict:
        return self._judged(self.guard.accepts(assignment), self.metric, assignment)

    def verify(self, assignment: Assignment) -> Verdict:
        """On inputs and images that no choice was made on, with the PCC guard's allowance for chance."""
        return self._judged(self.guard.verify(assignment), self.unseen, assignment, CHANCE)

    def _judged(
        self, verdict: Verdict, metric: TaskMetric | None, assignment: Assignment, chance: float = 0.0
    ) -> Verdict:
        """What the PCC refuses needs no images."""
        if not verdict.accepted or metric is None:
            return verdict
        start, figure = metric.of(self.guard.start), metric.of(assignment)
        floor = metric_floor(self.min_metric, start, chance)
        if figure >= floor:
            return verdict
        return Verdict(False, verdict.pcc, f"{metric.name} {figure:.2f} under {floor:.2f}")

    def slack(self, assignment: Assignment) -> Mapping[str, float]:
        return self.guard.slack(assignment)

    def losses(
        self, assignment: Assignment, moves: Sequence[Move], between: Callable[[], None] = lambda: None
    ) -> Mapping[Move, Losses]:
        return self.guard.losses(assignment, moves, between)
