# SPDX-License-Identifier: Apache-2.0
"""A latch: opened once by one thread, waited for by others."""

from __future__ import annotations

import threading


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


OPENED = Latch()
"""For what nobody need wait for."""
OPENED.open()
