# SPDX-License-Identifier: Apache-2.0
"""A process that plans candidates of a search: a model on a planning card, as the search itself has it."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.builder.overrides import Assignment
from tt_cnn.distributed.driver import Driver
from tt_cnn.evaluation.weights import SEEDED, reference_with
from tt_cnn.models.entry_names import entry_of
from tt_cnn.models.registry import Resolution
from tt_cnn.optimizer.networks import Networks
from tt_cnn.optimizer.prediction import NetworkForm, Prediction, Refusal


@dataclass(frozen=True)
class PlannedTask:
    """What is planned, in values that can be sent."""

    model: str
    """A name, or `module:NAME` of a user's own."""
    card: str
    resolution: Resolution
    batch_size: int = 1
    """With which the search begins."""
    precision: str = "tuned"
    weights: str = SEEDED
    """As the command takes them; those of a file by its whole path."""

    def networks(self) -> Networks:
        entry = entry_of(self.model)
        reference = None if self.weights == SEEDED else reference_with(entry, self.weights)[0]
        return Networks(entry.name, self.card, self.resolution, self.precision, reference)


class PlanningActor:
    """Opens the model as the search begins with it, and once in each other form that it is asked for."""

    def __init__(self, task: PlannedTask, driver: Driver, threads: int) -> None:
        driver.follow()
        import torch

        torch.set_num_threads(threads)
        self._networks = task.networks()
        self._networks.network(task.batch_size).predict(Assignment())

    def predict(self, form: NetworkForm, assignment: Assignment) -> Prediction | Refusal:
        return self._networks.network(form.batch_size, form.chips).predict(assignment)
