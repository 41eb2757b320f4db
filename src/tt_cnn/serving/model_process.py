# SPDX-License-Identifier: Apache-2.0
"""A model in a process of its own, since a process opens a card once.

Images go to the process and outputs come back as arrays in a pipe. A fault in there is reported here; the process ends
with its context, and where this one is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from tt_cnn.serving.opening import Opening
from tt_cnn.serving.served import Outputs

END_SECONDS = 30
"""For a process to close its card; then it is killed."""
Array = np.ndarray[Any, Any]


class ModelProcessDied(RuntimeError):
    """The process ended without an answer: it was killed, or ran out of memory."""


class FaultInModelProcess(RuntimeError):
    """What was raised in there, in words."""


@dataclass(frozen=True)
class _Ready:
    images_per_run: int
    output_names: tuple[str, ...]


@dataclass(frozen=True)
class _Fault:
    words: str


class ModelInProcess:
    """This end of the pipe; `Runs` of a served model."""

    def __init__(self, pipe: Connection, process: Any) -> None:
        self._pipe, self._process = pipe, process
        ready = self._received()
        self.images_per_run: int = ready.images_per_run
        self.output_names: tuple[str, ...] = ready.output_names

    @property
    def process_id(self) -> int:
        return int(self._process.pid)

    def run(self, images: Sequence[torch.Tensor]) -> list[Outputs]:
        try:
            self._pipe.send(torch.cat(list(images)).numpy())
        except OSError as error:
            raise self._died() from error
        outputs = [torch.from_numpy(each).split(1) for each in self._received()]
        return list(zip(*outputs, strict=True))

    def _received(self) -> Any:
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if isinstance(answer, _Fault):
            raise FaultInModelProcess(answer.words)
        return answer

    def _died(self) -> ModelProcessDied:
        self._process.join(END_SECONDS)
        return ModelProcessDied(f"the process of the model ended with exit code {self._process.exitcode}")


_starting = threading.Lock()


@contextmanager
def model_process(opening: Opening, visible_card: int) -> Iterator[ModelInProcess]:
    """The model opened in a new process, which ends with the context. Of real cards it sees `visible_card` alone."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_main, args=(there, opening), name=opening.model, daemon=True)
    with _starting, _environment("TT_VISIBLE_DEVICES", str(visible_card)):  # read when TT-NN is imported, before _main
        process.start()
    there.close()
    try:
        yield ModelInProcess(here, process)
    finally:
        here.close()
        process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    former = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if former is None:
            del os.environ[name]
        else:
            os.environ[name] = former


# -- in the process


def _main(pipe: Connection, opening: Opening) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the one that started this ends it
    with suppress(BrokenPipeError, ConnectionResetError):  # the other end is gone
        try:
            with opening.opened() as running:
                pipe.send(_Ready(running.images_per_run, running.output_names))
                for images in _received(pipe):
                    found = running.run(list(torch.from_numpy(images).split(1)))
                    pipe.send([torch.cat(parts).numpy() for parts in zip(*found, strict=True)])
        except Exception as error:  # whatever a card or a model raises
            pipe.send(_Fault(f"{type(error).__name__}: {error}"))


def _received(pipe: Connection) -> Iterator[Array]:
    """Until the other end is closed."""
    while True:
        try:
            images: Array = pipe.recv()
        except EOFError:
            return
        yield images
