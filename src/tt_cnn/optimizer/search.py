# SPDX-License-Identifier: Apache-2.0
"""A search: the best assignment so far, attempts to better it, and when to stop.

Steps propose candidates; the search predicts each, keeps it where the goal gets better and the guard allows it, and
writes it into the journal. Steps see only this, so that they can be read, tested and replaced one by one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from typing import Any, Literal, Protocol

from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings, with_settings
from tt_cnn.optimizer.deployment import Deployment
from tt_cnn.optimizer.journal import Attempt, Best, Journal, Outcome
from tt_cnn.optimizer.networks import NetworkSource
from tt_cnn.optimizer.prediction import Expecting, Prediction, Predictor, Refusal
from tt_cnn.virtual.arch import Card

Goal = Literal["latency", "throughput", "memory"]

LEAST_GAIN = 2e-4
"""Share of the goal that a candidate must gain to be kept: less is noise of the model's fractions."""


MOST_REPEATS = 10_000
"""Of candidates that were tried before, one after the other: a step that goes through its list again has fewer."""


class BudgetSpent(Exception):
    """No time or candidates are left. The best so far stays."""


@dataclass(frozen=True)
class Candidate:
    """Settings to try."""

    changes: Mapping[str, LayerSettings]
    words: str
    lossless: bool = True
    """Whether all values stay the same, so that they need not be compared."""


class Guard(Protocol):
    """Says whether an assignment's values are good enough."""

    def accepts(self, assignment: Assignment) -> Verdict: ...


@dataclass(frozen=True)
class Verdict:
    """Of one assignment on some inputs."""

    accepted: bool
    pcc: Mapping[str, float]
    """The lowest of any input that was run, for each output."""
    failed: str = ""
    """Why not: the first output under its floor, with its PCC and the floor, or what the card said that refused it."""


