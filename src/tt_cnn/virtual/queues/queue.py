# SPDX-License-Identifier: Apache-2.0
"""Command queues: work in order on each, in parallel between them, ordered by events."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.interrupts import uninterrupted
from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.errors.failures import Failure
from tt_cnn.virtual.hazards.hazards import Access, Clock
from tt_cnn.virtual.planning.happenings import Happening, happenings
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.tensors.storage import Cell, HostStorage
from tt_cnn.virtual.threads.forks import LostLock, belongs_to_this_process
from tt_cnn.virtual.threads.latch import OPENED, Latch

current_queue: ContextVar[int] = ContextVar("tt_cnn_queue", default=0)
"""The queue that calls without a queue of their own go to (`ttnn.command_queue`)."""

Job = Callable[[], None]

SIGNPOST = "signpost"
"""The name of commands that only mark a place between others; listeners get them, nothing runs."""


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
    fills: HostStorage | None = None
    """The host tensor of a read."""
    done: Latch | None = None
    """Opened when it has run, whatever came of it."""
    layer: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    steps: list[PlacedStep] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)
    """The memory of the plan's buffers, by their numbers."""
    trace_id: int | None = None
    cached: bool = True
    """Every program of this call was in the program cache."""

    def happenings(self) -> Iterator[Happening]:
        """What it does to the card's memory and cores, in order; nothing where it has no plan."""
        return iter(()) if self.plan is None else happenings(self.plan, self.steps, self.places)

    def execute(self) -> None:
        """Run it. Where it fails, all that it should have written holds the failure, which is raised."""
        try:
            self.run()
        except Failure as failure:  # of a command before it
            self._fail(failure)
            raise
        except BaseException as error:
            own = Failure(self, error)
            self._fail(own)
            raise own from error
        finally:
            if self.done is not None:
                self.done.open()

    def _fail(self, failure: Failure) -> None:
        for cell in self.writes:
            cell.values = failure
        if self.fills is not None:
            self.fills.values = failure

    def __str__(self) -> str:
        return title(self.name, self.layer, self.queue)


def title(name: str, layer: str, queue: int) -> str:
    """A command in words."""
    return f"{name}{f' of {layer!r}' if layer else ''} on queue {queue}"


Timer = Callable[[Command, Any, Any], None]
"""Told of each command that ran, on its queue's worker, with stamps of its engine from before and after it."""


def timed(command: Command, engine: Engine, timers: Sequence[Timer]) -> Job:
    """The command's run, with its times reported to all who asked."""

    def job() -> None:
        start = engine.stamp()
        command.execute()
        stop = engine.stamp()
        for timer in timers:
            timer(command, start, stop)

    return job


class Event:
    """A mark in a queue: reached when all that was enqueued before it is done."""

    def __init__(self, queue_id: int, clock: Clock, reached: Latch | None = None) -> None:
        self.queue_id = queue_id
        self.clock = clock
        self.reached = Latch() if reached is None else reached
        self.mark: Any = None
        """The engine's own mark, where it has a stream behind the worker."""


