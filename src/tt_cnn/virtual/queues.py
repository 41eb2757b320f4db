"""Command queues: work in order on each, in parallel between them, ordered by events."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.placement import PlacedStep
from tt_cnn.virtual.plan import Plan

if TYPE_CHECKING:
    from tt_cnn.virtual.hazards import Access

current_queue: ContextVar[int] = ContextVar("tt_cnn_queue", default=0)
"""The queue that calls without a queue of their own go to (`ttnn.command_queue`)."""


@dataclass
class Command:
    """One call on its buffers: what it does, what it reads and writes, and the steps the card would dispatch."""

    name: str
    queue: int
    run: Callable[[], None]
    accesses: list[Access] = field(default_factory=list)
    layer: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    steps: list[PlacedStep] = field(default_factory=list)
    trace_id: int | None = None
    cached: bool = True
    """Every program of this call was in the program cache."""

    def __str__(self) -> str:
        where = f" of {self.layer!r}" if self.layer else ""
        return f"{self.name}{where} on queue {self.queue}"


class Event:
    """A mark in a queue: reached when all that was enqueued before it is done."""

    def __init__(self, queue_id: int, clock: dict[int, int]) -> None:
        self.queue_id = queue_id
        self.clock = clock
        self.reached = threading.Event()
        self.mark: Any = None


class Queue:
    """A worker that runs jobs in order. The worker starts with the first job and is idle-cheap."""

    def __init__(self, index: int, engine: Engine) -> None:
        self.index = index
        self.engine = engine
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._failure: BaseException | None = None

    def submit(self, job: Callable[[], None]) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name=f"tt-cnn-queue-{self.index}", daemon=True)
            self._worker.start()
        self._jobs.put(job)

    def _work(self) -> None:
        with self.engine.scope(self.index):
            while (job := self._jobs.get()) is not None:
                try:
                    job()
                except BaseException as error:
                    self._failure = self._failure or error
                del job  # an idle queue holds no command, and so no data

    def record(self, event: Event) -> None:
        def reach() -> None:
            event.mark = self.engine.mark()
            event.reached.set()

        self.submit(reach)

    def wait_for(self, event: Event) -> None:
        def wait() -> None:
            event.reached.wait()
            self.engine.after(event.mark)

        self.submit(wait)

    def finish(self) -> None:
        """Wait until the queue is empty; raise what a job raised."""
        if self._worker is not None:
            done = threading.Event()

            def reach() -> None:
                self.engine.finish(self.engine.mark())
                done.set()

            self.submit(reach)
            done.wait()
        self.raise_failure()

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        if self._worker is not None:
            self._jobs.put(None)
            self._worker.join()
            self._worker = None
