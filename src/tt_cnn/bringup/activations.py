# SPDX-License-Identifier: Apache-2.0
"""Activations of torch graphs, as the torch modules that the generated code names them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tt_cnn.bringup.torch_graph import TorchNode

_PLAIN = {
    "relu": "nn.ReLU()",
    "relu6": "nn.ReLU6()",
    "silu": "nn.SiLU()",
    "mish": "nn.Mish()",
    "hardswish": "nn.Hardswish()",
    "hardsigmoid": "nn.Hardsigmoid()",
    "sigmoid": "nn.Sigmoid()",
    "tanh": "nn.Tanh()",
    "selu": "nn.SELU()",
}


def _leaky_relu(arguments: Mapping[str, Any]) -> str:
    return f"nn.LeakyReLU({_number(arguments['negative_slope'])})"


def _gelu(arguments: Mapping[str, Any]) -> str:
    return 'nn.GELU(approximate="tanh")' if arguments.get("approximate") == "tanh" else "nn.GELU()"


def _clamp(arguments: Mapping[str, Any]) -> str | None:
    low = arguments.get("min_val", arguments.get("min"))
    high = arguments.get("max_val", arguments.get("max"))
    if low == 0 and high is None:
        return "nn.ReLU()"
    return "nn.ReLU6()" if low == 0 and high == 6 else None


def _elu(arguments: Mapping[str, Any]) -> str | None:
    if arguments.get("scale", 1) != 1 or arguments.get("input_scale", 1) != 1:
        return None
    return f"nn.ELU({_number(arguments.get('alpha', 1))})"


def _softplus(arguments: Mapping[str, Any]) -> str:
    return f"nn.Softplus({_number(arguments.get('beta', 1))}, {_number(arguments.get('threshold', 20))})"


_WITH_ARGUMENTS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "leaky_relu": _leaky_relu,
    "gelu": _gelu,
    "hardtanh": _clamp,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "elu": _elu,
    "softplus": _softplus,
}


def activation_of(node: TorchNode) -> str | None:
    """The torch module that does what the node does, as code; None for what is no activation."""
    if node.op in _PLAIN:
        return _PLAIN[node.op]
    return _WITH_ARGUMENTS[node.op](node.arguments) if node.op in _WITH_ARGUMENTS else None


def _number(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else repr(value)
