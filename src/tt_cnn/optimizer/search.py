"""A search: the best assignment so far, attempts to better it, and when to stop.

Steps propose candidates; the search predicts each, keeps it where the goal gets better and the guard allows it, and
writes it into the journal. Steps see only this, so that they can be read, tested and replaced one by one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings, with_settings
from tt_cnn.optimizer.journal import Attempt, Best, Journal, Outcome
from tt_cnn.optimizer.prediction import Prediction, Predictor, Refusal

Goal = Literal["latency", "throughput", "memory"]

LEAST_GAIN = 2e-4
"""Share of the goal that a candidate must gain to be kept: less is noise of the model's fractions."""


class BudgetSpent(Exception):
    """No time or candidates are left. The best so far stays."""


@dataclass(frozen=True)
class Candidate:
    """Settings to try."""

    changes: Mapping[str, LayerSettings]
    words: str
    lossless: bool = True
    """Whether all values stay the same, so that nobody has to compare them."""


class Guard(Protocol):
    """Says whether an assignment's values are good enough."""

    def accepts(self, assignment: Assignment) -> tuple[bool, Mapping[str, float]]:
        """With the PCC of every output."""
        ...


@dataclass(frozen=True)
class Verdict:
    """Of one assignment on some inputs."""

    accepted: bool
    pcc: Mapping[str, float]
    """The lowest of any input that was run, for each output."""
    failed: str = ""
    """The first output under its floor, with its PCC and the floor; what the card said where it refused."""


@dataclass
class Budget:
    """Seconds, or a number of candidates where a result must be reproduced."""

    seconds: float | None = 120.0
    candidates: int | None = None
    started: float = field(default_factory=time.monotonic)
    spent: int = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def check_time(self) -> None:
        """Between the parts of long work that is no candidate. Raises `BudgetSpent`."""
        if self.candidates is None and self.seconds is not None and self.elapsed >= self.seconds:
            raise BudgetSpent

    def spend(self) -> None:
        if self.candidates is not None and self.spent >= self.candidates:
            raise BudgetSpent
        self.check_time()
        self.spent += 1