@dataclass
class Budget:
    """Seconds, or a number of candidates where a result must be reproduced. A step gets a share of what is left."""

    seconds: float | None = 120.0
    candidates: int | None = None
    started: float = field(default_factory=time.monotonic)
    spent: int = 0
    _share: float = inf
    """Where the present share ends: seconds since the start, or candidates."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def used(self) -> float:
        return float(self.spent) if self.candidates is not None else self.elapsed

    @property
    def limit(self) -> float:
        if self.candidates is not None:
            return float(self.candidates)
        return inf if self.seconds is None else self.seconds

    @property
    def is_spent(self) -> bool:
        return self.used >= self.limit

    def share(self, part: float = 1.0) -> None:
        """What follows may use this part of what is left, and one candidate at least."""
        if part == inf or self.limit == inf:
            self._share = inf
            return
        left = (self.limit - self.used) * part
        self._share = self.used + (max(left, 1.0) if self.candidates is not None else left)

    def check_time(self) -> None:
        """Between the parts of long work that is no candidate. Raises `BudgetSpent`."""
        if self.is_spent or self.used >= self._share:
            raise BudgetSpent

    def spend(self) -> None:
        self.check_time()
        self.spent += 1


def _rest(candidates: Iterable[Candidate], lists: Iterable[Callable[[], Iterable[Candidate]]]) -> Iterator[Candidate]:
    """What is left of a list, and those after it."""
    yield from candidates
    for make in lists:
        yield from make()


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
    """None where all values are accepted: they are not measured."""
    only: tuple[str, ...] = ("*",)
    freeze: tuple[str, ...] = ()
    """Wildcards of the layers that may change, and of those that may not."""
    random: random.Random = field(default_factory=lambda: random.Random(0))
    deployment: Deployment = field(default_factory=Deployment)
    """How the best is run."""
    networks: NetworkSource | None = None
    """The model in other batches and on other numbers of chips; None where only the predictor is there."""
    tried: dict[Assignment, Attempt] = field(default_factory=dict)
    """What was attempted on the present predictor. The best only gets better: what lost once loses again."""
    repeats: int = 0
    """Candidates in a row that had been tried before."""

    @classmethod
    def starting_from(cls, predictor: Predictor, assignment: Assignment | None = None, **options: object) -> Search:
        """At an assignment that the card takes; the model's own settings where none is given."""
        start = assignment or Assignment()
        prediction = predictor.predict(start)
        if isinstance(prediction, Refusal):
            raise ValueError(f"the configuration to start from is refused: {prediction}")
        search = cls(predictor, Best(start, 0.0, prediction.device_ns), prediction, **options)  # type: ignore[arg-type]
        search.best = Best(start, search.value(prediction), prediction.device_ns)
        return search

    @property
    def card(self) -> Card:
        return self.predictor.card

    def value(self, prediction: Prediction) -> float:
        """What the goal makes smaller."""
        if self.goal == "memory":
            return float(prediction.l1_peak)
        return prediction.device_ns / prediction.images if self.goal == "throughput" else prediction.device_ns

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

    def attempt_in_turn(
        self,
        step: str,
        lists: Sequence[Callable[[], Iterable[Candidate]]],
        refined: Callable[[Candidate], Candidate] = lambda candidate: candidate,
    ) -> None:
        """One list of candidates after the other, each made when its turn comes, from the best of that time.

        Until one is kept it is known what comes, so the predictor is told. `refined` is given each before it is tried.
        """
        told: Best | None = None
        for turn, make in enumerate(lists):
            candidates = list(make())
            for place, candidate in enumerate(candidates):
                if told is not self.best:
                    told = self.best
                    self.expect(_rest(candidates[place:], lists[turn + 1 :]))
                self.attempt(step, refined(candidate))
        self.expect(())

    def expect(self, changes: Iterable[Candidate | Mapping[str, LayerSettings]]) -> None:
        """Tell the predictor what is going to be tried on top of the present best, as far as it is known."""
        if isinstance(self.predictor, Expecting):
            start = self.best.assignment
            own = (one.changes if isinstance(one, Candidate) else one for one in changes)
            assignments = (start.with_all(one) for one in own)
            self.predictor.expect(one for one in assignments if one not in self.tried)

    def attempt(self, step: str, candidate: Candidate) -> Attempt:
        """Predict it, keep it where it is better and accurate, and write it down. Raises `BudgetSpent`.

        What was tried before costs nothing and is not written again. A step that proposes nothing else is ended.
        """
        frozen = [layer for layer in candidate.changes if not self.may_change(layer)]
        if frozen:
            raise ValueError(f"{step} proposed a change of {frozen[0]!r}, which is frozen")
        assignment = self.best.assignment.with_all(candidate.changes)
        if assignment in self.tried:
            self.repeats += 1
            if self.repeats > MOST_REPEATS or self.budget.is_spent:
                raise BudgetSpent
            return self.tried[assignment]
        self.budget.spend()
        self.repeats = 0
        before = self.best
        predicted = self.predictor.predict(assignment)
        outcome, reason, pcc = self._judge(assignment, predicted, candidate)
        if outcome == "kept" and isinstance(predicted, Prediction):
            self._take(assignment, predicted)
        attempt = self._write(step, candidate.words, candidate.changes, outcome, reason, predicted, before, pcc=pcc)
        self.tried[assignment] = attempt
        return attempt

    def take_back(
        self, step: str, candidate: Candidate, reason: str, judge: Callable[[Assignment], Verdict]
    ) -> Attempt:
        """Make the best slower, because of what was found out after it was kept; `judge` says whether that is enough.

        It costs nothing of the budget: a result that is not accurate is no result.
        """
        assignment = self.best.assignment.with_all(candidate.changes)
        before = self.best
        outcome: Outcome = "kept"
        pcc: Mapping[str, float] | None = None
        predicted = self.predictor.predict(assignment)
        if isinstance(predicted, Refusal):
            outcome, reason = "refused", str(predicted)
        else:
            verdict = judge(assignment)
            pcc = verdict.pcc
            if verdict.accepted:
                self._take(assignment, predicted)
                self.tried.clear()  # what was no better than the best before may be better than this one
            else:
                outcome, reason = "not accurate", verdict.failed
        return self._write(step, candidate.words, candidate.changes, outcome, reason, predicted, before, pcc=pcc)

    def attempt_network(self, step: str, deployment: Deployment, predictor: Predictor, words: str) -> Attempt:
        """Go on with the model planned in another way where it is better; what was chosen for layers goes along.

        Where the card refuses that, the model's own settings there are tried, of frozen layers the best's.
        """
        self.budget.spend()
        before = self.best
        assignment = before.assignment
        predicted = predictor.predict(assignment)
        if isinstance(predicted, Refusal):
            assignment = Assignment({name: own for name, own in assignment.items() if not self.may_change(name)})
            predicted = predictor.predict(assignment)
        outcome, reason, _ = self._judge(assignment, predicted, Candidate({}, words))
        if outcome == "kept" and isinstance(predicted, Prediction):
            self.predictor, self.deployment = predictor, deployment
            self._take(assignment, predicted)
            self.tried.clear()
        return self._write(step, words, dict(assignment), outcome, reason, predicted, before, deployment=deployment)

    def note_deployment(self, step: str, deployment: Deployment, input_ns: float, reason: str, words: str) -> Attempt:
        """Write down a way to run the best, end to end; where there is no reason against it, it is kept."""
        if not reason:
            self.deployment = deployment
        outcome: Outcome = "taken back" if reason else "kept"
        more = {"deployment": deployment, "input_ns": input_ns, "value": None}
        return self._write(step, words, {}, outcome, reason, self.prediction, self.best, **more)

    def _take(self, assignment: Assignment, prediction: Prediction) -> None:
        self.prediction = prediction
        self.best = Best(assignment, self.value(prediction), prediction.device_ns)
        self.expect(())

    def _write(
        self,
        step: str,
        words: str,
        changes: Mapping[str, LayerSettings],
        outcome: Outcome,
        reason: str,
        predicted: Prediction | Refusal,
        before: Best,
        **more: Any,
    ) -> Attempt:
        """An attempt in the journal; `more` are fields that not all attempts have."""
        known = None if isinstance(predicted, Refusal) else predicted
        attempt = Attempt(
            number=len(self.journal.attempts) + 1,
            step=step,
            words=words,
            changes=changes,
            outcome=outcome,
            reason=reason,
            device_ns=None if known is None else known.device_ns,
            best_ns=before.device_ns,
            seconds=self.budget.elapsed,
            best_value=before.value,
            **{"value": None if known is None else self.value(known), **more},
        )
        self.journal.write(attempt)
        return attempt

    def _judge(
        self, assignment: Assignment, predicted: Prediction | Refusal, candidate: Candidate
    ) -> tuple[Outcome, str, Mapping[str, float] | None]:
        if isinstance(predicted, Refusal):
            return "refused", str(predicted), None
        value = self.value(predicted)
        if value > self.best.value * (1 - LEAST_GAIN):
            return "taken back", f"{value / self.best.value - 1:+.1%} of the best", None
        if candidate.lossless or self.guard is None:
            return "kept", "", None
        verdict = self.guard.accepts(assignment)
        return ("kept" if verdict.accepted else "not accurate"), verdict.failed, verdict.pcc or None
