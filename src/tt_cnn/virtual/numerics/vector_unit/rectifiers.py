"""Piecewise linear activations. Where a kernel does not round, a bfloat16 register truncates its result."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32


@unary("relu", trust=Trust.RECORDED)
def relu(unit: VectorUnit, x: Tensor) -> Tensor:
    return x.clamp(min=0.0)


@unary("relu6", trust=Trust.RECORDED)
def relu6(unit: VectorUnit, x: Tensor) -> Tensor:
    return x.clamp(0.0, 6.0)


@unary("relu_max")
def relu_max(unit: VectorUnit, x: Tensor, upper: float) -> Tensor:
    return x.clamp(max=float32(upper)).clamp(min=0.0)


@unary("relu_min")
def relu_min(unit: VectorUnit, x: Tensor, lower: float) -> Tensor:
    return x.clamp(min=float32(lower))


@unary("leaky_relu", "prelu", trust=Trust.RECORDED)
def leaky_relu(unit: VectorUnit, x: Tensor, slope: float = 0.01) -> Tensor:
    return torch.where(x < 0, unit.mul(x, slope), x)


@unary("threshold")
def threshold(unit: VectorUnit, x: Tensor, limit: float, value: float) -> Tensor:
    return torch.where(x <= float32(limit), float32(value), x)


@unary("clamp", "clip")
def clamp(unit: VectorUnit, x: Tensor, lower: float | None = None, upper: float | None = None) -> Tensor:
    lower, upper = (bound if bound is None else float32(bound) for bound in (lower, upper))
    return x if lower is None and upper is None else x.clamp(lower, upper)


@unary("hardtanh")
def hardtanh(unit: VectorUnit, x: Tensor, lower: float = -1.0, upper: float = 1.0) -> Tensor:
    return clamp(unit, x, lower, upper)


@unary("hardsigmoid", trust=Trust.RECORDED)
def hardsigmoid(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.mad(x, 0.1666666716337204, 0.5).clamp(0.0, 1.0)


@unary("hardmish")
def hardmish(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.mul(x, unit.mad(x, 0.5, 1.0).clamp(0.0, 1.0))


@unary("hardshrink")
def hardshrink(unit: VectorUnit, x: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where(x.abs() <= float32(lambd), 0.0, x)


@unary("softshrink")
def softshrink(unit: VectorUnit, x: Tensor, lambd: float = 0.5) -> Tensor:
    lambd = float32(lambd)
    return unit.sub(x, x.clamp(-lambd, lambd))
