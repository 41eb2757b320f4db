# SPDX-License-Identifier: Apache-2.0
"""Golden functions: called as the op is, with torch tensors in the places of TT-NN's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual import ops
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Operation

ops.load_all()

Function = Callable[..., Any]
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Golden:
    """A function of the op's arguments by name (those that it does not need are swallowed), and what goes before it."""

    operation: Operation
    function: Function
    undo: Callable[[Call, Arguments, int], Arguments] | None = None
    """Brings arguments that only the card understands (prepared weights) back into torch's form, for one chip."""

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """All arguments by the op's names, defaults included. Names that the op does not have are left out."""
        signature = inspect.signature(type(self.operation).arguments)
        known = {name: value for name, value in kwargs.items() if name in signature.parameters}
        bound = signature.bind_partial(None, *args, **known)
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[1:])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self.arguments(args, kwargs)
        try:
            return self.function(**given)
        except KeyError as missing:
            if (
                missing.args[0] in given
                or missing.args[0] not in inspect.signature(self.operation.arguments).parameters
            ):
                raise
            raise TypeError(f"the golden function of ttnn.{self.operation.name} needs {missing.args[0]}") from None


GOLDEN: dict[str, Golden | Function] = {}
"""Golden functions by the op's name: ours, and those that users attached."""


def golden(*names: str, undo: Any = None) -> Callable[[Function], Function]:
    """Registers a function for ops."""

    def register(function: Function) -> Function:
        for name in names:
            GOLDEN[name] = Golden(OPERATIONS[name], function, undo)
        return function

    return register


def get_golden_function(operation: Any) -> Golden | Function:
    """The reference of an op, to be called as the op with torch tensors."""
    if not isinstance(operation, Operation) or operation.name not in GOLDEN:
        raise RuntimeError(f"{operation} does not have a golden function")
    return GOLDEN[operation.name]


def attach_golden_function(operation: Any, golden_function: Function, **_: Any) -> None:
    """Give an op another reference. It is called with what the op was called with."""
    if not isinstance(operation, Operation):
        raise TypeError(f"attach_golden_function(): {operation!r} is not an operation of ttnn")
    GOLDEN[operation.name] = golden_function
