# SPDX-License-Identifier: Apache-2.0
"""Square and cube roots: a guess from the halved bits, then polynomial correction and a Newton step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import INFINITY, MAGNITUDE, as_float
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit


def _halved(x: Tensor) -> Tensor:
    return (lanes.bits(x) >> 1) & MAGNITUDE


def _root(unit: VectorUnit, x: Tensor, reciprocal: bool) -> Tensor:
    if unit.approx:
        y = as_float(0x5F0B3892 - _halved(x))
        c = unit.mul(x, y)
        t = unit.mad(-y, c, 1.89099014875)
        return unit.mul(y, t) if reciprocal else unit.mul(c, t)
    y = as_float(0x5F1110A0 - _halved(x))
    c = unit.mul(-y, unit.mul(x, y))
    y = unit.mul(y, unit.mad(c, unit.add(c, 2.2533049), 2.2825186))
    xy = unit.mul(x, y)
    rest = unit.mad(-y, xy, 1.0)
    if reciprocal:
        return unit.mad(rest, lanes.add_exponent(y, -1), y)
    return unit.mad(rest, unit.mul(0.5, xy), xy)


@unary("sqrt", trust=Trust.RECORDED)
def sqrt(unit: VectorUnit, x: Tensor) -> Tensor:
    y = torch.where(lanes.bits(x) == INFINITY, x, _root(unit, x, reciprocal=False))
    y = torch.where(x < 0, math.nan, y)
    return unit.round(torch.where(x == 0, x, y))


@unary("rsqrt", trust=Trust.RECORDED)
def rsqrt(unit: VectorUnit, x: Tensor) -> Tensor:
    y = torch.where(x < 0, math.nan, _root(unit, x, reciprocal=True))
    special = (lanes.bits(x) == INFINITY) | (x == 0)
    return unit.round(torch.where(special, as_float(INFINITY - lanes.bits(x)), y))


def sqrt_of_normal(unit: VectorUnit, x: Tensor) -> Tensor:
    """The older root some kernels keep: the famous magic number and two Newton steps."""
    y = as_float(0x5F370000 - _halved(x))
    minus_half = unit.mul(x, -0.5)
    for _ in range(2):
        y = unit.mul(unit.mad(unit.mul(y, y), minus_half, 1.5), y)
    return torch.where((x == 0) | ~torch.isfinite(x), x, unit.mul(y, x))


def sqrt_not_negative(unit: VectorUnit, x: Tensor) -> Tensor:
    """The root of the inverse hyperbolic kernels."""
    half = lanes.add_exponent(x, -1)
    y = as_float(0x5F1110A0 - _halved(x))
    for _ in range(3 if unit.fp32_dest else 2):
        y = unit.mul(y, unit.mad(-unit.mul(half, y), y, 1.5))
    a = unit.mul(x, y)
    a = unit.mad(unit.mul(0.5, unit.mad(-a, a, x)), y, a)
    return torch.where(x == 0, 0.0, a)


@unary("cbrt")
def cbrt(unit: VectorUnit, x: Tensor) -> Tensor:
    minus_third = float.fromhex("-0x1.555556p-10")
    c0, c1, c2 = (float.fromhex(c) for c in ("0x1.c09806p0", "-0x1.403e6cp0", "0x1.04cdb2p-1"))
    magnitude = x.abs()
    guess = unit.mad(lanes.bits(magnitude).to(torch.float32), minus_third, 1418472267.0 / 256.0 + 8388608.0)
    y = as_float(lanes.bits(guess) << 8)
    if not unit.fp32_dest:
        d = unit.mul(magnitude, unit.mul(y, y))
        c = unit.mul(d, y)
        t = unit.mad(c, unit.mad(c2, c, c1), c0)
        return unit.round(unit.mul(lanes.copy_sign(d, x), unit.mul(t, t)))
    c = unit.mul(unit.mul(magnitude, y), unit.mul(y, y))
    y = unit.mul(y, unit.mad(c, unit.mad(c2, c, c1), c0))
    d = unit.mul(magnitude, unit.mul(y, y))
    t = unit.mad(unit.mad(d, y, -1.0), minus_third * 256, 1.0)
    return unit.mul(lanes.copy_sign(d, x), unit.mul(t, t))
