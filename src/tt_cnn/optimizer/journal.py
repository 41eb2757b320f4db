"""What a search tried: every attempt with its prediction, its PCC, and why it was kept or taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tt_cnn.builder.overrides import Assignment

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
class Best:
    """The best so far."""

    assignment: Assignment
    value: float
    """Of the goal; smaller is better."""
    device_ns: float
