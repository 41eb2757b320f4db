# SPDX-License-Identifier: Apache-2.0
"""Signatures of ops, made from tables or like those of others: `arguments` methods with TT-NN's names and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.operation import Call, Operation, _signature_message
from tt_cnn.virtual.tensors.tensor import Tensor

Parameter = inspect.Parameter


def positional(name: str, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default)


def keyword(name: str, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default)


MEMORY_CONFIG, OUTPUT_TENSOR = keyword("memory_config"), keyword("output_tensor")
SUB_CORE_GRIDS, SUB_DEVICE_ID = keyword("sub_core_grids"), keyword("sub_device_id")
PLACEMENT = (MEMORY_CONFIG, OUTPUT_TENSOR, SUB_CORE_GRIDS)


def with_signature(*parameters: Parameter) -> Callable[..., Call]:
    """An `arguments` method that binds these parameters and hands them to the op's `make_call` by name.

    It is called with arguments that go with its signature: `Operation.bind` has seen to that.
    """
    in_order = {one.name: one.default for one in parameters}
    names = [one.name for one in parameters if one.kind is Parameter.POSITIONAL_OR_KEYWORD]

    def arguments(self: Any, *args: Any, **kwargs: Any) -> Call:
        """A kernel's parameters are taken in the order of the signature, however they were given."""
        return self.make_call(**in_order | dict(zip(names, args, strict=False)) | kwargs)

    arguments.__signature__ = inspect.Signature([positional("self"), *parameters])  # type: ignore[attr-defined]
    return arguments


def arguments_like(
    other: Callable[..., Call],
    *,
    renamed: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    added: Sequence[Parameter] = (),
) -> Callable[..., Call]:
    """`with_signature` of another op's parameters, some of them under other names, left out or added."""
    _, *parameters = inspect.signature(other).parameters.values()
    names = {parameter.name: parameter.name for parameter in parameters} | dict(renamed or {})
    kept = [parameter.replace(name=names[parameter.name]) for parameter in parameters if parameter.name not in without]
    arguments = with_signature(*kept, *added)
    arguments.__wrapped__ = other  # type: ignore[attr-defined]  # where the names of types are looked up
    return arguments


def wrong_types(operation: Operation, values: Sequence[Any]) -> TypeError:
    """What the real library's bindings say when no overload takes arguments of these types."""
    return TypeError(_signature_message(operation, tuple(values), {}))


def require_tensor(operation: Operation, value: Any, *others: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise wrong_types(operation, (value, *others))
    return value


def check_rounding(mode: object) -> None:
    fatal(mode in (None, "trunc", "floor"), "Incorrect rounding mode (expected None, 'trunc', or 'floor')")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float))
