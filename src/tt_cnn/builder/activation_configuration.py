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
        Rule(
            "activation",
            lambda c: _given(c.activation) >= PARAMETERS.get(_op_type(c.activation), 0),
            lambda c: f"a ttnn.UnaryWithParam with {PARAMETERS[_op_type(c.activation)]} number(s)",
        ),
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
