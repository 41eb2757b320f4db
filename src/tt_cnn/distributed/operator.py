# SPDX-License-Identifier: Apache-2.0
"""Work on cards as an operator of Ray Data: items through a pool of actors that have a card each.

Ray Data feeds the actors as they get on (back-pressure) and starts dead ones again. What was on an actor or a node
that died is lost, and done again in a further pass: the caller sees every item once.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import pickle
import traceback
import warnings
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
MOST_FUTILE_PASSES = 3
"""Passes without a single item done, before it is called a failure."""
NUMBER, ITEM, OUTCOME = "number", "item", "outcome"

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
        try:
            driver.follow()
            take_a_card()
            import torch

            torch.set_num_threads(work.threads)
            module, _, name = work.opens.partition(":")
            opened = ExitStack()
            self.run: Run = opened.enter_context(getattr(importlib.import_module(module), name)(**work.arguments))
            atexit.register(opened.close)
        except Exception as error:  # told by the first task: a constructor that raises would be called again for ever
            told = isinstance(error, (ValueError, OSError, ImportError))  # a user's mistake: its words are enough
            self.fault = _Fault(f"an actor cannot open its work: {error}") if told else _fault(error)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        if self.fault is not None:
            outcomes: list[Any] = [self.fault] * len(rows[NUMBER])
        else:
            try:
                outcomes = self.run([pickle.loads(each) for each in rows[ITEM]])
            except Exception as error:
                outcomes = [_fault(error)] * len(rows[NUMBER])
        return {NUMBER: rows[NUMBER], OUTCOME: [pickle.dumps(each) for each in outcomes]}


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
    pool = cluster.actors(actors, work.threads)
    left, futile = dict(items), 0
    while left:
        before = len(left)
        for number, outcome in _one_pass(work, left, min(pool, cluster.actors_now(work.threads))):
            if number not in left:
                continue  # done again although it was not lost
            if isinstance(outcome, _Fault):
                raise WorkFailed(outcome.words)
            del left[number]
            yield number, outcome
        futile = futile + 1 if len(left) == before else 0
        if futile == MOST_FUTILE_PASSES:
            raise ActorsLost(
                f"{len(left)} items are left, and actors died {futile} times before they had done one; memory may be "
                "short (ray's logs say so): try fewer --actors"
            )
        if left:
            lost(len(left))


def _one_pass(work: Work, items: Mapping[int, Any], actors: int) -> Iterator[tuple[int, Any]]:
    """Once through the items; those are missing that were on actors that died."""
    data, arrow = (require(name, "running on several cards or machines") for name in ("ray.data", "pyarrow"))
    exceptions = require("ray.exceptions", "running on several cards or machines")
    rows = [(number, pickle.dumps(item)) for number, item in items.items()]
    tables = [
        arrow.table({NUMBER: [number for number, _ in part], ITEM: [item for _, item in part]})
        for part in (rows[start : start + work.task_items] for start in range(0, len(rows), work.task_items))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Ray's of itself; our last two have no other names yet
        _set_up(data.DataContext.get_current())
        done = data.from_arrow(tables).map_batches(
            CardActor,
            fn_constructor_args=(work, Driver.here()),
            batch_size=work.task_items,
            batch_format="numpy",
            compute=data.ActorPoolStrategy(size=min(actors, len(tables))),
            num_cpus=work.threads,
            resources={CARD: 1},
            max_restarts=-1,
            max_task_retries=0,  # a task that waits for a node that never comes back would wait for ever
        )
    try:
        for row in done.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=0):
            for number, outcome in zip(row[NUMBER].tolist(), row[OUTCOME], strict=True):
                yield number, pickle.loads(outcome)
    except exceptions.RayError:
        return


def _set_up(context: Any) -> None:
    context.enable_progress_bars = False
    context.max_errored_blocks = -1  # those of dead actors; the work's own faults come as outcomes
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
