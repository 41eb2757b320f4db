# SPDX-License-Identifier: Apache-2.0
"""Activations of matmul and linear, which may be given as strings."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.configs import Activation
from tt_cnn.virtual.types.unary import UnaryOpType, activation

_FAST = (1.0,)
_BY_NAME: dict[str, Activation] = {
    "relu": (UnaryOpType.RELU, ()),
    "relu6": (UnaryOpType.RELU6, ()),
    "gelu": (UnaryOpType.GELU, _FAST),
    "silu": (UnaryOpType.SILU, ()),
    "sigmoid": (UnaryOpType.SIGMOID, ()),
    "sqrt": (UnaryOpType.SQRT, ()),
    "exp": (UnaryOpType.EXP, _FAST),
    "recip": (UnaryOpType.RECIP, ()),
    "tanh": (UnaryOpType.TANH, ()),
    "log": (UnaryOpType.LOG, ()),
    "sin": (UnaryOpType.SIN, ()),
    "cos": (UnaryOpType.COS, ()),
    "abs": (UnaryOpType.ABS, ()),
    "square": (UnaryOpType.SQUARE, ()),
    "softplus": (UnaryOpType.SOFTPLUS, (1.0, 20.0)),
    "mish": (UnaryOpType.MISH, ()),
    "hardswish": (UnaryOpType.HARDSWISH, ()),
    "hardsigmoid": (UnaryOpType.HARDSIGMOID, ()),
    "selu": (UnaryOpType.SELU, ()),
}
"""TT-NN's `string_to_unary_with_param`, for the names that networks use."""


def activation_of(given: Any) -> Activation | None:
    if isinstance(given, str):
        fatal(given in _BY_NAME, f"Unknown unary op: {given}")
        return _BY_NAME[given]
    return activation(given)
