# SPDX-License-Identifier: Apache-2.0
"""The card's numerics as graph nodes: one small function for each primitive that has some; torch runs the others.

A function takes the graph, the primitive's tensors and parameters. It returns None where it has no nodes for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.rounding_graph import RoundingGraph
from tt_cnn.virtual.numerics.convolution.inner import Piece
from tt_cnn.virtual.numerics.convolution.quick import Plan
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.numerics.fidelity import ALL_BITS_B, HIGH_BITS_B, effective_operands
from tt_cnn.virtual.numerics.primitive import parameters_of, shape_of
from tt_cnn.virtual.numerics.vector_unit import VectorUnit
from tt_cnn.virtual.numerics.vector_unit.registry import has_stand_in
from tt_cnn.virtual.numerics.vector_unit.unit import float32
from tt_cnn.virtual.types.enums import DataType, MathFidelity

Translate = Callable[..., Node | None]
TRANSLATIONS: dict[str, Translate] = {}

_BFLOAT16_BITS = 7
"""Of the mantissa."""
TO_IMAGE, FROM_IMAGE = (0, 3, 1, 2), (0, 2, 3, 1)
"""Between channels last and channels first."""


def nodes_of(graph: RoundingGraph, tensors: Sequence[Node], name: str, number: int) -> Node:
    """What a noted call of a primitive is in the graph."""
    translate = TRANSLATIONS.get(name)
    found = None if translate is None else translate(graph, *tensors, **parameters_of(number))
    if found is not None:
        return found
    return graph.call(name, number, tensors, shape_of(name, [one.shape for one in tensors], number))


def primitive(name: str) -> Callable[[Translate], Translate]:
    def register(function: Translate) -> Translate:
        TRANSLATIONS[name] = function
        return function

    return register


# --- roundings ---------------------------------------------------------------------------------------------------


def _rounding(name: str) -> Translate:
    return lambda graph, x, **_: graph.unary(name, x)


for _name in ("to_bfloat16", "round_away", "round_even", "stored", "flush_denormals"):
    primitive(_name)(_rounding(_name))


@primitive("cut")
def cut(graph: RoundingGraph, x: Node, *, bits: int) -> Node:
    return graph.unary("cut", x, bits)


@primitive("to_blocks")
def to_blocks(graph: RoundingGraph, x: Node, *, dtype: DataType, precise: bool, inplace: bool) -> Node:
    return graph.blocks(x, dtype, precise, -1)


# --- the vector unit ---------------------------------------------------------------------------------------------

HOST_FUNCTIONS = {
    "cos": "Cos", "exp": "Exp", "log": "Log", "mish": "mish", "reciprocal": "Reciprocal", "rsqrt": "rsqrt",
    "sigmoid": "Sigmoid", "silu": "silu", "sin": "Sin", "sqrt": "Sqrt", "swish": "silu", "tanh": "Tanh",
}  # fmt: skip
"""Stand-ins that are nodes."""

_KERNELS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "identity": lambda: (),
    "relu": lambda: (("at_least", 0.0),),
    "relu6": lambda: (("at_most", 6.0), ("at_least", 0.0)),
    "leaky_relu": lambda slope=0.01: (("leaky_relu", float32(slope)),),
    "abs": lambda: (("Abs",),),
    "neg": lambda: (("Neg",),),
    "hardtanh": lambda low=-1.0, high=1.0: (("at_least", float32(low)), ("at_most", float32(high))),
}
"""Kernels that are a few nodes between two stores, with their parameters."""


@primitive("unary")
def unary(graph: RoundingGraph, x: Node, *, name: str, params: tuple[float, ...], unit: VectorUnit) -> Node | None:
    if has_stand_in(name, unit):
        if name not in HOST_FUNCTIONS or params:
            return None
        value = graph.unary(HOST_FUNCTIONS[name], x)
        return value if unit.fp32_dest else graph.unary("to_bfloat16", value)
    if unit.exact or name not in _KERNELS:
        return None
    value = x if unit.fp32_dest else graph.unary("stored", x)
    for node, *numbers in _KERNELS[name](*params) if unit.fp32_dest or name != "relu" else [("Relu",)]:
        value = graph.unary(node, value, *numbers)  # a bfloat16 register has no -0, on which alone the two differ
    return value if unit.fp32_dest else graph.unary("stored", value)


@primitive("binary")
def binary(graph: RoundingGraph, a: Node, b: Node, *, name: str, unit: VectorUnit) -> Node | None:
    """Sums and differences; a product looks at zeros by itself."""
    operation = {"add": "add", "sub": "sub", "subtract": "sub"}.get(name)
    if unit.exact or operation is None:
        return None
    if unit.fp32_dest:
        return graph.binary(operation, a, b)
    total = graph.binary(operation, graph.unary("stored", a), graph.unary("stored", b))
    return graph.unary("stored", graph.unary("round_even", total))


# --- the matrix unit ---------------------------------------------------------------------------------------------


@primitive("sums")
def sums(graph: RoundingGraph, image: Node, weight: Node, *more: Node, plan: Plan) -> Node | None:
    repeats_border = plan.window.replicates and any(plan.window.padding)
    if more or weight.value is None or repeats_border or (plan.groups > 1 and not plan.is_whole):
        return None
    total = graph.sums(graph.permute(image, TO_IMAGE), weight, plan)
    return graph.reshape(graph.permute(total, FROM_IMAGE), (math.prod(total.shape) // total.shape[1], total.shape[1]))


@primitive("zeros_around")
def zeros_around(graph: RoundingGraph, image: Node, *, size: Any, first: Any, stride: Any) -> Node:
    return graph.permute(graph.spread(graph.permute(image, TO_IMAGE), size, first, stride), FROM_IMAGE)


@primitive("block_products")
def block_products(
    graph: RoundingGraph, a: Node, b: Node, *, depth: int, stored: DataType, fidelity: MathFidelity, fp32_dest: bool
) -> Node | None:
    """A product with a constant matrix is a convolution of one pixel after the other."""
    inner, columns = b.shape[-2:]
    if b.value is None or math.prod(b.shape[:-2]) != 1 or a.shape[-1] != inner:
        return None
    operands = effective_operands(b.value, b.value, fidelity)
    if operands is None:
        return None
    bits = {MathFidelity.HiFi4: ALL_BITS_B}.get(fidelity, HIGH_BITS_B)
    rows = math.prod(a.shape[:-1])
    image = graph.permute(graph.reshape(graph.unary("cut", a, bits), (1, 1, rows, inner)), TO_IMAGE)
    weight = graph.constant(operands[0].reshape(inner, columns).t().reshape(columns, inner, 1, 1).contiguous())
    pieces = tuple((Piece((0, 1), (at, min(at + depth, inner))),) for at in range(0, inner, depth))
    between: tuple[DataType | None, ...] = (stored,) if fp32_dest else (DataType.BFLOAT16, stored)
    narrow = bits <= _BFLOAT16_BITS
    total = graph.sums(image, weight, Plan(Window((1, 1)), 1, pieces, between, (), narrow=narrow))
    total = total if fp32_dest else graph.unary("round_away", total)
    return graph.reshape(graph.permute(total, FROM_IMAGE), (*a.shape[:-1], columns))