@dataclass
class Search:
    predictor: Predictor
    best: Best
    prediction: Prediction
    """Of the best."""
    goal: Goal = "latency"
    budget: Budget = field(default_factory=Budget)
    journal: Journal = field(default_factory=Journal)
    guard: Guard | None = None
    """None where all values are accepted: nobody measures them."""
    only: tuple[str, ...] = ("*",)
    freeze: tuple[str, ...] = ()
    """Wildcards of the layers that may change, and of those that may not."""
    random: random.Random = field(default_factory=lambda: random.Random(0))

    @classmethod
    def starting_from(cls, predictor: Predictor, assignment: Assignment | None = None, **options: object) -> Search:
        """At an assignment that the card takes; the model's own settings where none is given."""
        start = assignment or Assignment()
        prediction = predictor.predict(start)
        if isinstance(prediction, Refusal):
            where = f"{prediction.layer}: " if prediction.layer else ""
            raise ValueError(f"the configuration to start from is refused: {where}{prediction.reason}")
        search = cls(predictor, Best(start, 0.0, prediction.device_ns), prediction, **options)  # type: ignore[arg-type]
        search.best = Best(start, search.value(prediction), prediction.device_ns)
        return search

    def value(self, prediction: Prediction) -> float:
        """What the goal makes smaller."""
        return float(prediction.l1_peak) if self.goal == "memory" else prediction.device_ns

    def may_change(self, layer: str) -> bool:
        wanted = any(fnmatchcase(layer, pattern) for pattern in self.only)
        return wanted and not any(fnmatchcase(layer, pattern) for pattern in self.freeze)

    def layers(self, *kinds: type[Configuration]) -> list[str]:
        """The layers that may change, of the given kinds of configuration, the slowest first."""
        names = [
            name
            for name, configuration in self.predictor.configurations.items()
            if isinstance(configuration, kinds) and self.may_change(name)
        ]
        return sorted(names, key=lambda name: -self.prediction.layer_ns.get(name, 0.0))

    def configuration(self, layer: str) -> Configuration:
        """As the best assignment has it."""
        own = self.predictor.configurations[layer]
        settings = self.best.assignment.get(layer)
        configuration: Configuration = with_settings(own, settings, layer) if settings else own
        return configuration

    def attempt_all(self, step: str, candidates: Iterable[Candidate]) -> list[Attempt]:
        """Every candidate on top of the best of its time."""
        return [self.attempt(step, candidate) for candidate in candidates]

    def attempt(self, step: str, candidate: Candidate) -> Attempt:
        """Predict it, keep it where it is better and accurate, and write it down. Raises `BudgetSpent`."""
        self.budget.spend()
        frozen = [layer for layer in candidate.changes if not self.may_change(layer)]
        if frozen:
            raise ValueError(f"{step} proposed a change of {frozen[0]!r}, which is frozen")
        assignment = self.best.assignment.with_all(candidate.changes)
        before = self.best
        predicted = self.predictor.predict(assignment)
        outcome, reason, pcc = self._judge(assignment, predicted, candidate)
        if outcome == "kept" and isinstance(predicted, Prediction):
            self.prediction = predicted
            self.best = Best(assignment, self.value(predicted), predicted.device_ns)
        return self._write(step, candidate, outcome, reason, predicted, before, pcc)

    def take_back(
        self, step: str, candidate: Candidate, reason: str, judge: Callable[[Assignment], Verdict]
    ) -> Attempt:
        """Make the best slower, because of what was found out after it was kept; `judge` says whether that is enough.

        It costs nothing of the budget: a result that is not accurate is no result.
        """
        assignment = self.best.assignment.with_all(candidate.changes)
        before = self.best
        predicted = self.predictor.predict(assignment)
        if isinstance(predicted, Refusal):
            why = f"{predicted.layer}: {predicted.reason}" if predicted.layer else predicted.reason
            return self._write(step, candidate, "refused", why, predicted, before, None)
        verdict = judge(assignment)
        if not verdict.accepted:
            return self._write(step, candidate, "not accurate", verdict.failed, predicted, before, verdict.pcc)
        self.prediction = predicted
        self.best = Best(assignment, self.value(predicted), predicted.device_ns)
        return self._write(step, candidate, "kept", reason, predicted, before, verdict.pcc)

    def _write(
        self,
        step: str,
        candidate: Candidate,
        outcome: Outcome,
        reason: str,
        predicted: Prediction | Refusal,
        before: Best,
        pcc: Mapping[str, float] | None,
    ) -> Attempt:
        attempt = Attempt(
            number=len(self.journal.attempts) + 1,
            step=step,
            words=candidate.words,
            changes=candidate.changes,
            outcome=outcome,
            reason=reason,
            device_ns=None if isinstance(predicted, Refusal) else predicted.device_ns,
            best_ns=before.device_ns,
            pcc=pcc,
            seconds=self.budget.elapsed,
        )
        self.journal.write(attempt)
        return attempt

    def _judge(
        self, assignment: Assignment, predicted: Prediction | Refusal, candidate: Candidate
    ) -> tuple[Outcome, str, Mapping[str, float] | None]:
        if isinstance(predicted, Refusal):
            return "refused", f"{predicted.layer}: {predicted.reason}" if predicted.layer else predicted.reason, None
        value = self.value(predicted)
        if value > self.best.value * (1 - LEAST_GAIN):
            return "taken back", f"{value / self.best.value - 1:+.1%} of the best", None
        if candidate.lossless or self.guard is None:
            return "kept", "", None
        accepted, pcc = self.guard.accepts(assignment)
        lowest = min(pcc.items(), key=lambda item: item[1], default=("", 1.0))
        return ("kept", "", pcc) if accepted else ("not accurate", f"PCC of {lowest[0]} {lowest[1]:.5f}", pcc)
