# SPDX-License-Identifier: Apache-2.0
"""How long the commands of a device take: transfers, computation, and how much of both goes on at the same time."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.queues.queue import Command


class _Span(NamedTuple):
    transfer: bool
    start: float
    stop: float


class CommandTimes:
    """Sums over all commands that run on a device between `start` and `stop`, in seconds.

    Ops and replays of traces are computation; what moves values between host and card is transfer.
    """

    KEPT = 1024
    """Spans of a queue that a longer one of the other queue may still overlap."""

    def __init__(self, device: MeshDevice) -> None:
        self._device = device
        self._told: deque[tuple[int, bool, Any, Any]] = deque()
        self._recent: list[deque[_Span]] = [deque(maxlen=self.KEPT) for _ in device.queues]
        self._lock = threading.Lock()
        self.transfer = self.compute = self.overlapped = 0.0
        self.computations = 0
        """Commands that compute."""

    def start(self) -> None:
        self._device.timers.append(self._note)

    def stop(self) -> None:
        """Doing it twice is harmless."""
        if self._note in self._device.timers:
            self._device.timers.remove(self._note)
        self.collect()

    def _note(self, command: Command, start: Any, stop: Any) -> None:
        """On a queue's worker: nothing is computed here."""
        transfers = command.plan is None and command.trace_id is None
        self._told.append((command.queue, transfers, start, stop))
        if len(self._told) >= self.KEPT:
            self._take_up()  # the oldest: it is done, so that nobody waits

    def collect(self) -> None:
        """Bring the sums up to date."""
        while self._told:
            self._take_up()

    def _take_up(self) -> None:
        seconds = self._device.engine.seconds
        with self._lock:
            if self._told:
                queue, transfers, start, stop = self._told.popleft()
                self._add(queue, _Span(transfers, seconds(start), seconds(stop)))

    def _add(self, queue: int, span: _Span) -> None:
        length = span.stop - span.start
        if span.transfer:
            self.transfer += length
        else:
            self.compute += length
            self.computations += 1
        if len(self._recent) == 1:
            return
        others = self._recent[1 - queue]
        for other in others:
            if other.transfer is not span.transfer:
                self.overlapped += max(0.0, min(span.stop, other.stop) - max(span.start, other.start))
        while others and others[0].stop <= span.stop:  # the next span of this queue starts later
            others.popleft()
        self._recent[queue].append(span)
