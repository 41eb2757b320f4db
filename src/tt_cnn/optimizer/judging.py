# SPDX-License-Identifier: Apache-2.0
"""How a search judges values: with which weights, on which inputs, and how good they must be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from tt_cnn import runtime
from tt_cnn.builder.overrides import Assignment
from tt_cnn.evaluation.chosen_data import GENERATED, DataSet, data_set, generated_names
from tt_cnn.evaluation.class_names import names_of
from tt_cnn.evaluation.pictures import Picture
from tt_cnn.evaluation.side_by_side import classes_of
from tt_cnn.evaluation.weights import PUBLIC, SEEDED, SHIPPED, reference_with
from tt_cnn.models.registry import ModelEntry, Resolution, create_reference
from tt_cnn.models.tt_model import Precision
from tt_cnn.optimizer.accuracy import ModelOnCard, model_on_card
from tt_cnn.optimizer.calibration import Calibration, batches, read_calibration
from tt_cnn.optimizer.guard import CHANCE, PccGuard
from tt_cnn.optimizer.metric_guard import MetricGuard, TaskMetric, metric_floor
from tt_cnn.optimizer.result import MeasuredMetric, OptimizationResult, Standing
from tt_cnn.optimizer.search import Guard, Verdict

MIN_PCC = 0.99
PCC_BESIDE_A_METRIC = 0.9
"""`min_pcc` where the task's figure decides: what is far off is kept away without a run over the data set."""


