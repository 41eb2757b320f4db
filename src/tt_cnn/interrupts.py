# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C that waits while state is changed.

Python raises KeyboardInterrupt between any two steps of the main thread. In a notebook the user goes on afterwards, so
what belongs together is done without an interrupt in its midst: one that comes meanwhile is raised at the end.

    with uninterrupted:
        place = memory.allocate(...)
        buffers.append(place)
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # `signal.getsignal` makes an enum of it, slowly
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import get_ident
from types import CodeType, FrameType, TracebackType
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_SIGINT = int(signal.SIGINT)
_main = threading.main_thread().ident
_depth = 0
"""Blocks that the main thread is in. Only that thread is interrupted, and only it counts."""
_waiting: Callable[[int, FrameType | None], Any] | None = None
"""What handles an interrupt that came within a block."""


_ends: set[CodeType] = set()
"""Functions that give something back: interrupted before their first line, they would not."""


def gives_back(function: _Function) -> _Function:
    """Ctrl-C at any line of a function, its first included, waits. What it does is in a block without interrupts."""
    _ends.add(function.__code__)
    return function


class _Handler:
    """Handles Ctrl-C as it was handled before, outside of blocks. Others may keep it and set it again later."""

    __slots__ = ("_outer",)

    def __init__(self, outer: Callable[[int, FrameType | None], Any]) -> None:
        self._outer = outer

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        global _waiting
        if _depth or _in_an_end(frame):
            _waiting = self._outer
        else:
            self._outer(signum, frame)


def _in_an_end(frame: FrameType | None) -> bool:
    """Or in what one calls before its block has begun."""
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code in _ends:
            return True
        frame = frame.f_back
    return False


def _take_over(found: Any) -> None:
    if callable(found):
        with suppress(ValueError):  # not the main interpreter: nothing interrupts it
            signal.signal(signal.SIGINT, _Handler(found))


def enter() -> None:
    """Begin a block; where every microsecond counts, in place of `with uninterrupted`."""
    global _depth
    if get_ident() == _main:
        if not _depth and type(found := getsignal(_SIGINT)) is not _Handler:
            _take_over(found)  # notebooks set the handler for every cell, so it is looked at every time
        _depth += 1


def leave(raises: bool = True) -> None:
    """End it."""
    global _depth, _waiting
    if get_ident() == _main:
        _depth -= 1
        if _waiting is not None and raises and not _depth:
            outer, _waiting = _waiting, None
            outer(signal.SIGINT, sys._getframe())


def _in_child() -> None:
    """Of a fork: the thread that forked is the main one now, in the blocks that it was in."""
    global _main, _depth, _waiting
    _main, _depth, _waiting = get_ident(), _depth if get_ident() == _main else 0, None


os.register_at_fork(after_in_child=_in_child)


class Uninterrupted:
    """Blocks may lie within others; the outermost ends it."""

    __slots__ = ("_raises",)

    def __init__(self, raises: bool = True) -> None:
        self._raises = raises

    def __enter__(self) -> None:
        enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        leave(self._raises)


uninterrupted = Uninterrupted()
in_destructor = Uninterrupted(raises=False)
"""Nothing can be raised from a destructor: Ctrl-C waits for the end of the next block."""


class Setting(Generic[_T]):
    """A context variable that has a value inside a block and its former one afterwards, whatever interrupts it."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[_T], value: _T) -> None:
        self._variable, self._value = variable, value
        self._token: Token[_T] | None = None

    def __enter__(self) -> None:
        try:
            with uninterrupted:
                self._token = self._variable.set(self._value)
        except BaseException:  # came while it was set, so that the block is not entered
            self.__exit__(None, None, None)
            raise

    @gives_back
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with uninterrupted:
            token, self._token = self._token, None
            if token is not None:
                self._variable.reset(token)
