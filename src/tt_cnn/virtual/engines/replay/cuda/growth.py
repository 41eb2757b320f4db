# SPDX-License-Identifier: Apache-2.0
"""How the values of a graph grow with its inputs: as which power of their size.

Float16 ends at 65504. A replay is compiled for the inputs that it has seen, and others may be some times as large; how
many times as large its values are then, that power says. Where no power does, as of exponentials and of quotients by
small numbers (which float16 may take for 0), 16 bits with the exponents of float32 are the ones to take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tt_cnn.virtual.engines.replay.graph import Node, ordered

UNKNOWN = math.inf
_BOUNDED = {"Sigmoid", "Tanh", "Sin", "Cos", "Erf", "hardsigmoid"}
_FROM_ZERO = {"Relu", "Abs", "Sqrt", "Exp", "Sigmoid", "hardsigmoid"}
_PRODUCTS = {"conv", "conv_transpose", "matmul", "sums"}
_MOVING = {"reshape", "permute", "expand", "slice", "repeat", "cat", "max_pool", "avg_pool"}

_BOUNDED_COMMANDS = {
    "layer_norm", "rms_norm", "group_norm", "softmax", "argmax", "eq", "ne", "gt", "lt", "ge", "le", "eqz", "nez",
    "gtz", "ltz", "gez", "lez", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "sign", "signbit", "logical_not",
    "logical_and", "logical_or", "logical_xor",
}  # fmt: skip
_LINEAR_COMMANDS = {
    "sort", "topk", "where", "roll", "gather", "embedding", "round", "trunc", "typecast", "cumsum", "std", "split",
    "chunk", "concat", "slice", "reshape", "permute", "transpose", "repeat", "elu", "celu", "selu", "hardshrink",
    "softshrink", "tanhshrink", "tilize", "untilize",
}  # fmt: skip
"""Of those that torch runs between compiled parts: inputs that are so many times as large make results that are so many
times as large at most."""


def power_of_command(name: str, reads: Sequence[float]) -> float:
    """Of what a command writes that torch runs, from the powers of what it reads."""
    op = name.removeprefix("ttnn.")
    if op in _BOUNDED_COMMANDS:
        return 0.0
    return max(reads, default=0.0) if op in _LINEAR_COMMANDS else UNKNOWN


@dataclass(frozen=True)
class _Reach:
    """What is known of a node's values for inputs of any size."""

    power: float
    least: float = -UNKNOWN
    """No value is below. Of the variance that a norm divides by, it is the small number that it adds to it."""


def powers(outputs: Sequence[Node], of_input: Callable[[int], float]) -> dict[int, float]:
    """By the identity of the nodes, from the powers of the inputs by their numbers."""
    found: dict[int, _Reach] = {}
    for node in ordered(outputs):
        if node.kind == "input":
            found[id(node)] = _Reach(of_input(node.params[0]))
        elif node.value is not None:
            found[id(node)] = _Reach(0.0, float(node.value.min()) if node.value.numel() else 0.0)
        else:
            before = [found[id(one)] for one in node.inputs]
            found[id(node)] = _Reach(_power(node, before), _least(node, before))
    return {key: one.power for key, one in found.items()}


def _power(node: Node, before: Sequence[_Reach]) -> float:
    powers = [one.power for one in before]
    name = node.params[0] if node.kind in ("unary", "binary") else ""
    if node.kind == "softmax" or name in _BOUNDED:
        return 0.0
    if node.kind == "call":
        return UNKNOWN
    if node.kind in _PRODUCTS:
        return max(powers[0] + powers[1], *powers[2:], 0.0)
    if node.kind == "unary":
        return _power_of_function(name, node.params[1:], before[0])
    if name == "mul":
        return sum(powers)
    if name == "div":
        return powers[0] if node.inputs[1].value is not None or before[1].least > 0.0 else UNKNOWN
    if name == "pow":
        exponent = node.inputs[1].value
        number = float(exponent) if exponent is not None and exponent.numel() == 1 else -1.0
        return powers[0] * number if number > 0.0 else UNKNOWN
    return max(powers)


def _power_of_function(name: str, numbers: Sequence[float | None], before: _Reach) -> float:
    if name in ("Reciprocal", "rsqrt"):
        return 0.0 if before.least > 0.0 else UNKNOWN
    if name == "Log":
        return UNKNOWN
    if name == "Exp":
        return 0.0 if before.power == 0.0 else UNKNOWN
    if name == "clip" and len(numbers) == 2 and all(one is not None and math.isfinite(one) for one in numbers):
        return 0.0
    return before.power


def _least(node: Node, before: Sequence[_Reach]) -> float:
    least = [one.least for one in before]
    name = node.params[0] if node.kind in ("unary", "binary", "reduce") else ""
    if name in _FROM_ZERO:
        return 0.0
    if name == "add":
        return sum(least)
    if name == "max":
        return max(least)
    if name == "mul":
        return 0.0 if node.inputs[0] is node.inputs[1] or min(least) >= 0.0 else -UNKNOWN
    if name == "sum":
        return 0.0 if least[0] >= 0.0 else -UNKNOWN
    return min(least) if node.kind in _MOVING or node.kind == "reduce" else -UNKNOWN
