# SPDX-License-Identifier: Apache-2.0
"""Activations that TT-NN fuses into a layer, as torch computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from tt_cnn import ttnn


def _hardmish(x: torch.Tensor) -> torch.Tensor:
    return x * (x + 2.8).clamp(0, 5) / 5


_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "ABS": torch.abs,
    "CELU": F.celu,
    "ELU": F.elu,
    "EXP": torch.exp,
    "GELU": lambda x, *_: F.gelu(x),
    "GELU_TANH": lambda x, *_: F.gelu(x, approximate="tanh"),
    "HARDMISH": _hardmish,
    "HARDSIGMOID": F.hardsigmoid,
    "HARDSWISH": F.hardswish,
    "HARDTANH": F.hardtanh,
    "LEAKY_RELU": F.leaky_relu,
    "LOGSIGMOID": F.logsigmoid,
    "MISH": lambda x, *_: F.mish(x),
    "RELU": F.relu,
    "RELU6": F.relu6,
    "SIGMOID": lambda x, *_: torch.sigmoid(x),
    "SELU": lambda x, *_: F.selu(x),
    "SILU": F.silu,
    "SOFTPLUS": F.softplus,
    "SOFTSIGN": F.softsign,
    "SQRT": torch.sqrt,
    "TANH": lambda x, *_: torch.tanh(x),
}


def apply(activation: Any, x: torch.Tensor) -> torch.Tensor:
    """`activation` (None, a name, a ttnn.UnaryOpType or a ttnn.UnaryWithParam) of torch's values."""
    if activation is None:
        return x
    params: tuple[float, ...] = ()
    name = activation
    if isinstance(activation, ttnn.UnaryWithParam):
        name, params = activation.op_type, tuple(activation.params)
    name = name if isinstance(name, str) else name.name
    if name.upper() not in _FUNCTIONS:
        raise ValueError(f"the activation is {name}; torch's side is known for {', '.join(sorted(_FUNCTIONS))}")
    return _FUNCTIONS[name.upper()](x, *params)
