# SPDX-License-Identifier: Apache-2.0
"""The driver: a model is optimised by all steps, within a budget, and what comes out is rebuilt and compared."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from tt_cnn import runtime
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.evaluation.weights import SEEDED
from tt_cnn.models.registry import Resolution, model_entry
from tt_cnn.optimizer.deployment import Deployment
from tt_cnn.optimizer.journal import Attempt, Best, State, states
from tt_cnn.optimizer.journal_file import StoredJournal
from tt_cnn.optimizer.measurement import measured_networks
from tt_cnn.optimizer.networks import Networks, NetworkSource
from tt_cnn.optimizer.prediction import Helpers, Refusal
from tt_cnn.optimizer.record import TuningRecord
from tt_cnn.optimizer.result import OptimizationResult, Task
from tt_cnn.optimizer.rounds import Rounds, Watcher
from tt_cnn.optimizer.search import Budget, Candidate, Goal, Guard, Search, Verdict
from tt_cnn.optimizer.settings import changed_settings
from tt_cnn.optimizer.steps.base import STEPS, OptimizationStep
from tt_cnn.optimizer.suggestions import Suggestions, recorded_candidates
from tt_cnn.optimizer.verification import verified

GOALS: tuple[Goal, ...] = ("latency", "throughput", "memory")


class NoGuard:
    """Where values are not compared: only candidates that keep all of them are accepted."""

    def accepts(self, assignment: Assignment) -> Verdict:
        return Verdict(False, {}, "it changes values, and they are not compared")


def optimize(
    model: str,
    *,
    card: str = "n150",
    goal: Goal = "latency",
    min_pcc: float = 0.99,
    budget_seconds: float | None = 120.0,
    candidates: int | None = None,
    seed: int = 0,
    steps: Sequence[str] | None = None,
    only: Sequence[str] = ("*",),
    freeze: Sequence[str] = (),
    start: Mapping[str, LayerSettings] | None = None,
    precision: str = "tuned",
    resolution: Resolution | None = None,
    batch_size: int = 1,
    guard: Guard | None = None,
    watcher: Watcher | None = None,
    resume: StoredJournal | None = None,
    suggestions: Sequence[Candidate] = (),
    record: TuningRecord | None = None,
    reference: nn.Module | None = None,
    weights: str = SEEDED,
    min_metric: float | None = None,
    helpers: Helpers | None = None,
) -> OptimizationResult:
    """Search for better settings of a model's layers, and for a better way to run it.

    `steps`: names among `STEPS`, all of them where None is given. `start`: settings to begin with. `guard`: says
    whether values are good enough; without one, only changes that keep all values are made. `suggestions`: candidates
    to try before all steps. `record`: what earlier searches found is tried first, and what this one finds is added;
    with `candidates` nothing is read from it, so that the same call gives the same journal. `resume`: a former run to
    go on with. `reference`: the network that is optimised, where it is not the entry's default one; `weights` says
    whose weights it has, and `min_metric` what the guard asks of the task's figure: both are only written down.
    `helpers`: who plans candidates ahead (`planners`); the result is the same without. Ctrl-C ends the search and keeps
    the best so far.
    """
    entry = model_entry(model)
    task = Task(
        model=entry.name,
        card=card,
        resolution=resolution or entry.resolution,
        batch_size=batch_size,
        precision=precision,
        goal=goal,
        min_pcc=min_pcc,
        budget_seconds=None if candidates is not None else budget_seconds,
        candidates=candidates,
        seed=seed,
        steps=chosen_steps(steps),
        only=tuple(only) or ("*",),
        freeze=tuple(freeze),
        measured=not runtime.is_virtual(),
        weights=weights,
        min_metric=min_metric,
    )
    _check(task)
    if resume is not None:
        resume.must_fit(task)
    with _networks(task, reference, helpers) as networks:
        return _Run(task, networks, guard, watcher or Watcher(), record).run(start, resume, suggestions)


def chosen_steps(names: Sequence[str] | None) -> tuple[str, ...]:
    """In the order in which they run, whatever the order in which they are named."""
    unknown = [name for name in names or () if name not in STEPS]
    if unknown:
        raise ValueError(f"there is no step {unknown[0]!r}; there are {', '.join(STEPS)}")
    return tuple(name for name in STEPS if names is None or name in names)


def _check(task: Task) -> None:
    if task.goal not in GOALS:
        raise ValueError(f"goal is {task.goal!r}; it must be one of {', '.join(GOALS)}")
    if task.measured and task.goal == "memory":
        raise ValueError("goal is 'memory'; a card does not tell its use of L1: TT_CNN_RUNTIME=virtual plans it")
    if not 0 <= task.min_pcc <= 1:
        raise ValueError(f"min_pcc is {task.min_pcc}; it must be between 0 and 1")
    if task.candidates is not None and task.candidates < 0:
        raise ValueError(f"candidates is {task.candidates}; it must be 0 or more")
    if task.budget_seconds is not None and not task.budget_seconds >= 0:
        raise ValueError(f"budget_seconds is {task.budget_seconds}; it must be 0 or more")


def _networks(
    task: Task, reference: nn.Module | None, helpers: Helpers | None
) -> AbstractContextManager[NetworkSource]:
    if task.measured:
        if helpers is not None:
            raise ValueError("candidates are measured on the card, one after the other: nobody can plan them ahead")
        return measured_networks(task.model, task.resolution, task.precision, reference)
    return Networks(task.model, task.card, task.resolution, task.precision, reference, helpers)


class _Run:
    """One call of `optimize`."""

    def __init__(
        self,
        task: Task,
        networks: NetworkSource,
        guard: Guard | None,
        watcher: Watcher,
        record: TuningRecord | None,
    ) -> None:
        self.task, self.networks, self.guard, self.watcher, self.record = task, networks, guard, watcher, record
        self.began = time.monotonic()

    def run(
        self,
        start: Mapping[str, LayerSettings] | None,
        resume: StoredJournal | None,
        suggestions: Sequence[Candidate],
    ) -> OptimizationResult:
        task = self.task
        deployment = Deployment(task.card, self.networks.chips, task.batch_size)
        network = self.networks.network(task.batch_size, deployment.chips)
        own = network.configurations
        given = resume.start if resume is not None else start
        search = Search.starting_from(
            network,
            changed_settings(own, given or {}),
            goal=task.goal,
            budget=Budget(task.budget_seconds, task.candidates, started=self.began),
            guard=self.guard or NoGuard(),
            only=task.only,
            freeze=task.freeze,
            random=random.Random(task.seed),
            deployment=deployment,
            networks=self.networks,
        )
        _check_wildcards(task, own)
        first = State(search.best.assignment, deployment, search.best.value)
        if resume is not None:
            self._go_on(search, first, resume)
        resumed = len(search.journal.attempts)
        search.journal.listeners.append(self.watcher.attempted)
        self.watcher.began(task, search, first)
        rounds = Rounds(search, self._steps(search, suggestions), self.watcher)
        end = rounds.run()
        seconds = time.monotonic() - self.began
        path = states(first, search.journal.attempts)
        before, _, _ = verified([first], self.networks, task.goal, None)
        after, verification, pcc = verified(path, self.networks, task.goal, search.guard)
        measured = next((attempt.pcc for attempt in reversed(search.journal.kept) if attempt.pcc), None)
        result = OptimizationResult(
            task=task,
            before=before,
            after=after,
            configurations=self.networks.network(after.deployment.batch_size, after.deployment.chips).configurations,
            journal=search.journal,
            steps=tuple(rounds.reports),
            end=end,
            verification=verification,
            seconds=seconds,
            planned=search.budget.spent,
            pcc=pcc or measured,
            resumed=resumed,
            before_configurations=own,
            parameters=getattr(network, "parameters", None),
        )
        if self.record is not None:
            self.record.add(result)
        return result

    def _steps(self, search: Search, suggestions: Sequence[Candidate]) -> list[OptimizationStep]:
        steps: list[OptimizationStep] = [STEPS[name]() for name in self.task.steps]
        known: Sequence[Candidate] = ()
        if self.record is not None and self.task.candidates is None and not self.task.measured:
            known = recorded_candidates(self.record, self.task, search)
        for name, given in (("record", known), ("suggestions", suggestions)):
            if given:
                steps.insert(0, Suggestions(name, given))
        return steps

    def _go_on(self, search: Search, first: State, resume: StoredJournal) -> None:
        """Where a former run was; what it tried is not tried again."""
        path = states(first, resume.attempts)
        last = path[-1]
        predictor: Any = self.networks.network(last.deployment.batch_size, last.deployment.chips)
        predicted = predictor.predict(last.assignment)
        if isinstance(predicted, Refusal):
            raise ValueError(f"the best of {resume.path} is refused now: {predicted.layer}: {predicted.reason}")
        value = search.value(predicted)
        if abs(value - last.value) > max(self.networks.tolerance, 1e-6) * max(1.0, last.value):
            raise ValueError(
                f"the best of {resume.path} is predicted to take {value:.1f} now, where the journal has "
                f"{last.value:.1f}: another version wrote it. Start again with its config.json or without it."
            )
        search.predictor, search.prediction, search.deployment = predictor, predicted, last.deployment
        search.best = Best(last.assignment, value, predicted.device_ns)
        search.journal.attempts.extend(resume.attempts)
        search.tried.update(_tried(first, resume.attempts))


def _tried(first: State, attempts: Sequence[Attempt]) -> dict[Assignment, Attempt]:
    """What was tried on the last network of a run."""
    tried: dict[Assignment, Attempt] = {}
    state = first
    for attempt in attempts:
        if attempt.deployment is None:
            tried[state.assignment.with_all(attempt.changes)] = attempt
        state = states(state, [attempt])[-1]
        if attempt.deployment is not None and attempt.value is not None and attempt.outcome == "kept":
            tried.clear()
    return tried


def _check_wildcards(task: Task, configurations: Mapping[str, Configuration]) -> None:
    """A wildcard that fits no layer is a slip of the pen."""
    for option, patterns in (("only", task.only), ("freeze", task.freeze)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in configurations):
                some = ", ".join(list(configurations)[:5])
                raise ValueError(f"{option} is {pattern!r}; it fits no layer. Layers are {some}, ...")


__all__ = ["GOALS", "NoGuard", "chosen_steps", "optimize"]
