# SPDX-License-Identifier: Apache-2.0
"""Items through a pool of Ray's actors that have a card each.

An actor has two tasks at a time, so that it need not wait for the driver and nothing is kept that is not asked for yet.
One that dies, with its node or alone, is replaced where a card is free, and what it had is done again: the caller
sees every item once. Ray Data's own pool of actors is not used: under kills it kept cards of actors that were gone, or
waited for ever.
"""

from __future__ import annotations

import importlib
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.distributed.cards import take_a_card
from tt_cnn.distributed.cluster import CARD, Cluster
from tt_cnn.distributed.driver import Driver
from tt_cnn.distributed.extra import require

TASK_ITEMS = 8
"""What Ray adds is per task."""
AT_ONCE = 2
"""Tasks of an actor: one that it does, and one that waits for it."""
MOST_DEATHS = 3
"""Of each actor of the pool without a single item done, before it is called a failure."""
END_SECONDS = 10.0
"""For actors to close their cards; then they are killed."""
PURPOSE = "running on several cards or machines"

Run = Callable[[list[Any]], list[Any]]
"""Items in, an outcome for each."""


@dataclass(frozen=True)
class Work:
    """What actors do, in values that can be sent to them."""

    opens: str
    """`module:function`, imported on the actor: a context manager that gives a `Run`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 1
    """Images of a run of the model."""
    threads: int = 1
    """Of each actor's computations."""

    least: int = TASK_ITEMS
    """So many items go to an actor together, or more."""

    @property
    def task_items(self) -> int:
        """Whole batches."""
        return -(-self.least // self.batch) * self.batch


class WorkFailed(RuntimeError):
    """The work itself raised on an actor: doing it again would not help."""


class ActorsLost(RuntimeError):
    """Actors died before they had done anything, again and again."""


@dataclass(frozen=True)
class _Fault:
    words: str


class CardActor:
    """A process with a card: opens its work once, then does tasks until it is ended."""

    def __init__(self, work: Work, driver: Driver) -> None:
        self.fault: _Fault | None = None
        self.opened = ExitStack()
        try:
            driver.follow()
            take_a_card()
            import torch

            torch.set_num_threads(work.threads)
            module, _, name = work.opens.partition(":")
            self.run: Run = self.opened.enter_context(getattr(importlib.import_module(module), name)(**work.arguments))
        except Exception as error:  # told by the first task: a constructor that raises looks like an actor that died
            told = isinstance(error, (ValueError, OSError, ImportError))  # a user's mistake: its words are enough
            self.fault = _Fault(f"an actor cannot open its work: {error}") if told else _fault(error)

    def ready(self) -> list[Any]:
        """What no items come to."""
        return []

    def do(self, items: list[Any]) -> list[Any]:
        if self.fault is not None:
            return [self.fault] * len(items)
        try:
            return self.run(items)
        except Exception as error:
            return [_fault(error)] * len(items)

    def close(self) -> None:
        self.opened.close()


def _fault(error: Exception) -> _Fault:
    return _Fault(f"{type(error).__name__}: {error}\non an actor:\n{traceback.format_exc()}")


def map_on_cards(
    cluster: Cluster,
    work: Work,
    items: Mapping[int, Any],
    *,
    actors: int | None = None,
    lost: Callable[[int], None] = lambda items: None,
) -> Iterator[tuple[int, Any]]:
    """(number, outcome) of every item, each once, in the order in which they come.

    `lost` is told how many items were on actors that died, before these are done again.
    """
    size = cluster.actors(actors, work.threads)
    rows = list(items.items())
    tasks = [rows[start : start + work.task_items] for start in range(0, len(rows), work.task_items)]
    pool = _Pool(work, min(size, len(tasks)), tasks, lost)
    try:
        while pool.left:
            for number, outcome in pool.next_outcomes():
                if isinstance(outcome, _Fault):
                    raise WorkFailed(outcome.words)
                yield number, outcome
    finally:
        pool.end()


Task = list[tuple[int, Any]]


class _Pool:
    """Actors, and which tasks each of them has."""

    def __init__(self, work: Work, size: int, tasks: list[Task], lost: Callable[[int], None]) -> None:
        self._ray = require("ray", PURPOSE)
        self._errors = require("ray.exceptions", PURPOSE)
        options = {"num_cpus": work.threads, "resources": {CARD: 1}, "max_restarts": 0, "max_task_retries": 0}
        self._actor_class = self._ray.remote(CardActor).options(**options)
        self._work, self._lost, self._waiting = work, lost, deque(tasks)
        self._given: dict[Any, tuple[Any, Task]] = {}
        """By Ray's reference to what comes back: who does it, and the task."""
        self._most_deaths, self._deaths = MOST_DEATHS * size, 0
        self._ready: list[Any] = []
        self._actors = [self._started() for _ in range(size)]

    @property
    def left(self) -> int:
        """Items that are not done yet."""
        return sum(map(len, self._waiting)) + sum(len(task) for _, task in self._given.values())

    def next_outcomes(self) -> Iterator[tuple[int, Any]]:
        """Of the next task that is done; none where an actor turned out to be ready, or dead."""
        (reference,), _ = self._ray.wait(list(self._given), num_returns=1)
        actor, task = self._given[reference]
        try:
            outcomes = self._ray.get(reference)
        except self._errors.RayActorError as error:
            self._replace(actor, str(error))
            return
        del self._given[reference]
        if task:
            self._deaths = 0
        else:
            self._ready.append(actor)
        self._feed(actor)
        yield from zip((number for number, _ in task), outcomes, strict=True)

    def end(self) -> None:
        busy = {id(actor) for actor, _ in self._given.values()}
        closed = [actor.close.remote() for actor in self._actors if id(actor) not in busy]
        if closed:
            self._ray.wait(closed, num_returns=len(closed), timeout=END_SECONDS)
        for actor in self._actors:
            self._ray.kill(actor)

    def _started(self) -> Any:
        """It gets tasks once it is ready, however long it has to wait for a card."""
        actor = self._actor_class.remote(self._work, Driver.here())
        self._given[actor.ready.remote()] = actor, []
        return actor

    def _feed(self, actor: Any) -> None:
        has = sum(each is actor for each, _ in self._given.values())
        while has < AT_ONCE and self._waiting:
            task = self._waiting.popleft()
            self._given[actor.do.remote([item for _, item in task])] = actor, task
            has += 1

    def _replace(self, actor: Any, why: str) -> None:
        had = [reference for reference, (each, _) in self._given.items() if each is actor]
        tasks = [self._given.pop(reference)[1] for reference in had]
        self._waiting.extendleft(task for task in reversed(tasks) if task)
        self._actors.remove(actor)
        if actor in self._ready:
            self._ready.remove(actor)
        self._deaths += 1
        if self._deaths == self._most_deaths:
            raise ActorsLost(
                f"{self.left} items are left, and actors died {self._deaths} times before they had done one; memory "
                f"may be short: try fewer --actors. The last one: {why}"
            )
        if any(tasks):
            self._lost(sum(map(len, tasks)))
        self._actors.append(self._started())
        for other in self._ready:  # some may have had nothing left to do
            self._feed(other)
