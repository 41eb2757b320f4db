# SPDX-License-Identifier: Apache-2.0
"""The task's figure as a guard: IoU of the small model against PyTorch's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.optimizer.small_model import ENTRY, NAME, SIZE, Reference, small_reference
from tt_cnn import ttnn
from tt_cnn.builder.overrides import Assignment
from tt_cnn.evaluation.pictures import Picture
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.optimizer.guard import CHANCE, MeasuringGuard, PccGuard
from tt_cnn.optimizer.metric_guard import MetricGuard, TaskMetric, metric_floor

pytestmark = pytest.mark.usefixtures("small_model")
START = Assignment()
COARSE = Assignment({"third": {"weights_dtype": ttnn.bfloat4_b}})


class Pictures:
    """Noise; nobody knows what is on it."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Picture, None]:
        draw = np.random.default_rng(index)
        return draw.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8), None


def reference_with_masks() -> Reference:
    """The first channel is over 0.5 in half of the pixels."""
    reference = small_reference()
    image, _ = prepare(ENTRY, Pictures()[0][0])
    with torch.no_grad():
        values = reference(image)[0][:, 0]
        scale = 1.0 / float(values.std())
        reference.left.weight[0] *= scale
        assert reference.left.bias is not None
        reference.left.bias[0] = scale * (reference.left.bias[0] - values.median()) + 0.5
    return reference


@pytest.fixture
def guard() -> Iterator[PccGuard]:
    with PccGuard.for_model(NAME, card="n150", reference=reference_with_masks(), min_pcc=0.5) as made:
        yield made


def test_the_figure_decides_where_the_pcc_allows_it(guard: PccGuard) -> None:
    model: Any = guard.model
    metric = TaskMetric(model, Pictures(), count=2)
    assert metric.name == "IoU"
    assert metric.of_reference() == 100.0
    start, coarse = metric.of(START), metric.of(COARSE)
    assert 50.0 < coarse < start <= 100.0
    assert guard.accepts(COARSE).accepted
    strict = MetricGuard(guard, metric, min_metric=(start + coarse) / 2)
    assert not strict.accepts(COARSE).accepted
    assert strict.accepts(START).accepted
    assert set(strict.accepts(START).pcc) == {"left", "right"}, "a figure is no PCC"
    assert strict.accepts(COARSE).failed == f"IoU {coarse:.2f} under {(start + coarse) / 2:.2f}"
    assert MetricGuard(guard, metric, min_metric=coarse).accepts(COARSE).accepted
    assert isinstance(strict, MeasuringGuard)


def test_a_start_under_the_figure_may_stay_and_not_become_worse(guard: PccGuard) -> None:
    model: Any = guard.model
    above = MetricGuard(guard, TaskMetric(model, Pictures(), count=2), min_metric=101.0)
    assert above.accepts(START).accepted
    assert not above.accepts(COARSE).accepted


def test_the_verification_looks_at_other_pictures_and_allows_for_chance(guard: PccGuard) -> None:
    model: Any = guard.model
    metrics = TaskMetric(model, Pictures(), count=1), TaskMetric(model, Pictures(), count=3)
    start, coarse = (metrics[1].of(each) for each in (START, COARSE))
    assert MetricGuard(guard, metrics[0], coarse, metrics[1]).verify(COARSE).accepted
    refused = MetricGuard(guard, metrics[0], (start + coarse) / 2, metrics[1]).verify(COARSE)
    assert refused.failed == f"IoU {coarse:.2f} under {(start + coarse) / 2:.2f}"
    assert metric_floor(90.0, 95.0, CHANCE) == 90.0
    assert metric_floor(90.0, 80.0) == 80.0
    assert metric_floor(90.0, 80.0, CHANCE) == 79.0


def test_what_the_pcc_refuses_needs_no_pictures(guard: PccGuard) -> None:
    model: Any = guard.model
    metric = TaskMetric(model, Pictures(), count=1)
    guard.min_pcc = 0.9999
    before = model.runs
    refused = MetricGuard(guard, metric, min_metric=0.0)
    verdict = refused.accepts(COARSE)
    assert not verdict.accepted
    assert verdict.failed.startswith("PCC of ")
    assert model.runs - before == 2  # the start and the candidate on the calibration input


def test_a_data_set_without_pictures_is_refused(guard: PccGuard) -> None:
    model: Any = guard.model
    with pytest.raises(ValueError, match="no images"):
        TaskMetric(model, Pictures(), count=0)
