# SPDX-License-Identifier: Apache-2.0
"""Ordinary numbers: what OpenVINO and ONNX Runtime take as torch does, and how it shows that there are others.

Both lose what is no ordinary number: in a fused Relu, in pools and maxima NaN becomes a number, and minus infinity the
smallest one. Operations that keep them would not be fused, and every replay would pay for what hardly ever happens.
So a replay is ordinary until something shows otherwise, and torch runs those that are not:

* an input with NaN, an infinity or a number beyond `LARGEST`, from which sums may overflow; a constant with such;
* a *witness* that is not finite: the sum of the values of an operation that makes infinities or NaN from ordinary
  numbers, such as a logarithm, computed by the engine beside its outputs;
* an output that is not finite, though nothing before it makes such values: something overflowed after all;
* a *size* that is small: OpenVINO's Mish is wrong by up to 1e-6, which is much where all its results are near 0. Some
  of them are looked at, and torch runs the replay where none is large.

What is not seen is an overflow within the graph, from inputs up to `LARGEST`, of which nothing is left in any output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.kernels import looks

LARGEST = 2.0**20
"""Images and features are far below; 32 orders of magnitude are left for what a network makes of them."""

_LOSING = {"Relu", "clip", "hardsigmoid", "HardSwish", "Exp", "max", "min", "div", "amax", "amin"}
"""Functions that lose such values on one of the engines. OpenVINO divides by multiplying with the reciprocal, which is
infinite for a denormal, and its exponentials are infinite from 88.4 on."""
_LOSING_KINDS = {"max_pool", "softmax", "quantize"}
_MAKING = {"Log", "Reciprocal", "Sqrt", "rsqrt", "Exp", "div", "pow"}
"""Functions that make such values from ordinary ones."""
_LEAST_DIVISOR = 2.0**-60
_ROUNDED = {"div", "Reciprocal", "Sqrt", "rsqrt"}
"""Functions that torch rounds once, so that 60 / 3 is 20; OpenVINO multiplies with reciprocals, which may be less."""
_JUMPING = {"Floor", "Ceil"}
_LEAST_SIZE = 2.0**-5
"""1e-6 is less than 1e-4 of it, with some room for what follows."""
_LOOKED_AT = 4096
"""Of each result, at the most."""


def witnesses(outputs: Sequence[Node]) -> list[Node]:
    """Sums to compute beside the outputs, of all values that are made and may be lost afterwards."""
    order = ordered(outputs)
    before_a_loss: set[int] = set()
    for node in reversed(order):
        if _loses(node) or id(node) in before_a_loss:
            before_a_loss.update(id(one) for one in node.inputs)
    made = [node for node in order if _makes(node) and (_loses(node) or id(node) in before_a_loss)]
    return [Node("reduce", (node,), ("sum", tuple(range(len(node.shape)))), (1,) * len(node.shape)) for node in made]


def sizes(outputs: Sequence[Node]) -> list[Node]:
    """The largest |value| in the middle of every Mish: looking at all would take long."""
    return [_size(node) for node in ordered(outputs) if node.kind == "unary" and node.params == ("mish",)]


def _size(node: Node) -> Node:
    shape = list(node.shape)
    for axis in reversed(range(len(shape))):  # of an image, first of all its columns and rows
        if math.prod(shape) > _LOOKED_AT:
            shape[axis] = 1
    starts = tuple(0 if m == n else n // 2 for m, n in zip(shape, node.shape, strict=True))
    stops = tuple(start + n for start, n in zip(starts, shape, strict=True))
    middle = Node("slice", (node,), (starts, stops, (1,) * len(shape)), tuple(shape))
    part = middle if stops != node.shape else node
    every = tuple(range(len(shape)))
    return Node("reduce", (Node("unary", (part,), ("Abs",), part.shape),), ("amax", every), (1,) * len(shape))


def are_large(found: Sequence[torch.Tensor]) -> bool:
    return all(float(size.max()) >= _LEAST_SIZE for size in found)


def has_others(outputs: Sequence[Node]) -> bool:
    """Whether a constant of the graph holds other numbers: then no replay is ordinary. An operation that takes it may
    lose them at once, so that no witness would see them."""
    return any(node.value is not None and not _is_finite(node.value) for node in ordered(outputs))


def jumps_on_quotients(outputs: Sequence[Node]) -> bool:
    """Whether a whole number is made of a quotient or a root, so that the last bit of it decides."""
    inexact: set[int] = set()
    for node in ordered(outputs):
        function = node.params[0] if node.kind in ("unary", "binary") else None
        if function in _ROUNDED or any(id(one) in inexact for one in node.inputs):
            inexact.add(id(node))
        if function in _JUMPING and id(node) in inexact:
            return True
    return False


def finite(outputs: Sequence[Node]) -> list[bool]:
    """Which outputs are finite for ordinary inputs, unless something overflows."""
    wild: set[int] = set()
    for node in ordered(outputs):
        if _makes(node) or any(id(one) in wild for one in node.inputs):
            wild.add(id(node))
    return [id(node) not in wild for node in outputs]


def are_ordinary(values: Sequence[torch.Tensor]) -> bool:
    return all(_is_ordinary(value) for value in values)


def _is_ordinary(value: torch.Tensor) -> bool:
    within = looks.are_within(value, LARGEST)
    if within is None and value.numel():
        low, high = value.aminmax()  # of NaN both are
        within = bool(low >= -LARGEST and high <= LARGEST)
    return within is not False


def are_finite(values: Sequence[torch.Tensor]) -> bool:
    """Or not: the sum of very large ones may overflow too."""
    return all(bool(torch.isfinite(value.sum())) for value in values)


def _loses(node: Node) -> bool:
    if node.kind == "conv":  # torch multiplies the padding too, which shows where a weight is not finite
        return _makes(node)
    return node.kind in _LOSING_KINDS or (node.kind in ("unary", "binary", "reduce") and node.params[0] in _LOSING)


def _makes(node: Node) -> bool:
    if node.kind == "pad":
        return not abs(node.params[2]) <= LARGEST
    if any(one.value is not None and not _is_finite(one.value) for one in node.inputs):
        return True
    if node.kind not in ("unary", "binary") or node.params[0] not in _MAKING:
        return False
    divisor = node.inputs[1].value if node.params == ("div",) else None
    return divisor is None or not bool((divisor.abs() >= _LEAST_DIVISOR).all())


def _is_finite(value: torch.Tensor) -> bool:
    return not value.is_floating_point() or bool(torch.isfinite(value).all())
