# SPDX-License-Identifier: Apache-2.0
"""Plain arithmetic on one tensor: signs, squares, a scalar on the right or left, remainders."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Kernel, Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32

_SIGNS: dict[str, Kernel] = {
    "identity": lambda unit, x: x,
    "abs": lambda unit, x: x.abs(),
    "neg": lambda unit, x: -x,
}
_UNROUNDED: dict[str, Kernel] = {
    "add_unary": lambda unit, x, value: unit.add(x, value),
    "sub_unary": lambda unit, x, value: unit.sub(x, value),
    "mul_unary": lambda unit, x, value: unit.mul(x, value),
    "deg2rad": lambda unit, x: unit.mul(x, math.pi / 180.0),
    "rad2deg": lambda unit, x: unit.mul(x, 180.0 / math.pi),
}
for _name, _kernel in _SIGNS.items():
    unary(_name, trust=Trust.RECORDED)(_kernel)
for _name, _kernel in _UNROUNDED.items():
    unary(_name)(_kernel)


@unary("square", trust=Trust.RECORDED)
def square(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round_even(unit.mul(x, x))


@unary("div_unary")
def div_scalar(unit: VectorUnit, x: Tensor, value: float) -> Tensor:
    """Multiplies with the reciprocal, which the host computes."""
    return unit.mul(x, float32(1.0 / float32(value)))


@unary("rsub")
def rsub_scalar(unit: VectorUnit, x: Tensor, value: float) -> Tensor:
    """value - x"""
    return unit.round_even(unit.sub(value, x))


def _whole_quotient(unit: VectorUnit, magnitude: Tensor, inverse: float) -> tuple[Tensor, Tensor]:
    quotient = unit.mul(magnitude, inverse)
    return quotient, torch.where(lanes.exponent(quotient) < 0, 0.0, quotient.trunc())


def _settle(unit: VectorUnit, v: Tensor, size: float) -> Tensor:
    """The kernels' last corrections: subtract while too large, and no full size left over."""
    for _ in range(10):
        v = torch.where(v >= size, unit.sub(v, size), v)
    return torch.where(v.abs() == size, 0.0, v) if size else torch.full_like(v, math.nan)


@unary("fmod_unary")
def fmod_scalar(unit: VectorUnit, x: Tensor, value: float) -> Tensor:
    """Remainder with the sign of x."""
    size = abs(float32(value))
    magnitude = x.abs()
    quotient, whole = _whole_quotient(unit, magnitude, float32(1.0 / size) if size else math.inf)
    too_large = (lanes.exponent(quotient) < 23) & (unit.mul(whole, size) > magnitude)
    whole = torch.where(too_large, unit.sub(whole, 1.0), whole)
    return _settle(unit, lanes.copy_sign(unit.mad(-whole, size, magnitude), x), size)


@unary("remainder_unary")
def remainder_scalar(unit: VectorUnit, x: Tensor, value: float) -> Tensor:
    """Remainder with the sign of the divisor."""
    value = float32(value)
    size = abs(value)
    magnitude = x.abs()
    _, whole = _whole_quotient(unit, magnitude, float32(1.0 / size) if size else math.inf)
    v = unit.mad(-whole, size, magnitude)
    v = torch.where((x < 0) & (v != 0), unit.sub(size, v), v)
    if value < 0:
        v = torch.where(v != 0, unit.add(v, value), v)
    return _settle(unit, torch.copysign(v, torch.full_like(v, value)), size)
