# SPDX-License-Identifier: Apache-2.0
"""Work for actors that needs no model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def squares(seconds: float = 0.0) -> Iterator[Callable[[list[int]], list[Any]]]:
    """The square of each item, and the process that made it; 13 is more than it can do."""

    def run(items: list[int]) -> list[Any]:
        time.sleep(seconds)
        if 13 in items:
            raise ArithmeticError("13 has no square")
        return [(item * item, os.getpid()) for item in items]

    yield run


@contextmanager
def dying(marks: str, times: int) -> Iterator[Callable[[list[int]], list[int]]]:
    """Squares, by a process that is killed in its first task as long as there are fewer than `times` marks."""

    def run(items: list[int]) -> list[int]:
        if len(os.listdir(marks)) < times:
            open(os.path.join(marks, str(os.getpid())), "w").close()
            os.kill(os.getpid(), 9)
        return [item * item for item in items]

    yield run


@contextmanager
def surroundings() -> Iterator[Callable[[list[str]], list[str | None]]]:
    """What the environment of an actor says, by name; `threads` are torch's."""
    import torch

    yield lambda names: [str(torch.get_num_threads()) if name == "threads" else os.environ.get(name) for name in names]


@contextmanager
def refusing() -> Iterator[Callable[[list[int]], list[int]]]:
    """Cannot be opened."""
    raise OSError("no weights here")
    yield
