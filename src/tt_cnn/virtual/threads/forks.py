# SPDX-License-Identifier: Apache-2.0
"""Cards in the child of a fork.

Only the thread that forks goes on in the child: the workers of the queues are not there, and a lock that another thread
held stays locked for ever. So a card belongs to the process that opened it. In a child every use of it is an error that
says so, and letting go of it does nothing; the child opens a card of its own.
"""

from __future__ import annotations

import os
import weakref
from typing import NoReturn, Protocol

from tt_cnn.virtual.errors.card_error import CardError


class Inherited(Protocol):
    def left_to_parent(self) -> None:
        """This process is a child of the one that made it: refuse everything from now on."""


_made: weakref.WeakSet[Inherited] = weakref.WeakSet()


def belongs_to_this_process(one: Inherited) -> None:
    _made.add(one)


def _in_child() -> None:
    for one in _made:
        one.left_to_parent()
    _made.clear()


os.register_at_fork(after_in_child=_in_child)


def refuse() -> NoReturn:
    raise CardError(
        "This device was opened by the parent of this process, which a fork has split off.",
        "  open a device in the child, or start processes with multiprocessing's 'spawn' method",
    )


class LostLock:
    """Stands in place of a lock of the parent's."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not blocking:
            return False
        refuse()

    def release(self) -> None:
        """It was never held."""

    def __enter__(self) -> NoReturn:
        refuse()

    def __exit__(self, *error: object) -> None:
        """It was never entered."""
