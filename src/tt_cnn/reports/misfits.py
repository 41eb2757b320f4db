# SPDX-License-Identifier: Apache-2.0
"""All calls of a model that do not fit, not only the first: planning goes on as if each of them had fitted."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.advice import settings_for
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.layer import layer_that_failed
from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.pipelines import create_pipeline
from tt_cnn.models.registry import Resolution
from tt_cnn.reports.collection import no_collection
from tt_cnn.reports.profiling import PlannedModel, planned_model
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.operation import NOT_CACHED

_MOST_CHANGES = 64
"""Settings that are tried one after the other until a whole model fits."""


@dataclass(frozen=True)
class Planning:
    """What is planned: a model, a card, an executor."""

    name: str
    card: str
    resolution: Resolution
    batch_size: int
    precision: str
    executor: str
    l1_small_size: int


def misfits_of(planning: Planning) -> list[CardError]:
    """Every refusal for want of room, in the order of the calls; another kind of refusal ends the list."""
    with _planned(planning) as planned, no_collection():
        device = planned.device
        device.misfits = []
        last = _compile(planned, planning.executor)
        found: list[CardError] = list(device.misfits)
    if last is not None and last.message != NOT_CACHED:  # programs of calls that did not fit are not cached
        found.append(last)
    return list({one.call: one for one in reversed(found)}.values())[::-1]


def settings_that_fit(planning: Planning) -> Assignment | None:
    """Settings of layers with which the whole model fits: of each misfit the mildest change that its layer can say.

    None where a call outside of layers does not fit, or no change of a layer was found.
    """
    assignment = Assignment()
    for _ in range(_MOST_CHANGES):
        with _planned(planning, assignment) as planned, no_collection():
            refusal = _compile(planned, planning.executor)
            if refusal is None:
                return assignment
            layer = planned.model.layers.get(layer_that_failed(refusal))
            settings = None if layer is None else _mildest(refusal, layer.configuration)
        if layer is None or settings is None or settings == assignment.get(layer.name):
            return None
        assignment = assignment.but(layer.name, **settings)
    return None


def _mildest(refusal: CardError, configuration: Configuration) -> dict[str, Any] | None:
    for alternative in refusal.remedies():
        settings = settings_for(configuration, alternative.change)
        if settings is not None:
            return settings
    return None


def _planned(planning: Planning, config: Assignment | None = None) -> AbstractContextManager[PlannedModel]:
    return planned_model(
        planning.name,
        planning.card,
        planning.resolution,
        planning.batch_size,
        planning.precision,
        planning.l1_small_size,
        config,
    )


def _compile(planned: PlannedModel, name: str) -> CardError | None:
    executor = create_pipeline(planned.model, name).executor
    with ttnn.command_queue(0):
        try:
            executor.compile(planned.host_input())
        except CardError as error:
            return error
        finally:
            executor.cleanup()
    return None
