"""Command queues: work in order on each, in parallel between them, ordered by events."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.placement import Place, PlacedStep
from tt_cnn.virtual.plan import Plan

if TYPE_CHECKING:
    from tt_cnn.virtual.hazards import Access, Clock
    from tt_cnn.virtual.storage import Cell

current_queue: ContextVar[int] = ContextVar("tt_cnn_queue", default=0)
"""The queue that calls without a queue of their own go to (`ttnn.command_queue`)."""

Job = Callable[[], None]

SIGNPOST = "signpost"
"""The name of commands that only mark a place between others; listeners are told of them, nothing runs."""


@dataclass
class Command:
    """One call on its buffers: what it does, what it reads and writes, and the steps the card would dispatch."""

    name: str
    queue: int
    run: Job
    accesses: Sequence[Access] = ()
    reads: Sequence[Cell] = ()
    writes: Sequence[Cell] = ()
    """Where `run` finds its values, and where it leaves them: what a compiled replay is made from."""
    layer: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    steps: list[PlacedStep] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)
    """The memory of the plan's buffers, by their numbers."""
    trace_id: int | None = None
    cached: bool = True
    """Every program of this call was in the program cache."""

    def __str__(self) -> str:
        where = f" of {self.layer!r}" if self.layer else ""
        return f"{self.name}{where} on queue {self.queue}"


Timer = Callable[[Command, Any, Any], None]
"""Told of each command that ran, on its queue's worker, with stamps of its engine from before and after it."""


def timed(command: Command, engine: Engine, timers: Sequence[Timer]) -> Job:
    """The command's run, with its times told to all who asked."""

    def job() -> None:
        start = engine.stamp()
        command.run()
        stop = engine.stamp()
        for timer in timers:
            timer(command, start, stop)

    return job


class Latch:
    """Opens once, for all who wait. Lighter than `threading.Event`, since every event and read makes one."""

    __slots__ = ("_lock", "opened")

    def __init__(self) -> None:
        self.opened = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        self.opened = True
        self._lock.release()

    def wait(self) -> None:
        if not self.opened:
            with self._lock:  # each who waits passes it on
                pass


class Event:
    """A mark in a queue: reached when all that was enqueued before it is done."""

    def __init__(self, queue_id: int, clock: Clock) -> None:
        self.queue_id = queue_id
        self.clock = clock
        self.reached = Latch()
        self.mark: Any = None
        """The engine's own mark, where it has a stream behind the worker."""


class Queue:
    """Runs jobs in order: on a worker thread, or on the caller's thread where the caller waits and nothing is pending.

    The worker starts with the first job that needs it. An engine with streams needs none: its jobs only launch work.
    """

    def __init__(self, index: int, engine: Engine) -> None:
        self.index = index
        self.engine = engine
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._books = threading.Lock()
        self._running = threading.Lock()
        self._submitted = 0
        self._finished = 0
        self._closed = False

    @property
    def pending(self) -> int:
        """Jobs that are not done."""
        return self._submitted - self._finished

    def submit(self, job: Job) -> None:
        with self._books:
            if self._closed:
                raise RuntimeError(f"command queue {self.index} is closed")
            if self.engine.streams:
                self._submitted += 1
                with self.engine.scope(self.index):
                    self._run(job)
                return
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=f"tt-cnn-queue-{self.index}", daemon=True)
                self._worker.start()
            self._submitted += 1
            self._jobs.put(job)

    def submit_and_wait(self, job: Job) -> None:
        """Run a job and all before it; raise what a job raised."""
        with self._books:
            inline = not self.engine.streams and not self._closed and self._submitted == self._finished
            if inline:
                self._submitted += 1
                self._running.acquire()
        if inline:
            try:
                with self.engine.scope(self.index):
                    self._run(job)
            finally:
                self._running.release()
            self.raise_failure()
        else:
            self.submit(job)
            self.finish()

    def _work(self) -> None:
        with self.engine.scope(self.index):
            while (job := self._jobs.get()) is not None:
                with self._running:
                    self._run(job)
                del job  # an idle queue holds no command, and so no data

    def _run(self, job: Job) -> None:
        try:
            job()
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            self._finished += 1

    def record(self, event: Event) -> None:
        if self.engine.streams:
            event.mark = self.engine.mark(self.index)
        elif self.pending:
            self.submit(event.reached.open)
            return
        event.reached.open()

    def wait_for(self, event: Event) -> None:
        if self.engine.streams:
            self.engine.after(event.mark, self.index)
        elif not event.reached.opened:
            self.submit(event.reached.wait)

    def finish(self) -> None:
        """Wait until all that was submitted is done; raise what a job raised."""
        if self.engine.streams:
            self.engine.finish(self.engine.mark(self.index))
        elif self.pending:
            done = Latch()
            self.submit(done.open)
            done.wait()
        self.raise_failure()

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Let the worker do what is pending, then end it."""
        with self._books:
            self._closed = True
            worker, self._worker = self._worker, None
            if worker is not None:
                self._jobs.put(None)
            elif self.engine.streams and self._submitted:
                self.engine.finish(self.engine.mark(self.index))
        if worker is not None and worker is not threading.current_thread():
            worker.join()
