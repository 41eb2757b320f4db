# SPDX-License-Identifier: Apache-2.0
"""sin, cos, tan and their inverses: multiples of pi (or pi / 2) subtracted in four parts, then short polynomials."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import SIGN, as_float
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.exponential import ROUND_TO_INTEGER
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_positive, reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import unary
from tt_cnn.virtual.numerics.vector_unit.roots import sqrt_of_normal
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit


def _hex(*constants: str) -> tuple[float, ...]:
    return tuple(float.fromhex(constant) for constant in constants)


_PI_PARTS = _hex("-0x1.92p+1", "-0x1.fbp-11", "-0x1.51p-21", "-0x1.0b4612p-33")
_HALF_PI_PARTS = tuple(part / 2 for part in _PI_PARTS)
_SINE = _hex("-0x1.5554a4p-3", "0x1.10c2a2p-7", "-0x1.8b10a4p-13")
_SINE_FLOAT32 = _hex("-0x1.55554cp-3", "0x1.110edap-7", "-0x1.9f70fp-13", "0x1.5dc908p-19")
_TANGENT = _hex("0x1.55953p-2", "0x1.02b98p-3", "0x1.4f1f4ep-4")
_TANGENT_FLOAT32 = _hex(
    "0x1.555556p-2",
    "0x1.111072p-3",
    "0x1.ba5716p-5",
    "0x1.620abcp-6",
    "0x1.4787dp-7",
    "0x1.2b404p-10",
    "0x1.fa9f82p-9",
)
_ATAN = (
    0.999787867069244384765625,
    -0.325808584690093994140625,
    0.1555790007114410400390625,
    -4.4326744973659515380859375e-2,
)
_ATAN_FLOAT32 = _hex(
    "-0x1.555552p-2",
    "0x1.999384p-3",
    "-0x1.24p-3",
    "0x1.bd4p-4",
    "-0x1.48cp-4",
    "0x1.93p-5",
    "-0x1.4bcp-6",
    "0x1.01cp-8",
)
_ASIN = (
    0.999978601932525634765625,
    0.16771225631237030029296875,
    0.06381262838840484619140625,
    0.083148844540119171142578125,
)
_ASIN_FLOAT32 = _hex("0x1.55578cp-3", "0x1.329a74p-4", "0x1.7dcp-5", "0x1.364p-6", "0x1.9e0000p-5")
_ACOS_FLOAT32 = _hex("0x1.555552p-3", "0x1.33411ep-4", "0x1.6acp-5", "0x1.158p-5", "0x1.ca0000p-8", "0x1.830p-5")
_HALF_PI = 1.5707963705062866
_INV_PI, _TWO_OVER_PI = 0.31830987334251404, 0.6366197466850281


def _reduce(unit: VectorUnit, x: Tensor, j: Tensor, parts: tuple[float, ...]) -> Tensor:
    for part in parts:
        x = unit.mad(j, part, x)
    return x


def _sine_polynomial(unit: VectorUnit, a: Tensor, odd: Tensor) -> Tensor:
    """sin(a), with the sign turned where the subtracted multiple was odd."""
    s = unit.mul(a, a)
    a = as_float(lanes.bits(a) ^ odd)
    r = unit.polynomial(s, *(_SINE_FLOAT32 if unit.fp32_dest else _SINE))
    return unit.round(unit.mad(r, unit.mul(a, s), a))


def _parity_as_sign(shifted: Tensor) -> Tensor:
    return (lanes.bits(shifted) << 31) & SIGN


@unary("sin")
def sin(unit: VectorUnit, x: Tensor) -> Tensor:
    shifted = unit.mad(x, _INV_PI, ROUND_TO_INTEGER)
    a = _reduce(unit, x, unit.sub(shifted, ROUND_TO_INTEGER), _PI_PARTS)
    return _sine_polynomial(unit, a, _parity_as_sign(shifted))


@unary("cos")
def cos(unit: VectorUnit, x: Tensor) -> Tensor:
    shifted = unit.add(unit.mad(x, _INV_PI, 0.5), ROUND_TO_INTEGER)
    j = unit.mad(unit.sub(shifted, ROUND_TO_INTEGER), 2.0, -1.0)
    return _sine_polynomial(unit, _reduce(unit, x, j, _HALF_PI_PARTS), _parity_as_sign(shifted))


@unary("tan")
def tan(unit: VectorUnit, x: Tensor) -> Tensor:
    shifted = unit.mad(x, _TWO_OVER_PI, ROUND_TO_INTEGER)
    a = _reduce(unit, x, unit.sub(shifted, ROUND_TO_INTEGER), _HALF_PI_PARTS)
    s = unit.mul(a, a)
    t = unit.mul(unit.polynomial(s, *(_TANGENT_FLOAT32 if unit.fp32_dest else _TANGENT)), s)
    r = unit.mad(t, a, a)
    inverse = -reciprocal_steps(unit, r, 1)  # the cotangent, for odd multiples of pi / 2
    if unit.fp32_dest:
        rest = unit.mad(t, a, unit.sub(a, r))
        error = unit.mad(rest, inverse, unit.mad(r, inverse, 1.0))
        inverse = unit.mad(error, inverse, inverse)
    return unit.round(torch.where(_parity_as_sign(shifted) < 0, inverse, r))


@unary("atan")
def atan(unit: VectorUnit, x: Tensor) -> Tensor:
    a = x.abs()
    if unit.fp32_dest:
        large = lanes.exponent(a) >= 0
        t = torch.where(large, torch.where(lanes.exponent(a) < 26, reciprocal_positive(unit, a), 0.0), a)
        s = unit.mul(t, t)
        y = unit.mad(unit.polynomial(s, *_ATAN_FLOAT32), unit.mul(s, t), t)
    else:
        large = a >= 1.0
        t = torch.where(large, reciprocal_steps(unit, a, 2), a)
        y = unit.mul(unit.polynomial(unit.mul(t, t), *_ATAN), t)
    y = torch.where(large, unit.sub(_HALF_PI, y), y)
    return unit.round(torch.where(torch.isnan(x), x, lanes.copy_sign(y, x)))


def _asin_bfloat16(unit: VectorUnit, x: Tensor) -> Tensor:
    """Near the ends by way of the half angle: asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2))."""
    a = x.abs()
    end = a >= 0.625
    z = torch.where(end, sqrt_of_normal(unit, unit.mul(unit.sub(1.0, a), 0.5)), a)
    y = unit.mul(z, unit.polynomial(unit.mul(z, z), *_ASIN))
    return lanes.copy_sign(torch.where(end, unit.mad(-2.0, y, _HALF_PI), y), x)


def _end_root(unit: VectorUnit, x: Tensor) -> Tensor:
    y = as_float(0x5F1110A0 - ((lanes.bits(x) >> 1) & 0x7FFFFFFF))
    c = unit.mul(-y, unit.mul(x, y))
    y = unit.mul(y, unit.mad(c, unit.add(c, 2.2533049), 2.2825186))
    xy = unit.mul(x, y)
    return unit.mad(unit.mad(-y, xy, 1.0), unit.mul(0.5, xy), xy)


def _arc_float32(unit: VectorUnit, x: Tensor, tail: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """(asin(z), whether z is the half-angle root) of float32's asin and acos."""
    a = x.abs()
    end = a >= 0.5625
    z = torch.where(end, _end_root(unit, unit.mul(unit.sub(1.0, a), 0.5)), a)
    s = unit.mul(z, z)
    return unit.mad(unit.mul(unit.polynomial(s, *tail), s), z, z), end


@unary("asin")
def asin(unit: VectorUnit, x: Tensor) -> Tensor:
    if unit.fp32_dest:
        r, end = _arc_float32(unit, x, _ASIN_FLOAT32)
        y = lanes.copy_sign(torch.where(end, unit.mad(-2.0, r, _HALF_PI), r), x)
    else:
        y = _asin_bfloat16(unit, x)
    return unit.round(torch.where(x.abs() <= 1.0, y, math.nan))


@unary("acos")
def acos(unit: VectorUnit, x: Tensor) -> Tensor:
    if unit.fp32_dest:
        r, end = _arc_float32(unit, x, _ACOS_FLOAT32)
        r = torch.where((x < 0) ^ end, r, -r)
        r = torch.where(end & (x >= 0), r, unit.add(r, _HALF_PI))
        y = torch.where(end, unit.add(r, r), r)
    else:
        y = unit.sub(_HALF_PI, _asin_bfloat16(unit, x))
    return unit.round(torch.where(x.abs() <= 1.0, y, math.nan))
