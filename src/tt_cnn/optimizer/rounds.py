# SPDX-License-Identifier: Apache-2.0
"""The steps of a search in rounds, until nothing gets better or the budget is spent."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from tt_cnn.optimizer.journal import Attempt, State
from tt_cnn.optimizer.result import End, StepReport, Task
from tt_cnn.optimizer.search import BudgetSpent, Search
from tt_cnn.optimizer.steps.base import OptimizationStep

ROUND_SHARE = 0.5
"""Of what is left of the budget that a round may use, while enough is left for another."""
LEAST_LEFT = {"seconds": 5.0, "candidates": 50.0}
"""With less a round gets all."""


class Watcher:
    """Sees a search go on. All methods may be left out."""

    def began(self, task: Task, search: Search, start: State) -> None:
        """The start is known; the search is there, or further where it was resumed."""

    def step_began(self, name: str, round_: int) -> None:
        """A step starts to propose."""

    def attempted(self, attempt: Attempt) -> None:
        """Written to the journal."""

    def step_ended(self, report: StepReport) -> None:
        """It proposed all, or its share is spent, or it failed."""


class Watchers(Watcher):
    """Several in one."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def began(self, task: Task, search: Search, start: State) -> None:
        for watcher in self._watchers:
            watcher.began(task, search, start)

    def step_began(self, name: str, round_: int) -> None:
        for watcher in self._watchers:
            watcher.step_began(name, round_)

    def attempted(self, attempt: Attempt) -> None:
        for watcher in self._watchers:
            watcher.attempted(attempt)

    def step_ended(self, report: StepReport) -> None:
        for watcher in self._watchers:
            watcher.step_ended(report)


@dataclass
class Rounds:
    """A search's steps, run one after the other; each gets a fair share of what is left."""

    search: Search
    steps: Sequence[OptimizationStep]
    watcher: Watcher = field(default_factory=Watcher)
    reports: list[StepReport] = field(default_factory=list)
    faulty: set[str] = field(default_factory=set)
    number: int = 0

    def run(self) -> End:
        """All steps. Ctrl-C ends it; the best so far stays."""
        try:
            end = self._run()
            for step in self._of("last"):
                self.search.budget.share(inf)
                self._run_step(step)
        except KeyboardInterrupt:
            return "interrupted"
        return end

    def _run(self) -> End:
        budget = self.search.budget
        first, rounds = self._of("first"), self._of("rounds")
        for place, step in enumerate(first):
            budget.share(ROUND_SHARE / (len(first) - place) if rounds else 1.0)
            self._run_step(step)
        while not budget.is_spent:
            self.number += 1
            active = [step for step in rounds if step.name not in self.faulty]
            if not active or not self._round(active):
                break
        self.number += 1
        return "budget spent" if budget.is_spent else "converged"

    def _round(self, active: Sequence[OptimizationStep]) -> bool:
        """Each step once. Whether another round may bring something."""
        budget, before = self.search.budget, self.search.best
        left = budget.limit - budget.used
        least = LEAST_LEFT["candidates" if budget.candidates is not None else "seconds"]
        end = budget.used + (left * ROUND_SHARE if left > least and len(active) > 1 else left)
        cut_off = False
        for place, step in enumerate(active):
            if budget.is_spent:
                return True
            rest = budget.limit - budget.used
            budget.share(max(0.0, end - budget.used) / (len(active) - place) / rest if rest < inf else inf)
            cut_off |= self._run_step(step).cut_off
        return cut_off or self.search.best is not before

    def _of(self, when: str) -> list[OptimizationStep]:
        return [step for step in self.steps if step.when == when]

    def _run_step(self, step: OptimizationStep) -> StepReport:
        search = self.search
        self.watcher.step_began(step.name, self.number)
        attempts, kept, value = len(search.journal.attempts), len(search.journal.kept), search.best.value
        started, cut_off, error = time.monotonic(), False, ""
        search.repeats = 0
        try:
            step.run(search)
        except BudgetSpent:
            cut_off = search.repeats == 0  # else it proposed what had been tried, again and again
        except Exception:
            error = traceback.format_exc()
            self.faulty.add(step.name)
        report = StepReport(
            name=step.name,
            round=self.number,
            attempts=len(search.journal.attempts) - attempts,
            kept=len(search.journal.kept) - kept,
            gained=value - search.best.value,
            seconds=time.monotonic() - started,
            cut_off=cut_off,
            error=error,
        )
        self.reports.append(report)
        self.watcher.step_ended(report)
        return report
