# SPDX-License-Identifier: Apache-2.0
"""What a search tried: every attempt with its prediction, its PCC, and why it was kept or taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.deployment import Deployment

Outcome = Literal["kept", "taken back", "refused", "not accurate"]
"""`taken back`: no better. `refused`: the card or a configuration does not take it. `not accurate`: under the guard."""


@dataclass(frozen=True)
class Attempt:
    """One candidate."""

    number: int
    step: str
    """The name of the step that proposed it."""
    words: str
    """What it changes, as a person would say it."""
    changes: Mapping[str, Mapping[str, Any]]
    """The settings that it changes, by layer."""
    outcome: Outcome
    reason: str
    """Why it was not kept. Where it was: empty, or why something slower had to be taken."""
    device_ns: float | None
    """Predicted kernels of one input; None where it was refused."""
    best_ns: float
    """The best of the search before it."""
    pcc: Mapping[str, float] | None = None
    """Of every output, where it was measured."""
    seconds: float = 0.0
    """Since the search began."""
    value: float | None = None
    """Of the goal; None where it was refused."""
    best_value: float = 0.0
    """Of the goal, before it."""
    deployment: Deployment | None = None
    """Where it changes how the model is run: what it would be run as. With a value of the goal it is another network,
    and `changes` are all settings there."""
    input_ns: float | None = None
    """From one input's end to the next one's, where executors or chips were compared."""


@dataclass
class Journal:
    """All attempts in their order. Listeners see each as it is written."""

    attempts: list[Attempt] = field(default_factory=list)
    listeners: list[Callable[[Attempt], None]] = field(default_factory=list)

    def write(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        for listener in self.listeners:
            listener(attempt)

    @property
    def kept(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.outcome == "kept"]


@dataclass(frozen=True)
class State:
    """What a search had reached after an attempt that was kept."""

    assignment: Assignment
    deployment: Deployment
    value: float
    """Of the goal."""


def states(start: State, attempts: Iterable[Attempt]) -> list[State]:
    """The start, and what every kept attempt made of it."""
    path = [start]
    for attempt in attempts:
        if attempt.outcome != "kept":
            continue
        last = path[-1]
        if attempt.deployment is None:
            assignment = last.assignment.with_all(attempt.changes)
        else:
            assignment = last.assignment if attempt.value is None else Assignment(attempt.changes)
        value = last.value if attempt.value is None else attempt.value
        path.append(State(assignment, attempt.deployment or last.deployment, value))
    return path


@dataclass(frozen=True)
class Best:
    """The best so far."""

    assignment: Assignment
    value: float
    """Of the goal; smaller is better."""
    device_ns: float
