# SPDX-License-Identifier: Apache-2.0
"""Steps of the numerics that compiled replays know: while a program is noted, each is one operation of the note.

Otherwise a primitive is the plain function that it was made of. That function stays the definition of the rule; what a
replay does instead is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

PRIMITIVES: dict[str, Primitive] = {}
OPERATION = "tt_cnn.primitive.default"
"""The name under which all of them are noted."""

_noting: ContextVar[bool] = ContextVar("noting", default=False)
_compiled: ContextVar[Mapping[str, Callable[..., Tensor]]] = ContextVar("compiled", default=MappingProxyType({}))
_parameters: list[dict[str, Any]] = []
_numbers: dict[Any, int] = {}


class Primitive:
    """Called with tensors, and with hashable parameters by name."""

    def __init__(self, name: str, function: Callable[..., Tensor], shape: Callable[..., Sequence[int]]) -> None:
        self.name = name
        self.function = function
        self.shape = shape

    def __call__(self, *tensors: Tensor, **parameters: Any) -> Tensor:
        if not _noting.get():
            return _compiled.get().get(self.name, self.function)(*tensors, **parameters)
        return torch.ops.tt_cnn.primitive(list(tensors), self.name, _number(parameters))


def _broadcast(*shapes: Sequence[int], **_: Any) -> Sequence[int]:
    return torch.broadcast_shapes(*shapes)


def primitive(
    name: str, shape: Callable[..., Sequence[int]] = _broadcast
) -> Callable[[Callable[..., Tensor]], Primitive]:
    """Make a function one operation of the note, under this name.

    `shape` gives the result's shape from those of the tensors and from the parameters; all are broadcast unless said.
    """

    def make(function: Callable[..., Tensor]) -> Primitive:
        PRIMITIVES[name] = Primitive(name, function, shape)
        return PRIMITIVES[name]

    return make


@contextmanager
def compiled(functions: Mapping[str, Callable[..., Tensor]]) -> Iterator[None]:
    """Within, these functions are called instead of those that define the primitives of the same names."""
    token = _compiled.set(functions)
    try:
        yield
    finally:
        _compiled.reset(token)


@contextmanager
def noting() -> Iterator[None]:
    """Within, primitives go through torch's dispatcher, where a tracer sees them."""
    token = _noting.set(True)
    try:
        yield
    finally:
        _noting.reset(token)


def is_noting() -> bool:
    return _noting.get()


def shape_of(name: str, shapes: Sequence[Sequence[int]], parameters: int) -> tuple[int, ...]:
    """The shape of a noted call's result."""
    return tuple(PRIMITIVES[name].shape(*shapes, **parameters_of(parameters)))


def parameters_of(number: int) -> dict[str, Any]:
    """The parameters of a noted call."""
    return _parameters[number]


def _number(parameters: dict[str, Any]) -> int:
    """Parameters as the one kind of argument that torch's schemas have for them."""
    numbers = [value for value in parameters.values() if isinstance(value, (float, tuple))]
    key = tuple(parameters.items()), str(numbers)  # 0.0 and -0.0 are equal
    if key not in _numbers:
        _numbers[key] = len(_parameters)
        _parameters.append(parameters)
    return _numbers[key]


def _run(tensors: list[Tensor], name: str, parameters: int) -> Tensor:
    token = _noting.set(False)
    try:
        result = PRIMITIVES[name](*tensors, **parameters_of(parameters))
        return result.clone() if any(result is one for one in tensors) else result  # torch forbids the same tensor
    finally:
        _noting.reset(token)


torch.library.define("tt_cnn::primitive", "(Tensor[] tensors, str name, int parameters) -> Tensor")
torch.library.impl("tt_cnn::primitive", "CompositeExplicitAutograd")(_run)
torch.library.register_fake("tt_cnn::primitive")(
    lambda tensors, name, parameters: tensors[0].new_empty(shape_of(name, [x.shape for x in tensors], parameters))
)
