# SPDX-License-Identifier: Apache-2.0
"""The border of the virtual card: arguments of wrong types are a TypeError there, as TT-NN's bindings say it.

The bindings of the real library compare every argument with the types of its parameter before anything runs. So do
these: with the parameter's annotation, or with the type that a parameter of its name has everywhere. What breaks behind
the border is our own fault (`faults`) and never reported as one of the caller's.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from tt_cnn.virtual.arguments.faults import internal_error, is_fault
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreGrid, CoreRangeSet
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.unary import UnaryOpType, UnaryWithParam

Check = Callable[[Any], bool]

_BY_NAME: dict[str, Any] = {
    "activations": Sequence[UnaryOpType | UnaryWithParam],
    "compute_kernel_config": WormholeComputeKernelConfig,
    "core_grid": CoreGrid,
    "dtype": DataType,
    "fast_and_approximate_mode": bool,
    "input_tensor_a_activations": Sequence[UnaryOpType | UnaryWithParam],
    "input_tensor_b_activations": Sequence[UnaryOpType | UnaryWithParam],
    "layout": Layout,
    "memory_config": MemoryConfig,
    "ops_chain": Sequence[UnaryOpType | UnaryWithParam],
    "output_layout": Layout,
    "queue_id": int,
    "sub_core_grids": CoreRangeSet,
}
"""Parameters that have one type wherever they occur, for signatures that do not say it."""

_CHECK_THEMSELVES = ("create_sharded_memory_config", "create_sharded_memory_config_")
"""Written in Python in TT-NN too, where they refuse wrong types in words of their own."""

SMALLEST, LARGEST = -(2**63), 2**64 - 1
"""What an integer of the bindings can hold, signed or not."""


def is_whole(value: Any) -> bool:
    if type(value) is int or type(value) is bool:
        return SMALLEST <= value <= LARGEST
    if not hasattr(value, "__index__"):
        return False
    try:
        return SMALLEST <= operator.index(value) <= LARGEST
    except TypeError:  # a torch tensor of more than one element
        return False


def is_real(value: Any) -> bool:
    if type(value) is float:
        return True
    try:
        return not isinstance(value, (str, bytes, Tensor)) and (is_whole(value) or float(value) is not None)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return False


_OF_BUILTIN: dict[Any, Check] = {
    int: is_whole,
    float: is_real,
    bool: lambda value: isinstance(value, bool),
    type(None): lambda value: value is None,
}
_NO_SEQUENCE = (str, bytes, dict, Tensor)


def check_of(hint: Any) -> Check | None:
    """Whether a value has a type; None where everything has it, or nobody can tell."""
    if hint in _OF_BUILTIN:
        return _OF_BUILTIN[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        checks = [check_of(one) for one in inner]
        return None if None in checks else lambda value: any(check(value) for check in checks if check is not None)
    if origin in (collections.abc.Sequence, list):
        return _sequence_of(check_of(inner[0]) if inner else None)
    if origin is collections.abc.Callable:
        return callable
    if inspect.isclass(hint) and hint not in (Any, object) and origin is None:
        return lambda value: isinstance(value, hint)
    return None


def _sequence_of(one: Check | None) -> Check:
    def check(value: Any) -> bool:
        if isinstance(value, _NO_SEQUENCE) or not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
            return False
        return one is None or all(map(one, value))

    return check


@functools.cache
def checks_of(function: Callable[..., Any]) -> dict[str, Check]:
    """How to check the arguments of parameters whose types are known."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        check = check_of(_hint(function, parameter.annotation)) or check_of(_BY_NAME.get(name))
        if check is not None and name != "self":
            found[name] = _or_none(check) if parameter.default is None else check
    return found


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _hint(function: Callable[..., Any], annotation: Any) -> Any:
    """An annotation's type; None for those that are only there for type checkers."""
    if not isinstance(annotation, str):
        return None
    try:
        return eval(annotation, dict(inspect.unwrap(function).__globals__))
    except NameError:
        return None


@functools.lru_cache(maxsize=4096)
def bound_names(function: Callable[..., Any], count: int, keywords: tuple[str, ...]) -> list[str]:
    """The names that `count` positional arguments get; a TypeError where these do not go with the keywords."""
    signature = inspect.signature(function)
    signature.bind(*[None] * count, **dict.fromkeys(keywords))
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds][:count]


def takes(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function takes these arguments: their number, their names and their types.

    Calls come again with arguments of the same types, and where those tell, they are compared once.
    """
    kinds = (function, *map(_kind, args), *kwargs, *map(_kind, kwargs.values()))
    if kinds in _taken:
        return True
    if not _takes(function, args, kwargs):
        return False
    if all(map(_kind_tells, kinds[1:])):
        if len(_taken) >= _MOST_TAKEN:
            _taken.clear()
        _taken.add(kinds)
    return True


_taken: set[tuple[Any, ...]] = set()
"""Functions with the kinds of arguments that they take."""
_MOST_TAKEN = 1 << 16


def _kind(value: Any) -> Any:
    """All that a check may look at: the type; of a sequence that of its elements; a number that is too large itself."""
    kind = type(value)
    if kind is int:
        return int if SMALLEST <= value <= LARGEST else value
    return (kind, *map(_kind, value)) if kind is tuple or kind is list else kind


@functools.cache
def _type_tells(kind: type) -> bool:
    """Whether all values of a type are alike; not so where their elements or their size count."""
    known = (int, float, bool, tuple, list, Tensor)
    return kind in known or not any(name in vars(one) for one in kind.__mro__ for name in _OF_NUMBERS_AND_SEQUENCES)


def _kind_tells(kind: Any) -> bool:
    if type(kind) is tuple:
        return all(map(_kind_tells, kind))
    return not isinstance(kind, type) or _type_tells(kind)


_OF_NUMBERS_AND_SEQUENCES = ("__len__", "__index__", "__float__")


def _takes(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        names = bound_names(function, len(args), tuple(kwargs))
    except TypeError:
        return False
    checks = {} if function.__name__ in _CHECK_THEMSELVES else checks_of(function)
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        check = checks.get(name)
        if check is not None and not check(value):
            return False
    return True


_Function = TypeVar("_Function", bound=Callable[..., Any])


def typed_names(module: ModuleType) -> None:
    """Put all public functions of a module behind the border; the same function stays the same."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            setattr(module, name, typed(value))


def typed(function: _Function) -> _Function:
    """A function of TT-NN's behind the border."""
    if function in _typed.values():
        return function
    if function in _typed:
        return _typed[function]
    name = f"ttnn.{function.__name__}"

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not takes(function, args, kwargs):
            given = [type_name(a) for a in args] + [f"{k}: {type_name(v)}" for k, v in kwargs.items()]
            raise TypeError(
                f"{function.__name__}(): incompatible function arguments.\n\nInvoked with types: {', '.join(given)}"
            )
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if is_fault(error):
                raise internal_error(name, args, kwargs, error) from error
            raise

    _typed[function] = call
    return call  # type: ignore[return-value]


_typed: dict[Any, Any] = {}


def type_name(value: Any) -> str:
    kind = type(value)
    return f"ttnn.{kind.__name__}" if kind.__module__.startswith("tt_cnn.virtual") else kind.__name__
