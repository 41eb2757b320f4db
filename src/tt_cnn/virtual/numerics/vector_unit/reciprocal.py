# SPDX-License-Identifier: Apache-2.0
"""Reciprocals: a quadratic guess on the mantissa, Newton steps, and the exponent turned over by inverting its bits."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import INFINITY, MANTISSA, SIGN, as_float
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, round_to_bfloat16

# (constant, linear, quadratic) of the guess; the second set is tuned for one step and rounding to bfloat16.
GUESS = (2.121212482452392578125, 1.4545459747314453125, 0.3232325017452239990234375)
GUESS_BFLOAT16 = (2.1200883388519287109375, 1.4514148235321044921875, 0.32133400440216064453125)


def reciprocal_steps(unit: VectorUnit, x: Tensor, steps: int, *, to_bfloat16: bool = False) -> Tensor:
    """1 / x with `steps` Newton steps (at least one); `to_bfloat16` rounds the mantissa before it is scaled."""
    constant, linear, quadratic = GUESS_BFLOAT16 if to_bfloat16 else GUESS
    negative = as_float((lanes.bits(x) & MANTISSA) | (127 << 23) | SIGN)
    y = unit.mad(quadratic, negative, linear)
    y = unit.mad(y, negative, constant)
    for _ in range(max(steps, 1)):
        error = unit.mad(negative, y, 1.0)
        y = unit.mad(y, error, y)
    if to_bfloat16:
        y = round_to_bfloat16(y)
    scale = unit.mul(as_float(~lanes.bits(x) & INFINITY), 0.5)
    return lanes.copy_sign(unit.mul(y, scale), x)


def reciprocal_positive(unit: VectorUnit, x: Tensor) -> Tensor:
    """1 / x for x > 0 in the trigonometric kernels: a guess from the bits, then cubic refinement."""
    y = as_float(0xFEF392E0 - 0x100000000 - lanes.bits(x))
    error = unit.mad(x, y, 1.0)  # the guess is negative
    if unit.fp32_dest:
        y = unit.mad(y, error, y)
        error = unit.mad(x, y, 1.0)
    correction = unit.mad(error, error, error)
    return unit.mad(-y, correction, -y)


@unary("reciprocal", trust=Trust.RECORDED)
def reciprocal(unit: VectorUnit, x: Tensor) -> Tensor:
    if unit.approx:
        return reciprocal_steps(unit, x, 1)
    if unit.fp32_dest:
        return reciprocal_steps(unit, x, 2)
    return reciprocal_steps(unit, x, 1, to_bfloat16=True)


@unary("rdiv")
def rdiv(unit: VectorUnit, x: Tensor, value: float, rounding: str | None = None) -> Tensor:
    """value / x"""
    y = reciprocal_steps(unit, x, 2 if unit.fp32_dest and not unit.approx else 1)
    if not unit.approx:
        y = unit.round(y)
    result = unit.mul(y, value)
    return {None: lambda v: v, "trunc": torch.trunc, "floor": torch.floor}[rounding](result)
