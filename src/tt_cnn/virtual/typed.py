"""Arguments of wrong types are a TypeError, as TT-NN's bindings say it, wherever they are noticed first.

The bindings of the real library compare every argument with the types of its parameter before anything runs. Here the
types that parameters have by their name or annotation are compared up front; what gets through and breaks an operation
on the way to its plan is the same error, with the break as its cause.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import MemoryConfig

WRONG_ARGUMENT = (AttributeError, KeyError, IndexError, AssertionError, ZeroDivisionError, OverflowError)
"""What Python raises when it works on an argument that is not what it was taken for."""

_BY_NAME: dict[str, type] = {
    "dtype": DataType,
    "memory_config": MemoryConfig,
    "queue_id": int,
    "sub_core_grids": CoreRangeSet,
}
_BY_ANNOTATION: dict[str, type] = {
    "CoreRangeSet": CoreRangeSet,
    "DataType": DataType,
    "Layout": Layout,
    "MemoryConfig": MemoryConfig,
}


@functools.cache
def expected_types(function: Callable[..., Any]) -> dict[str, tuple[type, bool]]:
    """The types of parameters that can be told, and whether None will do too."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        text = str(parameter.annotation)
        optional = parameter.default is None or text.endswith("| None")
        kind = _BY_ANNOTATION.get(text.removesuffix(" | None"), _BY_NAME.get(name))
        if kind is not None and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            found[name] = kind, optional
    return found


def mistyped(function: Callable[..., Any], given: dict[str, Any]) -> str | None:
    """The name of the first argument that has a wrong type."""
    for name, (kind, optional) in expected_types(function).items():
        value = given.get(name)
        if name in given and not (isinstance(value, kind) or (optional and value is None)):
            return name
    return None


_Function = TypeVar("_Function", bound=Callable[..., Any])


def typed_names(module: ModuleType) -> None:
    """Make wrong arguments TypeErrors for all public functions of a module; the same function stays the same."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and not name.startswith("_") and value not in _typed.values():
            if value not in _typed:
                _typed[value] = typed(value)
            setattr(module, name, _typed[value])


_typed: dict[FunctionType, FunctionType] = {}


def typed(function: _Function) -> _Function:
    """A function of TT-NN's whose wrong arguments are TypeErrors."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except WRONG_ARGUMENT as error:
            given = [type_name(a) for a in args] + [f"{k}: {type_name(v)}" for k, v in kwargs.items()]
            raise TypeError(
                f"{function.__name__}(): incompatible function arguments.\n\nInvoked with types: {', '.join(given)}"
            ) from error

    return call  # type: ignore[return-value]


def type_name(value: Any) -> str:
    kind = type(value)
    return f"ttnn.{kind.__name__}" if kind.__module__.startswith("tt_cnn.virtual") else kind.__name__
