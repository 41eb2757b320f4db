# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses that are parts of keys: their hash is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type[Any])


def kept_hash(cls: _Class) -> _Class:
    """A frozen dataclass that keeps its hash, but not in other processes: enumerations hash otherwise there."""
    compute: Callable[[Any], int] = cls.__hash__  # type: ignore[assignment]

    def __hash__(self: Any) -> int:
        known: int | None = getattr(self, "_hash", None)
        if known is None:
            known = compute(self)
            object.__setattr__(self, "_hash", known)
        return known

    def __getstate__(self: Any) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    cls.__hash__ = __hash__  # type: ignore[assignment]
    cls.__getstate__ = __getstate__
    return cls
