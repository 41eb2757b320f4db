# SPDX-License-Identifier: Apache-2.0
"""Values that are worked out when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")
_store = object.__setattr__  # frozen dataclasses too


class lazy(Generic[_T]):
    """`functools.cached_property` without the lock that Python takes for it before 3.12, and without a dictionary for
    each instance, which the garbage collector would have to walk.

    Planning reads tens of thousands of these; two threads that come to the same one work out the same value.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        value = self.make(instance)
        _store(instance, self.name, value)
        return value
