# SPDX-License-Identifier: Apache-2.0
"""What was asked of a search, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment
from tt_cnn.evaluation.weights import SEEDED
from tt_cnn.models.registry import Resolution
from tt_cnn.optimizer.deployment import Deployment
from tt_cnn.optimizer.journal import Attempt, Journal
from tt_cnn.optimizer.prediction import Prediction
from tt_cnn.optimizer.search import Goal

End = Literal["converged", "budget spent", "interrupted"]
ENDS: Mapping[str, str] = {
    "converged": "no step betters it",
    "budget spent": "the budget is spent",
    "interrupted": "interrupted",
}


@dataclass(frozen=True)
class Task:
    """What was asked for."""

    model: str
    card: str = "n150"
    resolution: Resolution = (0, 0)
    batch_size: int = 1
    precision: str = "tuned"
    goal: Goal = "latency"
    min_pcc: float = 0.99
    budget_seconds: float | None = 120.0
    candidates: int | None = None
    seed: int = 0
    steps: tuple[str, ...] = ()
    """By name, in the order in which they run."""
    only: tuple[str, ...] = ("*",)
    freeze: tuple[str, ...] = ()
    measured: bool = False
    """On a card with the real TT-NN; else predicted."""
    weights: str = SEEDED
    """As the command takes them."""
    min_metric: float | None = None
    """Points that the task's figure must keep; None where only the PCC is looked at."""


@dataclass(frozen=True)
class StepReport:
    """One run of a step."""

    name: str
    round: int
    """0 before the rounds; one more than the last at the end."""
    attempts: int
    kept: int
    gained: float
    """Of the goal's value."""
    seconds: float
    cut_off: bool = False
    """Whether it had more to propose when its share was spent."""
    error: str = ""
    """The fault that ended it, with its traceback; empty where there was none."""


@dataclass(frozen=True)
class Verification:
    """The result rebuilt with its settings and planned again."""

    holds: bool
    said: str
    """What was found, as a sentence."""
    given_up: int = 0
    """Kept attempts that were taken back for it."""
    accurate: bool = True
    """False where a run of the whole model with the result was under the guard: it must not be used."""


@dataclass(frozen=True)
class Standing:
    """A configuration with all that is known of it."""

    assignment: Assignment
    deployment: Deployment
    prediction: Prediction
    input_ns: float
    """From one input's end to the next one's."""

    @property
    def fps(self) -> float:
        """Images per second end to end."""
        return 1e9 * self.deployment.images / self.input_ns if self.input_ns else 0.0

    @property
    def device_fps(self) -> float:
        return 1e9 * self.deployment.images / self.prediction.device_ns if self.prediction.device_ns else 0.0


@dataclass(frozen=True)
class MeasuredMetric:
    """The task's figure on images that no choice was made on, in points (0 to 100)."""

    name: str
    reference: float
    """PyTorch's."""
    before: float
    after: float
    pictures: int
    data: str
    """The data set, in words."""


@dataclass(frozen=True)
class OptimizationResult:
    """What a search found. Nothing in it depends on the cards and networks of the search."""

    task: Task
    before: Standing
    after: Standing
    configurations: Mapping[str, Configuration]
    """Of all layers as the model's own code has them, in the result's batch."""
    journal: Journal
    steps: tuple[StepReport, ...]
    end: End
    verification: Verification
    seconds: float
    planned: int
    """Assignments that were predicted."""
    pcc: Mapping[str, float] | None = None
    """Of every output of the result, where they were compared."""
    resumed: int = 0
    """Attempts that a former run had made."""
    before_configurations: Mapping[str, Configuration] = field(default_factory=dict)
    """In the batch of the start."""
    parameters: int | None = None
    """Of the network; None where that is not known."""
    metric: MeasuredMetric | None = None
    """Where there was a data set."""

    @property
    def faults(self) -> tuple[StepReport, ...]:
        return tuple(step for step in self.steps if step.error)

    @property
    def value_before(self) -> float:
        return goal_value(self.task.goal, self.before.prediction)

    @property
    def value_after(self) -> float:
        return goal_value(self.task.goal, self.after.prediction)

    @property
    def times_better(self) -> float:
        """By the goal: 2 is half the time or half the memory."""
        return self.value_before / self.value_after if self.value_after else 1.0

    @property
    def kept(self) -> list[Attempt]:
        """What is in the result: kept, and not given up when it was rebuilt."""
        kept = self.journal.kept
        return kept[: len(kept) - self.verification.given_up]

    @property
    def planned_per_second(self) -> float:
        return self.planned / self.seconds if self.seconds else 0.0


def goal_value(goal: Goal, prediction: Prediction) -> float:
    """What a goal makes smaller: ns of one input, ns of one image, bytes of L1."""
    if goal == "memory":
        return float(prediction.l1_peak)
    return prediction.device_ns / prediction.images if goal == "throughput" else prediction.device_ns


def said_value(goal: Goal, value: float) -> str:
    """A goal's value with its unit."""
    if goal == "memory":
        return f"{value / 1024:.0f} KB of L1"
    return f"{value / 1e3:.1f} µs" + (" an image" if goal == "throughput" else "")
