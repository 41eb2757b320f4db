# SPDX-License-Identifier: Apache-2.0
"""exp and its relatives.

The bfloat16 kernels build 2 ** t in the bits of a float: t + 127 is shifted so that its whole part lands in the
exponent, and a quadratic corrects the fraction, which lands in the mantissa (Moroz et al., "Simple multiple-precision
algorithms for exponential functions", 2022). The float32 kernels reduce by multiples of ln 2 (Cody and Waite) and use
a polynomial on what is left.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_float
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32, from_bits

LOG2_E = 1.4426950216293335
EXP2_C0, EXP2_C1, EXP2_C2 = 1.0017248, 7.839635491371155e-08, 4.791750143340323e-15
# The kernel behind ttnn.exp keeps its constant term in half precision.
EXP_OP_C0 = 1.001953125
ROUND_TO_INTEGER = 12582912.0  # 1.5 * 2 ** 23: adding it leaves the nearest integer in the low mantissa bits
LN2_HIGH, LN2_LOW = -0.693115234375, -3.19461832987e-05
INV_LN2 = 1.4426950408889634


def exp2_from_biased(unit: VectorUnit, biased: Tensor, *coefficients: float) -> Tensor:
    """2 ** (biased - 127) for 0 <= biased < 256, the polynomial's argument being the fraction times 2 ** 23."""
    shifted = as_float(lanes.shift(lanes.significand(biased), lanes.exponent(biased)))
    fraction = lanes.mantissa(shifted).to(torch.float32)
    return lanes.set_exponent(unit.polynomial(fraction, *coefficients), lanes.biased_exponent(shifted))


def exp_bfloat16(unit: VectorUnit, x: Tensor, c0: float = EXP2_C0) -> Tensor:
    """exp to bfloat16 accuracy, not rounded yet."""
    biased = unit.mad(x, LOG2_E, 127.0).clamp(0.0, 255.0)
    return exp2_from_biased(unit, biased, c0, EXP2_C1, EXP2_C2)


def exp_float32(unit: VectorUnit, x: Tensor) -> Tensor:
    """exp to float32 accuracy, 0 and inf outside the range."""
    j = lanes.to_nearest_integer(unit.mul(1.442695, x), 32767)
    f = unit.mad(j, -6.93145752e-1, x)
    f = unit.mad(j, -1.42860677e-6, f)
    r = unit.polynomial(f, 1.0, 1.0, 4.99999851e-1, 1.66664720e-1, 4.16695364e-2, 8.37312452e-3, 1.37805939e-3)
    e = lanes.biased_exponent(r) + j.to(torch.int32)
    y = torch.where(e >= 255, math.inf, torch.where(e >= 1, lanes.set_exponent(r, e), 0.0))
    return torch.where(torch.isnan(x), x, y)


def exp_accurate(unit: VectorUnit, x: Tensor) -> Tensor:
    """The accurate exp that other kernels call: rounded to bfloat16 where the register is."""
    return exp_float32(unit, x) if unit.fp32_dest else unit.round(exp_bfloat16(unit, x))


def exp_fast(unit: VectorUnit, x: Tensor) -> Tensor:
    """Schraudolph's exp: a linear map to the bits of the result, 8 mantissa bits of it."""
    y = unit.mad(x.clamp(min=-88.5), 256.0 * float32(INV_LN2), 32500.818359375)
    return as_float(lanes.to_nearest_integer(y.abs(), 65535).to(torch.int32) << 15)


def reduce_by_ln2(unit: VectorUnit, t: Tensor) -> tuple[Tensor, Tensor]:
    """(k, r) with t = k * ln 2 + r, |r| <= ln 2 / 2, k rounded to nearest even."""
    shifted = unit.add(unit.mul(t, INV_LN2), ROUND_TO_INTEGER)
    k = unit.sub(shifted, ROUND_TO_INTEGER)
    r = unit.mad(k, LN2_HIGH, t)
    return k, unit.mad(k, LN2_LOW, r)


def scale_by_power(y: Tensor, k: Tensor) -> Tensor:
    """y * 2 ** k by way of the exponent, 0 where it would become denormal."""
    e = lanes.biased_exponent(y) + lanes.whole(k)
    return torch.where(e > 0, lanes.set_exponent(y, e), 0.0)