class Queue:
    """Runs jobs in order: on a worker thread, or on the caller's thread where the caller waits and nothing is pending.

    The worker starts with the first job that needs it. An engine with streams needs none: its jobs only launch work.
    """

    REMEMBERED = 64
    """Failures that were not seen yet."""

    def __init__(self, index: int, engine: Engine) -> None:
        self.index = index
        self.engine = engine
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._failures: list[Failure] = []
        self._books: threading.Lock | LostLock = threading.Lock()
        self._running: threading.Lock | LostLock = threading.Lock()
        self._submitted = 0
        self._finished = 0
        self._closed = False
        belongs_to_this_process(self)

    def left_to_parent(self) -> None:
        self._books = self._running = LostLock()
        self._worker = None
        self._failures = []

    @property
    def pending(self) -> int:
        """Jobs that are not done."""
        return self._submitted - self._finished

    def submit(self, job: Job) -> None:
        """Not to be interrupted: a card's books are open when it is called."""
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

    def launch(self, job: Job) -> None:
        """What `submit` does on an engine with streams, for who has entered the scope of this queue."""
        with self._books:
            if self._closed:
                raise RuntimeError(f"command queue {self.index} is closed")
            self._submitted += 1
            self._run(job)

    def submit_and_wait(self, job: Job, short: bool = True) -> None:
        """Run a job and all before it; raise what this job raised.

        One that is `short` runs on the caller's thread where it can, and is not interrupted. Waiting for others is.
        """
        watched = _Watched(job)
        if not (short and self._run_here(watched)):
            with uninterrupted:
                self.submit(watched)
            self.finish()
        if watched.failure is not None:
            watched.failure.reveal()

    def _run_here(self, job: Job) -> bool:
        """On the caller's thread, where nothing is pending."""
        if self.engine.streams:
            return False
        with uninterrupted:
            with self._books:
                if self._closed or self._submitted != self._finished:
                    return False
                self._submitted += 1
                self._running.acquire()
            try:
                with self.engine.scope(self.index):
                    self._run(job)
            finally:
                self._running.release()
        return True

    def _work(self) -> None:
        with self.engine.scope(self.index):
            while (job := self._jobs.get()) is not None:
                with self._running:
                    self._run(job)
                del job  # an idle queue holds no command, and so no data

    def _run(self, job: Job) -> None:
        try:
            job()
        except Failure as failure:
            self._remember(failure)
        except BaseException as error:
            self._remember(Failure(f"a job of queue {self.index}", error))
        finally:
            self._finished += 1

    def _remember(self, failure: Failure) -> None:
        """Until it was seen. What follows from it fails with it again, so it comes more than once."""
        unseen = [one for one in self._failures if not one.seen]
        if not failure.seen and failure not in unseen and len(unseen) < self.REMEMBERED:
            unseen.append(failure)
        self._failures = unseen

    def record(self, clock: Clock) -> Event:
        """A mark after what was submitted, which the clock counts."""
        if self.engine.streams:
            event = Event(self.index, clock, OPENED)
            event.mark = self.engine.mark(self.index)
            return event
        event = Event(self.index, clock)
        if self.pending:
            self.submit(event.reached.open)
        else:
            event.reached.open()
        return event

    def wait_for(self, event: Event) -> None:
        if self.engine.streams:
            self.engine.after(event.mark, self.index)
        elif not event.reached.opened:
            self.submit(event.reached.wait)

    def finish(self) -> None:
        """Wait until all that was submitted is done."""
        if self.engine.streams:
            self.engine.finish(self.engine.mark(self.index))
        elif self.pending:
            done = Latch()
            with uninterrupted:
                self.submit(done.open)
            done.wait()

    def raise_unseen(self) -> None:
        """The first failure that no reader has met: otherwise nobody would know of it."""
        unseen, self._failures = [one for one in self._failures if not one.seen], []
        if unseen:
            self._failures = unseen[1:]
            unseen[0].reveal()

    def close(self) -> None:
        """Let the worker do what is pending, then end it."""
        if isinstance(self._books, LostLock):
            return
        with uninterrupted, self._books:
            self._closed = True
            worker, self._worker = self._worker, None
            if worker is not None:
                self._jobs.put(None)
            elif self.engine.streams and self._submitted:
                self.engine.finish(self.engine.mark(self.index))
        if worker is not None and worker is not threading.current_thread():
            worker.join()


class InlineQueue(Queue):
    """Runs every job at once on the caller's thread: for commands that compute nothing, a worker only costs time."""

    def submit(self, job: Job) -> None:
        with self._books:
            if self._closed:
                raise RuntimeError(f"command queue {self.index} is closed")
            self._submitted += 1
        self._run(job)


class _Watched:
    """A job whose failure the one who waits for it wants to know."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.failure: Failure | None = None

    def __call__(self) -> None:
        try:
            self._job()
        except Failure as failure:
            self.failure = failure
            raise
        except BaseException as error:
            self.failure = Failure("a job", error)
            raise self.failure from error
