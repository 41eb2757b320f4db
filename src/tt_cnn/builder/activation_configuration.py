# SPDX-License-Identifier: Apache-2.0
"""The configuration of an activation that is an op of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, flags, instance
from tt_cnn.builder.torch_activations import PARAMETERS, activation_from_torch

IN_PLACE_RULES = (
    *flags("in_place", "deallocate_input"),
    instance("memory_config", None, ttnn.MemoryConfig),
    Rule("in_place", lambda c: not c.in_place or c.memory_config is None, "False with a memory_config"),
)

_NAMED_WITH_NUMBERS = frozenset({"mish", "selu", "softplus"})
"""Names for which the numbers are known."""


def has_its_numbers(activation: Any) -> bool:
    """Whether an activation, or the name of one, comes with the numbers that it needs; None needs none."""
    if isinstance(activation, str):
        op_type = getattr(ttnn.UnaryOpType, activation.upper(), None)
        return op_type is not None and (activation in _NAMED_WITH_NUMBERS or not PARAMETERS.get(op_type, 0))
    return activation is None or _given(activation) >= PARAMETERS.get(_op_type(activation), 0)


def _with_its_numbers(configuration: Any) -> str:
    activation = configuration.activation
    if not isinstance(activation, str):
        return f"a ttnn.UnaryWithParam with {PARAMETERS[_op_type(activation)]} number(s)"
    op_type = getattr(ttnn.UnaryOpType, activation.upper(), None)
    if op_type is None:
        return "the name of a ttnn.UnaryOpType in small letters, like 'relu', or a ttnn.UnaryWithParam"
    return f"a ttnn.UnaryWithParam(ttnn.UnaryOpType.{op_type.name}, ...) with {PARAMETERS[op_type]} number(s)"


NUMBERS_RULE = Rule("activation", lambda c: has_its_numbers(c.activation), _with_its_numbers)
"""Checked when a layer is described: on the card, a missing number is found by the kernel."""


@dataclass(frozen=True, eq=False)
class ActivationConfiguration(Configuration):
    activation: Any
    """A ttnn.UnaryWithParam, or a ttnn.UnaryOpType that needs no numbers."""
    in_place: bool = False
    """Whether the output takes the place of the input."""
    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False
    """Whether the input is given back; one whose place was taken is not."""

    rules = (
        instance("activation", ttnn.UnaryWithParam, ttnn.UnaryOpType),
        NUMBERS_RULE,
        *IN_PLACE_RULES,
    )

    @classmethod
    def from_torch(cls, torch_layer: Any, **settings: Any) -> ActivationConfiguration:
        """The same activation; `settings` say how it runs."""
        return cls(activation_from_torch(torch_layer), **settings)


def _op_type(activation: Any) -> Any:
    return activation.op_type if isinstance(activation, ttnn.UnaryWithParam) else activation


def _given(activation: Any) -> int:
    return len(activation.params) if isinstance(activation, ttnn.UnaryWithParam) else 0
