# SPDX-License-Identifier: Apache-2.0
"""Commands that fail on their queue.

A queue goes on after a failure. What the failed command should have written holds the failure instead of values: a
command that reads it fails with it too, and a user who reads it gets the error, as often as it is read. Everything else
is as it would have been.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import NoReturn, Protocol

from tt_cnn.virtual.errors.card_error import CardError


class Failure(Exception):
    """Stands in place of values that a failed command did not write. Raised within queues; users get its error."""

    def __init__(self, command: object, error: BaseException) -> None:
        super().__init__(command, error)
        self.seen = False
        """A user got the error."""
        if isinstance(error, Exception):
            self.error = error
        else:  # an interrupt is for who was interrupted, not for who reads later
            self.error = CardError(f"{command} was interrupted before it was done.", "  run it again")
        self._raised_at = error.__traceback__
        cause: BaseException | None = error
        while cause is not None:  # what the failed command had in its hands is not kept with its failure
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__cause__
        if hasattr(self.error, "add_note"):
            self.error.add_note(f"{command} failed; what it should have written cannot be read.")

    def reveal(self) -> NoReturn:
        """Raise the error for a user: one of his own, since a traceback keeps the tensors of all who are in it."""
        self.seen = True
        raise _twin(self.error).with_traceback(self._raised_at)

    def again(self) -> Failure:
        """To be raised once more, without what earlier raises have left in the traceback."""
        self.__traceback__ = None
        return self


def _twin(error: Exception) -> Exception:
    twin = type(error).__new__(type(error), *error.args)
    twin.__dict__.update(error.__dict__)
    twin.__cause__, twin.__suppress_context__ = error.__cause__, error.__suppress_context__
    return twin


class Executable(Protocol):
    def execute(self) -> None:
        """Run; raise a `Failure` where that fails, which stands in all that should have been written."""


def run_commands(commands: Iterable[Executable]) -> None:
    """All of them, also after one that failed: only what follows from it fails too. Raises the first failure."""
    failures = []
    for command in commands:
        try:
            command.execute()
        except Failure as failure:
            failures.append(failure)
    if failures:
        raise failures[0].again()
