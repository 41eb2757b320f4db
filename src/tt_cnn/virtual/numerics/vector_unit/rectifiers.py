# SPDX-License-Identifier: Apache-2.0
"""Piecewise linear activations. Where a kernel does not round, a bfloat16 register truncates its result."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import order
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32


@unary("relu", trust=Trust.RECORDED)
def relu(unit: VectorUnit, x: Tensor) -> Tensor:
    return order.at_least(x, 0.0)


@unary("relu6", trust=Trust.RECORDED)
def relu6(unit: VectorUnit, x: Tensor) -> Tensor:
    return relu_max(unit, x, 6.0)


@unary("relu_max")
def relu_max(unit: VectorUnit, x: Tensor, upper: float) -> Tensor:
    return order.at_least(order.at_most(x, float32(upper)), 0.0)


@unary("relu_min")
def relu_min(unit: VectorUnit, x: Tensor, lower: float) -> Tensor:
    return order.at_least(x, float32(lower))


@unary("leaky_relu", "prelu", trust=Trust.RECORDED)
def leaky_relu(unit: VectorUnit, x: Tensor, slope: float = 0.01) -> Tensor:
    return torch.where(x < 0, unit.mul(x, slope), x)


@unary("threshold")
def threshold(unit: VectorUnit, x: Tensor, limit: float, value: float) -> Tensor:
    return torch.where(x <= float32(limit), float32(value), x)


@unary("clamp", "clip")
def clamp(unit: VectorUnit, x: Tensor, lower: float | None = None, upper: float | None = None) -> Tensor:
    """Without one of the bounds TT-NN runs the other alone."""
    x = x if lower is None else order.at_least(x, float32(lower))
    return x if upper is None else order.at_most(x, float32(upper))


@unary("hardtanh")
def hardtanh(unit: VectorUnit, x: Tensor, lower: float = -1.0, upper: float = 1.0) -> Tensor:
    return clamp(unit, x, lower, upper)


@unary("hardsigmoid", trust=Trust.RECORDED)
def hardsigmoid(unit: VectorUnit, x: Tensor) -> Tensor:
    return relu_max(unit, unit.mad(x, 0.1666666716337204, 0.5), 1.0)


@unary("hardmish")
def hardmish(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.mul(x, clamp(unit, unit.mad(x, 0.5, 1.0), 0.0, 1.0))


@unary("hardshrink")
def hardshrink(unit: VectorUnit, x: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where(x.abs() <= float32(lambd), 0.0, x)


@unary("softshrink")
def softshrink(unit: VectorUnit, x: Tensor, lambd: float = 0.5) -> Tensor:
    return unit.sub(x, clamp(unit, x, -lambd, lambd))
