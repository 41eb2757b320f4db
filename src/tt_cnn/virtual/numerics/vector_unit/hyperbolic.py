# SPDX-License-Identifier: Apache-2.0
"""tanh, sinh, cosh, their inverses, and tanhshrink."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_float
from tt_cnn.virtual.numerics.vector_unit import lanes, tables
from tt_cnn.virtual.numerics.vector_unit.exponential import exp_float32
from tt_cnn.virtual.numerics.vector_unit.logarithm import log1p_value
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_positive, reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.roots import sqrt_not_negative
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit

_TANH_TABLE = tables.six_pieces(
    (0.96191406, 0.0),
    (0.57617188, 0.192871094),
    (0.28710938, 0.48193359),
    (0.0964355469, 0.76806641),
    (0.0390625, 0.8828125),
    (0.0, 1.0),
)
_TANH_BFLOAT16 = (
    0.0,
    0.999004364013671875,
    3.0897438526153564453125e-2,
    -0.4890659749507904052734375,
    0.281917631626129150390625,
    -6.6649019718170166015625e-2,
    5.876733921468257904052734375e-3,
)
_LARGE = 268435456.0
_LN2 = 0.6931471805599453


def tanh_float32(unit: VectorUnit, x: Tensor) -> Tensor:
    """tanh to float32 accuracy: (e - 1) / (e + 1) with e = exp(2|x|), both in halves of themselves."""
    a = unit.add(x, x).abs()
    j = lanes.to_nearest_integer(unit.mul(x, 2.0 * 1.442695).abs(), 255)
    f = unit.mad(j, -0.6931471805599453, a)
    r = unit.polynomial(f, 0.5, 1.666667163e-1, 4.166680202e-2, 8.331298828e-3, 1.393318176e-3, 1.974105835e-04)
    r = unit.mad(r, unit.mul(f, f), f)
    scale = lanes.set_exponent(torch.zeros_like(x), j.to(torch.int32) + 126)
    below = unit.mad(r, scale, unit.sub(scale, 0.5))
    above = unit.add(below, 1.0)
    guess = as_float((0xFEF30000 - 0x100000000) - lanes.bits(above))
    t = unit.mad(above, guess, 1.0)
    guess = unit.mad(guess, unit.mad(t, t, t), guess)
    quotient = unit.mul(below, guess)
    rest = unit.mad(above, quotient, below)
    y = torch.where(lanes.biased_exponent(x) >= 115, unit.mad(rest, guess, quotient), x)
    y = torch.where(j < 61, y, 1.0)
    return torch.where(torch.isnan(x), x, lanes.copy_sign(y, x))


@unary("tanh", trust=Trust.RECORDED)
def tanh(unit: VectorUnit, x: Tensor) -> Tensor:
    if unit.approx:
        return lanes.copy_sign(tables.evaluate(unit, x, _TANH_TABLE), x)
    if unit.fp32_dest:
        return tanh_float32(unit, x)
    y = unit.polynomial(x.abs(), *_TANH_BFLOAT16).clamp(max=1.0)
    return unit.round(lanes.copy_sign(y, x))


@unary("tanhshrink")
def tanhshrink(unit: VectorUnit, x: Tensor) -> Tensor:
    """x - tanh(x)"""
    magnitude = x.abs()
    u = unit.mul(x, x)
    if unit.fp32_dest:
        q = unit.polynomial(
            u,
            3.3333331347e-01,
            -1.3333128393e-01,
            5.3934831172e-02,
            -2.1660288796e-02,
            8.2192532718e-03,
            -2.5107525289e-03,
            4.2079269770e-04,
        )
        e = exp_float32(unit, unit.mul(-2.0, magnitude.clamp(max=9.0)))
        t = unit.mad(2.0, reciprocal_steps(unit, unit.add(1.0, e), 2), -1.0)
        outer = lanes.copy_sign(unit.sub(magnitude, t), x)
    else:
        q = unit.polynomial(u, 3.3329936862e-01, -1.3223160803e-01, 4.8076551408e-02, -1.0762925260e-02)
        p = unit.polynomial(magnitude, 6.1829000893e-02, 1.0561303143e00, -4.0859283753e-01, 5.3348409333e-02)
        outer = unit.sub(x, lanes.copy_sign(p.clamp(max=1.0), x))
    return unit.round(torch.where(magnitude > 1.0, outer, unit.mul(unit.mul(x, u), q)))


@unary("cosh")
def cosh(unit: VectorUnit, x: Tensor) -> Tensor:
    """2 q + 1 / (8 q) with q = exp(|x|) / 4, which does not overflow before cosh does."""
    a = x.abs()
    j = lanes.to_nearest_integer(unit.mul(a, 1.442695), 255)
    if unit.fp32_dest:
        f = unit.mad(j, -1.42860677e-6, unit.mad(j, -0.693145752, a))
        r = unit.polynomial(f, 1.0, 1.0, 4.99999851e-1, 1.66664720e-1, 4.16695364e-2, 8.37312452e-3, 1.37805939e-3)
    else:
        f = unit.mad(j, -_LN2, a)
        r = unit.polynomial(f, 1.0, 0.999963462, 0.500122011, 0.168174848, 0.038877178)
    biased = j.to(torch.int32) + 125
    q = torch.where(biased < 255, unit.mul(r, as_float((biased & 0xFF) << 23)), a * math.inf)
    y = unit.add(q, q)
    small = unit.mul(reciprocal_positive(unit, q), 0.125)
    return unit.round(torch.where(lanes.exponent(q) < 24, unit.add(y, small), y))


@unary("sinh")
def sinh(unit: VectorUnit, x: Tensor) -> Tensor:
    """2 q + 2 q / (4 q + 1) with q = (exp(|x|) - 1) / 4."""
    a = x.abs()
    j = lanes.to_nearest_integer(unit.mul(x, 1.442695).abs(), 255)
    if unit.fp32_dest:
        f = unit.mad(j, -1.42860677e-6, unit.mad(j, -0.693145752, a))
        r = unit.polynomial(
            f, 4.999999702e-1, 1.666667163e-1, 4.166680202e-2, 8.333439939e-3, 1.393107930e-3, 1.974105835e-04
        )
    else:
        f = unit.mad(j, -_LN2, a)
        r = unit.polynomial(f, 0.5, 1.666259766e-01, 4.177856445e-02, 8.361816406e-03)
    r = unit.mad(r, unit.mul(f, f), f)
    i = j.to(torch.int32)
    scale = as_float((i << 23) + 0x3E800000)
    q = torch.where(i < 130, unit.mad(r, scale, unit.sub(scale, 0.25)), a * math.inf)
    inverse = reciprocal_positive(unit, unit.mad(4.0, q, 1.0))
    twice = unit.add(q, q)
    size = lanes.exponent(q)
    y = torch.where(size < 23, unit.mad(twice, inverse, twice), twice)
    return unit.round(lanes.copy_sign(torch.where(size >= -27, y, x), x))


@unary("acosh")
def acosh(unit: VectorUnit, x: Tensor) -> Tensor:
    """log1p((x - 1) + sqrt((x + 1)(x - 1)))"""
    below = unit.sub(x, 1.0)
    root = sqrt_not_negative(unit, unit.mul(unit.add(x, 1.0), below))
    argument = unit.store(torch.where(x < _LARGE, unit.add(below, root), below))
    y = log1p_value(unit, argument)
    y = torch.where(x >= _LARGE, unit.add(y, _LN2), y)
    return unit.round(torch.where(x == 1.0, 0.0, torch.where(x < 1.0, math.nan, y)))


@unary("asinh")
def asinh(unit: VectorUnit, x: Tensor) -> Tensor:
    """A polynomial below 0.75, else log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))."""
    a = x.abs()
    square = unit.mul(x, x)
    root = sqrt_not_negative(unit, unit.mad(x, x, 1.0))
    argument = unit.mad(square, reciprocal_positive(unit, unit.add(1.0, root)), a)
    argument = torch.where(a >= _LARGE, unit.sub(a, 1.0), torch.where(a >= 0.75, argument, 0.0))
    y = log1p_value(unit, unit.store(argument))
    y = torch.where(a >= _LARGE, unit.add(y, _LN2), y)
    series = unit.polynomial(
        square,
        1.0,
        -1.666652262e-01,
        7.495806366e-02,
        -4.417778924e-02,
        2.785361186e-02,
        -1.484858524e-02,
        4.375355784e-03,
    )
    return unit.round(lanes.copy_sign(torch.where(a < 0.75, unit.mul(a, series), y), x))


@unary("atanh")
def atanh(unit: VectorUnit, x: Tensor) -> Tensor:
    """log1p(2 |x| / (1 - |x|)) / 2"""
    magnitude = x.abs()
    a = torch.where(magnitude >= 1.0, 0.0, magnitude)
    argument = unit.mul(unit.add(a, a), reciprocal_positive(unit, unit.sub(1.0, a)))
    y = lanes.copy_sign(unit.mul(0.5, log1p_value(unit, unit.store(argument))), x)
    y = torch.where(magnitude == 1.0, torch.copysign(torch.full_like(x, math.inf), x), y)
    return unit.round(torch.where(magnitude > 1.0, math.nan, y))
