# SPDX-License-Identifier: Apache-2.0
"""A model in a thread of its own: requests wait, are put together in batches, and go through its pipeline.

All calls of the card are made by that thread. A fault in a run fails the requests of that run alone; the card is then
opened again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import torch

from tt_cnn.serving.figures import Figures
from tt_cnn.serving.served import CannotUpdate, NotServed, Outputs, Signature, State


class Runs(Protocol):
    """What a served model runs: a RunningModel, here or in another process."""

    @property
    def images_per_run(self) -> int: ...

    @property
    def output_names(self) -> tuple[str, ...]: ...

    def run(self, images: Sequence[torch.Tensor]) -> list[Outputs]:
        """The outputs for each image (a batch of one)."""


Opens = Callable[[], AbstractContextManager[Runs]]


@dataclass
class _Waiting:
    images: torch.Tensor
    answer: Future[Outputs] = field(default_factory=Future)


class ServedModel:
    """`open_model` gives the model behind its pipeline, closed at the end; it is called in the model's thread."""

    def __init__(
        self,
        name: str,
        open_model: Opens,
        example: torch.Tensor,
        figures: Figures,
        most_waiting: int,
        wait: float = 0.002,
    ) -> None:
        """`example` is one image, as a batch, to warm up with. `most_waiting` images may wait; a batch that is not full
        waits `wait` seconds for others."""
        self.name = name
        self.state: State = "loading"
        self.reason = "it is being loaded"
        self.signature: Signature | None = None
        self._open, self._example, self._figures = open_model, example, figures
        self._most_waiting, self._wait = most_waiting, wait
        self._queue: deque[_Waiting] = deque()
        self._images = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name=f"serve {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Refuse what comes from now on, answer what waits, close the card."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def update(self) -> None:
        raise CannotUpdate(
            f"{self.name} has one card, which it cannot leave to a new model while it answers; start the server again, "
            "or serve with --ray and --replicas, where requests go on meanwhile"
        )

    def wait_until_loaded(self) -> None:
        """Until it is ready, or will not be any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.state != "loading")

    def submit(self, images: torch.Tensor) -> Future[Outputs]:
        """The outputs of these images, once they went through."""
        with self._changed:
            if self._stopping:
                raise NotServed(f"{self.name} is being shut down", 503)
            if self.state != "ready":
                raise NotServed(f"{self.name} is not ready: {self.reason}", 503)
            if self._images + len(images) > self._most_waiting and self._images:
                raise NotServed(f"{self._images} images wait for {self.name}; at most {self._most_waiting} may", 429)
            waiting = _Waiting(images)
            self._queue.append(waiting)
            self._count(len(images))
            self._changed.notify_all()
            return waiting.answer

    def _count(self, images: int) -> None:
        self._images += images
        self._figures.waiting.labels(self.name).set(self._images)

    # -- the model's thread

    def _serve(self) -> None:
        try:
            while not self._run_until_a_fault():
                pass
        except Exception as error:  # whatever opening a card or making a model raises
            self._become("failed", f"{type(error).__name__}: {error}")
        finally:
            if self.state != "failed":
                self._become("stopped", "it was shut down")
            self._refuse_all()

    def _run_until_a_fault(self) -> bool:
        """True where the model was stopped."""
        with self._open() as running:
            self.signature = self._warm_up(running)
            self._become("ready", "")
            while batch := self._next_batch(running.images_per_run):
                if not self._answer(running, batch):
                    self._become("loading", "a run failed, and its card is opened again")
                    return False
        return True

    def _warm_up(self, running: Runs) -> Signature:
        (found,) = running.run([self._example])
        shape = tuple(self._example.shape)
        name = "images" if len(shape) == 4 and shape[1] == 3 else "input"
        return Signature(name, shape, {n: tuple(x.shape) for n, x in zip(running.output_names, found, strict=True)})

    def _next_batch(self, size: int) -> list[_Waiting]:
        """Requests with at most `size` images together, or one with more; none where the model was stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            if not self._stopping and self._images < size:
                self._changed.wait_for(lambda: self._images >= size or self._stopping, self._wait)
            taken: list[_Waiting] = []
            images = 0
            while self._queue and (not taken or images + len(self._queue[0].images) <= size):
                taken.append(self._queue.popleft())
                images += len(taken[-1].images)
            self._count(-images)
            return taken

    def _answer(self, running: Runs, batch: list[_Waiting]) -> bool:
        taken = [each for each in batch if each.answer.set_running_or_notify_cancel()]
        images = [image for each in taken for image in each.images.split(1)]
        if not images:
            return True
        began = time.perf_counter()
        try:
            found = running.run(images)
        except Exception as error:  # of the card or the model: those who wait for it get it
            for each in taken:
                each.answer.set_exception(error)
            return False
        self._figures.run_seconds.labels(self.name).observe(time.perf_counter() - began)
        self._figures.batches.labels(self.name).observe(len(images))
        self._figures.images.labels(self.name).inc(len(images))
        for each in taken:
            own, found = found[: len(each.images)], found[len(each.images) :]
            each.answer.set_result(tuple(torch.cat(parts) for parts in zip(*own, strict=True)))
        return True

    def _become(self, state: State, reason: str) -> None:
        with self._changed:
            self.state, self.reason = state, reason
            self._changed.notify_all()

    def _refuse_all(self) -> None:
        with self._changed:
            while self._queue:
                waiting = self._queue.popleft()
                self._count(-len(waiting.images))
                if waiting.answer.set_running_or_notify_cancel():
                    waiting.answer.set_exception(NotServed(f"{self.name} is not ready: {self.reason}", 503))
