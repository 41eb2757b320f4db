# SPDX-License-Identifier: Apache-2.0
"""Errors of the card: TT-NN's sentence first, to the letter, then what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from tt_cnn.interrupts import Setting

_layer: ContextVar[str] = ContextVar("tt_cnn_layer", default="")


class CardError(RuntimeError):
    """A call that the card refuses. `message` is the real library's own text; `advice` is ours."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message}\n{advice}" if advice else message)
        self.message = message
        self.advice = advice
        self.where = ""
        """The step of a plan that failed, in words."""
        self.call = ""
        """The call that was refused, with its layer, in words."""
        self.reached: Any = None
        """The `Placement` up to there, where a plan was being placed."""
        self.explanation: Callable[[], list[str]] | None = None
        """Lines after the message that take a search; many errors are caught and never read."""
        self.remedies: Callable[[], list[Any]] = list
        """Other forms of the call (`planning.alternatives`) that the card takes, the mildest first; a search too."""

    def __str__(self) -> str:
        explanation, self.explanation = self.explanation, None
        if explanation is not None:
            self.args = ("\n".join([self.args[0], *explanation()]),)
        return super().__str__()

    def __reduce__(self) -> Any:
        str(self)  # the search belongs to this process
        return super().__reduce__()


class DoesNotFit(CardError):
    """A call that finds no room in the card's memory."""


class HazardError(CardError):
    """A program whose result would depend on luck on a real card."""


class ValuesError(CardError):
    """Values on the card that an op cannot work with. They are seen when it runs, so its queue tells it."""


class InternalError(Exception):
    """A fault of tt-cnn, found while it worked on a call that it had accepted. `script` makes the call again.

    It is none of the kinds that refusals are, so that nobody takes it for one.
    """

    def __init__(self, message: str, script: str) -> None:
        super().__init__(
            f"{message}\nThis is a fault of tt-cnn, not of your program. Please report it with this script, which "
            f"makes the same call:\n\n{script}\n"
        )
        self.message = message
        self.script = script


def fatal(condition: object, message: str, advice: str = "") -> None:
    """Raise what a failed check of the real library would say."""
    if not condition:
        raise CardError(message, advice)


def layer(name: str) -> AbstractContextManager[None]:
    """Calls made inside are reported under this layer's name."""
    return Setting(_layer, f"{_layer.get()}.{name}" if _layer.get() else name)


def current_layer() -> str:
    return _layer.get()
