# SPDX-License-Identifier: Apache-2.0
"""Ops that make each value of others at the same place: torch's names and TT-NN's."""

from __future__ import annotations

from tt_cnn.bringup.torch_graph import Parameter, TorchNode

UNARY = {
    "abs": "abs",
    "exp": "exp",
    "log": "log",
    "neg": "neg",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "sin": "sin",
    "cos": "cos",
    "erf": "erf",
    "floor": "floor",
    "ceil": "ceil",
    "square": "square",
    "sign": "sign",
    "log1p": "log1p",
    "expm1": "expm1",
    "atan": "atan",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "round": "round",
    "trunc": "trunc",
    "frac": "frac",
    "exp2": "exp2",
    "log2": "log2",
    "log10": "log10",
    "erfc": "erfc",
    "log_sigmoid": "log_sigmoid",
    "logical_not": "logical_not",
}
"""torch's name and TT-NN's."""
WITH_NUMBERS = {
    "celu": ("alpha",),
    "hardshrink": ("lambd",),
    "softshrink": ("lambd",),
    "threshold": ("threshold", "value"),
}
"""Functions of one tensor and numbers, which TT-NN calls as torch does."""
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
    "gt": "gt",
    "ge": "ge",
    "lt": "lt",
    "le": "le",
    "eq": "eq",
    "ne": "ne",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "remainder": "remainder",
}
"""torch's name and TT-NN's; comparisons give 1 and 0."""
ACTIVATIONS = (
    *("relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "sigmoid", "tanh", "selu", "leaky_relu", "gelu"),
    *("hardtanh", "clamp", "clamp_min", "elu", "softplus"),
)
_VALUE_BY_VALUE = frozenset([*UNARY, *WITH_NUMBERS, *BINARY, *ACTIVATIONS, "rsub", "pow"])


def is_value_by_value(node: TorchNode) -> bool:
    """Whether each value of the op is made of one value of one tensor alone, wherever it lies."""
    tensors = [each for each in node.arguments.values() if isinstance(each, TorchNode | Parameter)]
    return node.op in _VALUE_BY_VALUE and len(tensors) == 1