@dataclass(frozen=True)
class Part:
    """Every other image of a data set."""

    data: DataSet
    first: int
    count: int

    def __len__(self) -> int:
        return min(self.count, (len(self.data) - self.first + 1) // 2)

    def __getitem__(self, index: int) -> tuple[Picture, Any]:
        return self.data[self.first + 2 * index]


@dataclass(frozen=True)
class MetricData:
    """Images for the task's figure: half to choose by, the others to verify."""

    data: DataSet
    source: str
    count: int
    """Of each half, at most."""

    def __post_init__(self) -> None:
        if len(self.data) < 2:
            raise ValueError(f"--data has {len(self.data)} image; there must be 2, one to choose by, one to verify")

    @property
    def chosen(self) -> Part:
        return Part(self.data, 0, self.count)

    @property
    def unseen(self) -> Part:
        return Part(self.data, 1, self.count)


@dataclass(frozen=True)
class Judging:
    """All that a guard and the last run of the whole model need."""

    entry: ModelEntry
    card: str
    resolution: Resolution
    precision: Precision
    batch_size: int
    min_pcc: float
    seed: int = 0
    weights: str = SEEDED
    """As the command takes them."""
    given: nn.Module | None = None
    """The reference with its weights; None for the seeded one, which takes seconds to make."""
    calibration: Calibration | None = None
    """Generated images where it is None."""
    pictures: MetricData | None = None
    min_metric: float | None = None

    @cached_property
    def reference(self) -> nn.Module:
        return create_reference(self.entry.name) if self.given is None else self.given

    @contextmanager
    def guard(self, start: Assignment | None) -> Iterator[Guard]:
        """With a card of its own, which is closed at the end."""
        with self._on_card(self.batch_size) as model:
            pcc = self._pcc_guard(model, start)
            if self.pictures is None or self.min_metric is None:
                yield pcc
                return
            parts = (self.pictures.chosen, self.pictures.unseen)
            chosen, unseen = (TaskMetric(model, part, len(part)) for part in parts)
            yield MetricGuard(pcc, chosen, self.min_metric, unseen)

    def runs_whole(self, result: OptimizationResult) -> bool:
        """Whether a run of the whole model can say anything: where no setting changed, no value has."""
        return result.after.assignment != result.before.assignment or self.pictures is not None

    def whole(self, result: OptimizationResult, exact: bool) -> OptimizationResult:
        """The result after a run of the whole model with all its settings, on inputs that no choice was made on.

        A search measures on the smallest batch, with what of an assignment decides precision; this run has all of it.
        """
        found = result.verification
        if result.after.assignment != result.before.assignment:
            verdict = self._verdict(result.after, "exact" if exact else "device")
            said = f"{found.said}, and so are the values of the whole model"
            if not verdict.accepted:
                said = f"the values of the whole model are not accurate: {verdict.failed}"
            holds, accurate = found.holds and verdict.accepted, verdict.accepted
            found = replace(found, holds=holds, accurate=accurate, said=said)
            result = replace(result, pcc=verdict.pcc, verification=found)
        return result if self.pictures is None else self._with_metric(result, self.pictures)

    def _verdict(self, standing: Standing, numerics: str) -> Verdict:
        with self._on_card(standing.deployment.batch_size, numerics, whole_batch=True) as model:
            return self._pcc_guard(model, None).verify(standing.assignment)

    def _with_metric(self, result: OptimizationResult, pictures: MetricData) -> OptimizationResult:
        """Before and after; where the figure is the guard and is missed, the result is not accurate."""
        part = pictures.unseen
        with self._on_card(result.before.deployment.batch_size, whole_batch=True) as model:
            metric = TaskMetric(model, part, len(part))
            name, own, before = metric.name, metric.of_reference(), metric.of(result.before.assignment)
        after = before
        if result.after.assignment != result.before.assignment:
            with self._on_card(result.after.deployment.batch_size, whole_batch=True) as model:
                after = TaskMetric(model, part, len(part)).of(result.after.assignment)
        result = replace(result, metric=MeasuredMetric(name, own, before, after, len(part), pictures.source))
        floor = 0.0 if self.min_metric is None else metric_floor(self.min_metric, before, CHANCE)
        if after >= floor:
            return result
        said = f"the whole model is not accurate: {name} {after:.2f} under {floor:.2f}"
        return replace(result, verification=replace(result.verification, holds=False, accurate=False, said=said))

    def _pcc_guard(self, model: ModelOnCard, start: Assignment | None) -> PccGuard:
        if self.calibration is None:
            return PccGuard.with_examples(model, self.min_pcc, start, self.seed)
        chosen, unseen = (
            batches(images, model.images_per_run) for images in (self.calibration.chosen, self.calibration.unseen)
        )
        return PccGuard(model, chosen, unseen, self.min_pcc, start)

    @contextmanager
    def _on_card(self, batch_size: int, numerics: str = "device", whole_batch: bool = False) -> Iterator[ModelOnCard]:
        with model_on_card(
            self.entry.name,
            card=self.card if runtime.is_virtual() else None,
            resolution=self.resolution,
            batch_size=batch_size,
            precision=self.precision,
            reference=self.reference,
            numerics=numerics,
            whole_batch=whole_batch,
        ) as model:
            yield model


def judging_of(
    entry: ModelEntry,
    *,
    weights: str | None,
    calibration: Path | None,
    data: str | None,
    count: int,
    min_pcc: float | None,
    min_metric: float | None,
    resolution: Resolution,
    **options: Any,
) -> Judging:
    """From what the command was given; all of it is read here, so that a mistake is reported before anything is made.

    `data` may be left out with shipped weights: they were trained on images that are generated. `options` are other
    fields of `Judging`.
    """
    whose = weights or SEEDED
    if whose == SEEDED and (data is not None or min_metric is not None):
        asked = "--data" if min_metric is None else "--min-metric"
        raise ValueError(
            f"{asked} needs trained weights, and these are random; --weights says which: {SHIPPED}, {PUBLIC} or a file"
        )
    if min_metric is not None and not 1 < min_metric <= 100:
        raise ValueError(f"--min-metric is {min_metric:g}; it is in points, and must be more than 1 and at most 100")
    if min_metric is not None and data is None and whose != SHIPPED:
        raise ValueError("--min-metric needs images to measure it on; --data says which")
    reference = None if whose == SEEDED else reference_with(entry, whose)[0]
    return Judging(
        entry,
        resolution=resolution,
        min_pcc=(MIN_PCC if min_metric is None else PCC_BESIDE_A_METRIC) if min_pcc is None else min_pcc,
        weights=whose,
        given=reference,
        calibration=None if calibration is None else read_calibration(calibration, entry, resolution),
        pictures=None if reference is None else _pictures(entry, reference, whose, data, count, resolution),
        min_metric=min_metric,
        **options,
    )


def _pictures(
    entry: ModelEntry, reference: nn.Module, weights: str, data: str | None, count: int, resolution: Resolution
) -> MetricData | None:
    wanted = data or (GENERATED if weights == SHIPPED else None)
    if wanted is None:
        return None
    names = names_of(reference, classes_of(entry, reference, resolution), generated_names(entry))
    found, source = data_set(entry, wanted, names, count=2 * count, resolution=resolution)
    return MetricData(found, source, count)
