# SPDX-License-Identifier: Apache-2.0
"""Binary ops that run on the vector unit: both operands in the destination register."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import INFINITY, MAGNITUDE, as_float
from tt_cnn.virtual.numerics.steady import steady
from tt_cnn.virtual.numerics.vector_unit import lanes, order
from tt_cnn.virtual.numerics.vector_unit.exponential import (
    EXP2_C0,
    EXP2_C1,
    EXP2_C2,
    LOG2_E,
    exp2_from_biased,
    exp_float32,
)
from tt_cnn.virtual.numerics.vector_unit.logarithm import log1p_value
from tt_cnn.virtual.numerics.vector_unit.reciprocal import GUESS, reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import Kernel, Trust, binary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit


@binary("add")
def add(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    return unit.round_even(unit.add(a, b))


@binary("sub", "subtract")
def sub(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    return unit.round_even(unit.sub(a, b))


@binary("rsub")
def rsub(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    return unit.round_even(unit.sub(b, a))


@binary("mul", "multiply", trust=Trust.RECORDED)
def mul(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    product = unit.round_even(unit.mul(a, b))
    return product if unit.fp32_dest else torch.where((a == 0) | (b == 0), 0.0, product)


@binary("div", "divide", trust=Trust.RECORDED)
def div(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    if unit.fp32_dest:
        return _div_float32(unit, a, b)
    quotient = unit.mul(a, reciprocal_steps(unit, b, 2))
    by_zero = torch.where(a == 0, math.nan, lanes.copy_sign(torch.full_like(quotient, math.inf), a))
    return unit.round_even(torch.where(b == 0, by_zero, quotient))


def _div_float32(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    """The mantissas divided with a residual correction, the exponents put back in two halves."""
    a, b = torch.broadcast_tensors(a, b)
    ma, mb = lanes.set_exponent(a, 127), lanes.set_exponent(b, 127)
    constant, linear, quadratic = GUESS
    negative = lanes.set_sign(mb, True)
    r = unit.mad(unit.mad(quadratic, negative, linear), negative, constant)
    r = lanes.copy_sign(unit.mad(r, unit.mad(negative, r, 1.0), r), mb)
    q = unit.mul(ma, r)
    q = unit.mad(unit.mad(q, -mb, ma), r, q)
    ea, eb = lanes.biased_exponent(a), lanes.exponent(b)
    exponent = ea - eb + lanes.biased_exponent(q)
    half = (exponent >> 1) & MAGNITUDE
    result = unit.mul(lanes.set_exponent(q, half), lanes.set_exponent(torch.ones_like(q), exponent - half))
    ordinary = (ea >= 1) & (ea < 255) & (eb >= -126) & (eb < 128)
    scale = as_float((lanes.bits(b) & -0x800000) ^ INFINITY)
    special = torch.where(torch.isnan(b), b, unit.mul(a, scale))
    return torch.where(ordinary, result, special)


binary("maximum", "max")(lambda unit, a, b: order.larger(a, b))
binary("minimum", "min")(lambda unit, a, b: order.smaller(a, b))


@binary("fmod")
def fmod(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    """Remainder with the sign of a: one quotient, cut, and a correction where it was off by one."""
    size = b.abs()
    whole = unit.mul(a, reciprocal_steps(unit, b, 2)).trunc()
    r = unit.mad(-whole, b, a)
    r = torch.where(r.abs() >= size, torch.where(r >= 0, unit.sub(r, size), unit.add(r, size)), r)
    wrong = torch.where(a >= 0, r < 0, r > 0)
    r = torch.where(wrong, torch.where(a >= 0, unit.add(r, size), unit.sub(r, size)), r)
    r = torch.where(a == b, 0.0, r)
    return unit.round(torch.where(b == 0, math.nan, r))


def _log1p_of_unit(unit: VectorUnit, y: Tensor, *tail: float) -> Tensor:
    return unit.mad(unit.polynomial(y, *tail), unit.mul(y, y), y)


@binary("logaddexp")
def logaddexp(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    """max(a, b) + log(1 + exp(-|a - b|))"""
    gap = unit.sub(a, b).abs()
    if unit.fp32_dest:
        return unit.add(order.larger(a, b), log1p_value(unit, exp_float32(unit, -gap)))
    biased = unit.mad(-gap.clamp(max=88.0), LOG2_E, 127.0)
    e = unit.round(exp2_from_biased(unit, biased, EXP2_C0, EXP2_C1, EXP2_C2))
    tail = tuple(float.fromhex(c) for c in ("-0x1.f48448p-2", "0x1.074d5ap-2", "-0x1.3402cep-4"))
    return unit.round(unit.add(order.larger(a, b), _log1p_of_unit(unit, e, *tail)))


_COMPARISONS = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "gt": torch.gt,
    "le": torch.le,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}


def _comparison(test: Kernel) -> Kernel:
    return lambda unit, a, b: test(a, b).to(torch.float32)


for _name, _test in _COMPARISONS.items():
    binary(_name)(_comparison(_test))


_IDEAL = {"atan2": torch.atan2, "hypot": torch.hypot, "remainder": torch.remainder, "xlogy": torch.xlogy}


def _ideal(function: Kernel) -> Kernel:
    same_everywhere = steady(function)
    return lambda unit, a, b: unit.round(same_everywhere(a, b))


for _name, _test in _IDEAL.items():
    binary(_name, trust=Trust.IDEAL)(_ideal(_test))
binary("logaddexp2", trust=Trust.IDEAL)(_ideal(torch.logaddexp2))


@binary("squared_difference")
def squared_difference(unit: VectorUnit, a: Tensor, b: Tensor) -> Tensor:
    difference = unit.store(sub(unit, a, b))
    return unit.round_even(unit.mul(difference, difference))
