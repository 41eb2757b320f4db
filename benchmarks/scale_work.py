# SPDX-License-Identifier: Apache-2.0
"""The work of `benchmarks/scale.py`: tasks that say when they began and ended, on actors and without Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Task:
    process: int
    began: float
    ended: float
    images: int


@contextmanager
def predicting(arguments: dict[str, Any]) -> Iterator[Callable[[list[Any]], list[Task]]]:
    """What `tt-cnn run --ray` does: images are read, predicted and made into rows."""
    from tt_cnn.distributed.predicting import opened

    with opened(**arguments) as run:
        yield lambda items: timed(run, items)


@contextmanager
def nothing() -> Iterator[Callable[[list[Any]], list[Task]]]:
    yield lambda items: timed(len, items)


def timed(run: Callable[[list[Any]], Any], items: list[Any]) -> list[Task]:
    """The same task for each of its items: an operator gives one outcome for each."""
    began = time.time()
    run(items)
    return [Task(os.getpid(), began, time.time(), len(items))] * len(items)


@dataclass(frozen=True)
class Rate:
    images_per_second: float
    seconds_between_tasks: float
    """Of an actor, from the end of one to the beginning of the next."""
    tasks_per_second: float


def rate_of(tasks: set[Task]) -> Rate:
    """While all processes work: from the end of the last one's first task to the end of the first one's last."""
    by_process: dict[int, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: task.began):
        by_process.setdefault(task.process, []).append(task)
    start = max(own[0].ended for own in by_process.values())
    stop = min(own[-1].ended for own in by_process.values())
    if not start < stop:
        raise ValueError("the processes did not work at the same time; give more --images")
    shares = {task: _overlap(task, start, stop) for task in tasks}
    pauses = [
        after.began - before.ended
        for own in by_process.values()
        for before, after in pairwise(own)
        if start < after.ended <= stop
    ]
    images = sum(share * task.images for task, share in shares.items())
    return Rate(images / (stop - start), sum(pauses) / len(pauses), sum(shares.values()) / (stop - start))


def _overlap(task: Task, start: float, stop: float) -> float:
    """The part of a task that lies in the window."""
    if task.ended == task.began:
        return float(start < task.ended <= stop)
    return max(0.0, min(task.ended, stop) - max(task.began, start)) / (task.ended - task.began)