def expm1_clamped(unit: VectorUnit, x: Tensor) -> Tensor:
    """exp(x) - 1 for the negative side of elu, selu and celu."""
    x = x.clamp(min=-87.0)
    shifted = unit.mad(x, INV_LN2, ROUND_TO_INTEGER)
    k = unit.sub(shifted, ROUND_TO_INTEGER)
    r = unit.mad(k, LN2_HIGH, x)
    r = unit.mad(k, LN2_LOW, r)
    if unit.fp32_input:
        h = unit.polynomial(r, 1.0, 0.5, 1.6666504741e-01, 4.1666239500e-02, 8.3691505715e-03, 1.3948583510e-03)
    else:
        h = unit.polynomial(r, 1.0, 4.9999371171e-01, 1.6666433215e-01, 4.1875664145e-02, 8.3751315251e-03)
    h = unit.mul(r, h)
    two_k = lanes.set_exponent(torch.ones_like(x), lanes.whole(k) + 127)
    return unit.mad(two_k, h, unit.sub(two_k, 1.0))


@unary("exp", trust=Trust.RECORDED)
def exp(unit: VectorUnit, x: Tensor) -> Tensor:
    if unit.approx:
        return exp_fast(unit, x)
    if unit.fp32_dest:
        return exp_float32(unit, x)
    return unit.round(exp_bfloat16(unit, x, EXP_OP_C0))


@unary("exp2")
def exp2(unit: VectorUnit, x: Tensor) -> Tensor:
    if not unit.fp32_dest:
        biased = unit.add(x, 127.0).clamp(0.0, 255.0)
        return unit.round(exp2_from_biased(unit, biased, EXP2_C0, EXP2_C1, EXP2_C2))
    j = lanes.to_nearest_integer(x, 32767)
    f = unit.sub(x, j)
    r = unit.polynomial(
        f,
        1.0,
        float.fromhex("0x1.62e42ep-1"),
        float.fromhex("0x1.ebfba0p-3"),
        float.fromhex("0x1.c6afd8p-5"),
        float.fromhex("0x1.3b4p-7"),
        float.fromhex("0x1.5f4p-10"),
        float.fromhex("0x1.41cp-13"),
    )
    e = lanes.biased_exponent(r) + j.to(torch.int32)
    y = torch.where(e >= 255, math.inf, torch.where(e >= 1, lanes.set_exponent(r, e), 0.0))
    return torch.where(torch.isnan(x), x, y)


@unary("expm1")
def expm1(unit: VectorUnit, x: Tensor) -> Tensor:
    shifted = unit.mad(1.442695, x, ROUND_TO_INTEGER)
    j = unit.sub(shifted, ROUND_TO_INTEGER)
    half_power = as_float((lanes.bits(shifted) << 23) + 0x3F000000)  # 2 ** (j - 1)
    jm2 = unit.add(j, -2.0)
    if unit.fp32_dest:
        f = unit.mad(j, -0.693145752, x)
        f = unit.mad(j, -1.42860677e-6, f)
        s = unit.mul(f, f)
        r = unit.polynomial(
            f, from_bits(0x3EFFFFFF), 1.666667163e-1, 4.166680202e-2, 8.333439939e-3, 1.393107930e-3, 1.974105835e-04
        )
        is_one = j == 1.0
        r = unit.mad(r, s, torch.where(is_one, unit.add(f, 0.5), f))
        y = unit.sub(half_power, 0.5)
        rest = unit.sub(unit.sub(half_power, y), 0.5)
        scaled = torch.where(is_one, r, unit.add(unit.mad(r, half_power, rest), y))
    else:
        f = unit.mad(j, -0.6931471805599453, x)
        s = unit.mul(f, f)
        r = unit.polynomial(f, 0.5, 1.666259766e-01, 4.177856445e-02, 8.361816406e-03)
        r = unit.mad(r, s, f)
        scaled = unit.mad(half_power, r, unit.sub(half_power, 0.5))
    saturated = torch.where(jm2 < 0, -0.5, jm2 * math.inf)
    scaled = torch.where(lanes.to_nearest_integer(jm2.abs(), 127) >= 127, saturated, scaled)
    return unit.round(torch.where(j != 0.0, unit.mul(scaled, 2.0), r))
