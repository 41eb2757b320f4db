# SPDX-License-Identifier: Apache-2.0
"""How far a run of programs is, and which program takes long, told while it still does."""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

SLOW = 20.0
"""Seconds after which a program is named."""
EVERY = 30.0
"""Seconds between two lines of progress."""


class Progress:
    """Silent unless it has a stream to write to."""

    def __init__(self, stream: TextIO | None = None, slow: float = SLOW, every: float = EVERY) -> None:
        self._stream, self._slow, self._every = stream, slow, every
        self._start = self._told = time.perf_counter()

    def tell(self, line: str) -> None:
        if self._stream is not None:
            print(line, file=self._stream, flush=True)

    def count(self, done: int, of: int, wrong: int) -> None:
        """A line now and then."""
        now = time.perf_counter()
        if now - self._told >= self._every:
            self._told = now
            self.tell(f"{done} of {of} seeds after {now - self._start:.0f} s, {wrong} wrong")

    @contextmanager
    def watched(self, what: str) -> Iterator[None]:
        """Name what runs within as soon as it takes long, with the place where each thread is, and its time after."""
        start, overdue = time.perf_counter(), threading.Event()

        def name() -> None:
            overdue.set()
            self.tell(f"{what}: still running after {self._slow:.0f} s")
            if self._stream is sys.stderr:
                faulthandler.dump_traceback(sys.stderr)

        timer = threading.Timer(self._slow, name)
        timer.daemon = True
        if self._stream is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if overdue.is_set():
                self.tell(f"{what}: took {time.perf_counter() - start:.0f} s")
