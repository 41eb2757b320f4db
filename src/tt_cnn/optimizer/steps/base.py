# SPDX-License-Identifier: Apache-2.0
"""What a step of the search is, and the register of all steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from tt_cnn.optimizer.search import Search


class OptimizationStep(ABC):
    """One kind of change. It proposes candidates to the search, which predicts, judges and writes down each."""

    name: ClassVar[str]
    """As `--steps` takes it."""
    may_change: ClassVar[str]
    """In words, for the report: settings, or what else."""

    when: ClassVar[Literal["first", "rounds", "last"]] = "rounds"
    """Once before all others, again and again while something gets better, or once at the end, outside the budget."""

    @abstractmethod
    def run(self, search: Search) -> None:
        """Better `search.best`. `BudgetSpent` of the search ends it: let it pass."""


STEPS: dict[str, type[OptimizationStep]] = {}
"""By name, in the order in which they run."""


def register_step(step: type[OptimizationStep]) -> type[OptimizationStep]:
    """Make a step known by its name; a decorator."""
    if step.name in STEPS:
        raise ValueError(f"there is a step {step.name!r} already")
    STEPS[step.name] = step
    return step
