# SPDX-License-Identifier: Apache-2.0
"""Powers: 2 ** (y log2 x) with a cubic logarithm (bfloat16), or with split products (float32)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_float
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.exponential import ROUND_TO_INTEGER, exp_float32
from tt_cnn.virtual.numerics.vector_unit.registry import binary, unary
from tt_cnn.virtual.numerics.vector_unit.unit import Lane, VectorUnit, float32

_LOG_CUBIC = tuple(float.fromhex(c) for c in ("-0x1.952992p+0", "0x2.4f5388p+0", "-0xd.e712ap-4", "0x2.44734p-4"))
_ATANH_SERIES = (1.0, 1 / 3, 0.2, 1 / 7, 1 / 9, 1 / 11)
_EXP_SERIES = (1.0, 1.0, 0.5, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040)


def _power_bfloat16(unit: VectorUnit, base: Tensor, exponent: Lane, inv_ln2: float) -> Tensor:
    x = lanes.set_exponent(base.abs(), 127)
    log2 = unit.mad(unit.polynomial(x, *_LOG_CUBIC), inv_ln2, lanes.exponent(base).to(torch.float32))
    z = unit.mul(exponent, log2).clamp(min=-127.0)
    z_bits = lanes.truncated_integer(unit.add(lanes.add_exponent(z, 23), 1065353216.0))
    fraction = z_bits & 0x7FFFFF
    d2 = unit.mul(0.40196114e-7, (fraction + 0xF94EE7).to(torch.float32))
    d3 = (fraction + 0x560E).to(torch.float32)
    mantissa = lanes.truncated_integer(unit.mul(d2, d3))
    return lanes.set_exponent(as_float(mantissa), lanes.biased_exponent(as_float(z_bits)))


def _split(unit: VectorUnit, x: Lane) -> tuple[Tensor, Tensor]:
    """Veltkamp's split: x as the sum of two halves that multiply without error."""
    scaled = unit.mul(x, 4097.0)
    high = unit.sub(scaled, unit.sub(scaled, x))
    return high, unit.sub(x, high)


def _power_float32(
    unit: VectorUnit, base: Tensor, exponent: Tensor, inv_ln2: float, guess: tuple[float, float]
) -> Tensor:
    magnitude = base.abs()
    m = lanes.set_exponent(magnitude, 127)
    k = lanes.exponent(magnitude)
    upper = m >= 1.4142135381698608
    m = torch.where(upper, m * 0.5, m)
    k = torch.where(upper, k + 1, k).to(torch.float32)
    above = unit.add(m, 1.0)
    inverse = unit.mad(-guess[1], above, guess[0])
    for _ in range(3):
        inverse = unit.mul(inverse, unit.mad(-above, inverse, 2.0))
    z = unit.mul(unit.sub(m, 1.0), inverse)
    ln_m = unit.mul(2.0, unit.mul(z, unit.polynomial(unit.mul(z, z), *_ATANH_SERIES)))
    high, low = _split(unit, exponent)
    z_high = unit.mul(high, k)
    z_low = unit.mad(low, k, unit.mul(exponent, unit.mul(ln_m, inv_ln2)))
    s = unit.add(z_high, z_low)
    return torch.stack((s, unit.sub(z_low, unit.sub(s, z_high))))


def _sign_and_domain(base: Tensor, exponent: Tensor, y: Tensor) -> Tensor:
    """Negative bases: the sign of odd powers, NaN for powers that are not whole."""
    whole = lanes.to_nearest_integer(exponent, 32767)
    odd = (whole.abs().to(torch.int32) & 1) == 1
    signed = torch.where(odd, -y.abs(), y.abs())
    return torch.where(base < 0, torch.where(whole == exponent, signed, math.nan), y)


@binary("pow")
def power(unit: VectorUnit, base: Tensor, exponent: Tensor) -> Tensor:
    base, exponent = torch.broadcast_tensors(base, exponent)
    zero_base = base == 0
    if unit.fp32_dest:
        s, e = _power_float32(unit, base, exponent, 1.442695, (1.0, 0.2426406871192851))
        low = s < -127.0
        s, e = torch.where(low, -127.0, s), torch.where(low, 0.0, e)
        k = unit.sub(unit.add(s, ROUND_TO_INTEGER), ROUND_TO_INTEGER)
        y = exp_float32(unit, unit.mul(unit.add(unit.sub(s, k), e), 0.693147180559945309))
        biased = lanes.biased_exponent(y) + lanes.whole(k)
        y = torch.where(biased >= 255, math.inf, lanes.set_exponent(y, biased))
        y = _sign_and_domain(base, exponent, y)
        zero = torch.where(exponent < 0, math.inf, 0.0)
        return torch.where(zero_base & (exponent != 0), zero, y)
    y = _sign_and_domain(base, exponent, _power_bfloat16(unit, base, exponent, 1.442695))
    zero = torch.where(exponent < 0, math.nan, 0.0)
    return unit.round(torch.where(zero_base & (exponent != 0), zero, y))


@unary("pow")
def power_scalar(unit: VectorUnit, x: Tensor, exponent: float) -> Tensor:
    """The powers 0 to 3 by repeated multiplication, others by logarithms."""
    if exponent in (0, 1, 2, 3):
        return power_iterative(unit, x, int(exponent))
    exponent = float32(exponent)
    exponents = torch.full_like(x, exponent)
    if unit.fp32_dest:
        s, e = _power_float32(unit, x, exponents, 1.4426950408889634, (1.003, 0.244))
        s = s.clamp(min=float.fromhex("-0x7e.ffff8p0"))
        k = unit.sub(unit.add(s, ROUND_TO_INTEGER), ROUND_TO_INTEGER)
        f = unit.add(unit.sub(s, k), e)
        p = unit.polynomial(unit.mad(f, 0.693359375, unit.mul(f, -2.12194440e-4)), *_EXP_SERIES)
        y = lanes.set_exponent(p, lanes.biased_exponent(p) + lanes.whole(k))
        y = torch.where(s >= 128.0, math.inf, y)
    else:
        y = _power_bfloat16(unit, x, exponent, 1.4426950408889634)
    y = _sign_and_domain(x, exponents, y)
    return unit.round(torch.where(x == 0, 0.0 if exponent >= 0 else math.nan, y))


def power_iterative(unit: VectorUnit, x: Tensor, exponent: int) -> Tensor:
    """x ** exponent in order of the exponent's bits; the result is not rounded."""
    if exponent == 0:
        return torch.ones_like(x)
    result, left = x, exponent - 1
    while left:
        if left & 1:
            result = unit.mul(result, x)
        x = unit.mul(x, x)
        left >>= 1
    return result


@unary("rpow")
def rpow(unit: VectorUnit, x: Tensor, base: float) -> Tensor:
    """base ** x"""
    return power(unit, torch.full_like(x, float32(base)), x)
