# SPDX-License-Identifier: Apache-2.0
"""Calls as users make them, reported to those who follow a thread's calls (graph captures)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Follower(Protocol):
    def call_begins(self, name: str) -> None: ...

    def call_ends(self, result: Any) -> None:
        """`result` is what it returned where a graph shows that, else None."""


class _Followers(threading.local):
    def __init__(self) -> None:
        self.list: list[Follower] = []


_followers = _Followers()


def followers() -> list[Follower]:
    """Those who follow the calls of the present thread, the outermost first."""
    return _followers.list


def report_call(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make a call by the name that TT-NN's graphs give it. It ends for those for whom it began."""
    return _report(name, False, function, args, kwargs)


def _report(
    name: str, returns: bool, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    result = None
    following = list(_followers.list)
    for one in following:
        one.call_begins(name)
    try:
        result = function(*args, **kwargs)
        return result
    finally:
        for one in reversed(following):
            one.call_ends(result if returns else None)


def followed(name: str, returns: bool = False) -> Callable[[_Function], _Function]:
    """A function whose calls are reported; with `returns`, what it returned too."""

    def follow(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not _followers.list:
                return function(*args, **kwargs)
            return _report(name, returns, function, args, kwargs)

        return call  # type: ignore[return-value]

    return follow
