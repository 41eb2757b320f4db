# SPDX-License-Identifier: Apache-2.0
"""A search while it runs: the best so far, attempts, candidates per second, and how much of the budget is left."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tt_cnn.optimizer.result import said_value
from tt_cnn.optimizer.rounds import Watcher

if TYPE_CHECKING:
    from tt_cnn.optimizer.journal import Attempt, State
    from tt_cnn.optimizer.result import Task
    from tt_cnn.optimizer.search import Search

_KEPT_SHOWN = 6


class Display(Watcher):
    """On a terminal a few lines that change; elsewhere one line for each change that was kept."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._held = ExitStack()
        self._live: Live | None = None
        self._search: Search | None = None
        self._task: Task | None = None
        self._start = 0.0
        self._step = ""
        self._kept: deque[str] = deque(maxlen=_KEPT_SHOWN)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()
        self._live = None

    def began(self, task: Task, search: Search, start: State) -> None:
        self._task, self._search, self._start = task, search, start.value
        if self.console.is_terminal:
            live = Live(get_renderable=self._render, console=self.console, transient=True, refresh_per_second=4)
            self._live = self._held.enter_context(live)
        else:
            self._say(f"start: {said_value(task.goal, start.value)}")

    def step_began(self, name: str, round_: int) -> None:
        self._step = f"{name}, round {round_}" if round_ else name

    def attempted(self, attempt: Attempt) -> None:
        if attempt.outcome != "kept" or self._task is None:
            return
        now = f"{said_value(self._task.goal, attempt.value)}, " if attempt.value is not None else ""
        line = f"{attempt.seconds:6.1f} s  {now}{attempt.step}: {attempt.words}"
        self._kept.append(line)
        if self._live is None:
            self._say(line)

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        if self._search is None or self._task is None:
            return Text("")
        budget, attempts = self._search.budget, self._search.journal.attempts
        best = self._search.best.value
        rate = budget.spent / budget.elapsed if budget.elapsed else 0.0
        goal = self._task.goal
        head = Text(f"best {said_value(goal, best)}, from {said_value(goal, self._start)}", style="bold")
        head.append(f" ({self._start / best:.2f} times)" if best else "")
        kept = len(self._search.journal.kept)
        counts = Text(f"{self._step}: {len(attempts)} attempts, {kept} kept, {rate:.0f} candidates per second")
        bar = Table.grid(padding=(0, 1))
        unit = "candidates" if budget.candidates is not None else "s"
        if budget.limit < float("inf"):
            share = ProgressBar(total=max(budget.limit, 1e-9), completed=min(budget.used, budget.limit), width=40)
            bar.add_row(share, Text(f"{budget.used:.0f} of {budget.limit:.0f} {unit}; Ctrl-C keeps the best"))
        lines = [Text(line, overflow="fold", style="dim") for line in self._kept]
        return Group(head, counts, bar, *lines)
