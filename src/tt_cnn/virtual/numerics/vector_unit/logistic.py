# SPDX-License-Identifier: Apache-2.0
"""The logistic curve and what is made of it: sigmoid, silu, mish, softplus, log_sigmoid, logit."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import lanes, tables
from tt_cnn.virtual.numerics.vector_unit.exponential import (
    exp_accurate,
    exp_bfloat16,
    exp_fast,
    exp_float32,
    reduce_by_ln2,
    scale_by_power,
)
from tt_cnn.virtual.numerics.vector_unit.logarithm import log_value
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal, reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, round_to_bfloat16_even

_SOFTPLUS_BFLOAT16 = (
    6.9423984729e-01,
    -5.0932420424e-01,
    1.4279095486e-01,
    -1.3000584069e-02,
    -1.8627923291e-03,
    5.0152968088e-04,
    -3.1273466851e-05,
)
_SOFTPLUS_FLOAT32 = (
    6.9310557842e-01,
    -4.9926245213e-01,
    1.2186349183e-01,
    5.6753782555e-03,
    -1.0528374463e-02,
    2.7290175203e-03,
    -3.4358495031e-04,
    2.1285692128e-05,
    -4.8245715334e-07,
)
_LOG_SIGMOID = (
    0.6924354434013367,
    0.49275708198547363,
    0.12142381817102432,
    0.0031102809589356184,
    -0.00330807245336473,
    -0.00028794066747650504,
    5.3185409342404455e-05,
    7.1853546614875086e-06,
    7.4961114648886e-08,
)
_SIGMOID_TABLE = tables.three_pieces((0.2265625, 0.0), (0.265625, -0.046875), (0.0, 0.5))


def sigmoid_value(unit: VectorUnit, x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), not rounded."""
    e = exp_float32(unit, -x) if unit.fp32_dest else exp_bfloat16(unit, -x)
    return reciprocal_steps(unit, unit.add(1.0, e), 2 if unit.fp32_dest else 1)


@unary("sigmoid", trust=Trust.RECORDED)
def sigmoid(unit: VectorUnit, x: Tensor) -> Tensor:
    """SigmoidMode.Accurate, or with `approx` SigmoidMode.FastApproximate: three straight lines."""
    if unit.approx:
        line = tables.evaluate(unit, x, _SIGMOID_TABLE)
        return unit.add(lanes.copy_sign(line, x), 0.5)
    return unit.round(sigmoid_value(unit, x))


@unary("sigmoid_accurate")
def sigmoid_accurate(unit: VectorUnit, x: Tensor) -> Tensor:
    """The chain negate, exp, + 1, reciprocal, each through the register; `approx` means the fast exp only."""
    e = exp_fast(unit, -x) if unit.approx else exp_accurate(unit, -x)
    accurate = VectorUnit(fp32_dest=unit.fp32_dest, fp32_input=unit.fp32_input, exact=unit.exact)
    return reciprocal(accurate, unit.store(unit.add(unit.store(e), 1.0)))


@unary("silu", "swish", trust=Trust.RECORDED)
def silu(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(unit.mul(x, sigmoid_value(unit, x)))


@unary("mish", trust=Trust.RECORDED)
def mish(unit: VectorUnit, x: Tensor) -> Tensor:
    """x * tanh(log(1 + u)) = x * u (u + 2) / ((u + 1) ** 2 + 1) with u = exp(x); x itself from 8 on."""
    u = unit.round(exp_bfloat16(unit, x)) if unit.approx else exp_accurate(unit, x)
    numerator = unit.mul(u, unit.add(u, 2.0))
    next_u = unit.add(u, 1.0)
    denominator = unit.mad(next_u, next_u, 1.0)
    inverse = reciprocal_steps(unit, denominator, 2 if unit.fp32_dest and not unit.approx else 1)
    return unit.round(torch.where(x < 8.0, unit.mul(x, unit.mul(numerator, inverse)), x))


@unary("softplus", trust=Trust.RECORDED)
def softplus(unit: VectorUnit, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(t)) / beta with t = beta x, as max(t, 0) + f(|t|); x itself above the threshold."""
    t = unit.mul(beta, x)
    a = t.abs()
    if unit.fp32_input:
        k, r = reduce_by_ln2(unit, -a)
        taylor = (1.0, 1.0, 0.5, 0.166666667, 0.0416666667, 0.00833333333, 0.00138888889, 0.000198412698)
        e = scale_by_power(unit.polynomial(r, *taylor), k)
        tail = unit.mul(e, unit.mad(e, unit.mad(e, 0.333333343, -0.5), 1.0))
        residual = torch.where(a > 5.0, tail, unit.polynomial(a, *_SOFTPLUS_FLOAT32))
    else:
        residual = torch.where(a > 5.0, 0.0, unit.polynomial(a, *_SOFTPLUS_BFLOAT16))
    inverse = 1.0 / beta if beta else math.inf
    result = unit.round(unit.mul(inverse, unit.add(t.clamp(min=0.0), residual)))
    return torch.where(t <= threshold, result, x)


@unary("log_sigmoid", "logsigmoid")
def log_sigmoid(unit: VectorUnit, x: Tensor) -> Tensor:
    """-log(1 + exp(-x)): the fast exp where it is small, a polynomial around zero, x far below it."""
    e = unit.store(exp_fast(unit, -x))
    middle = -unit.polynomial(-x, *_LOG_SIGMOID)
    return torch.where(x > 4.0, -e, torch.where(x > -4.0, middle, x))


@unary("logit")
def logit(unit: VectorUnit, x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), every step through the register."""
    if eps is not None:
        x = unit.store(x.clamp(eps, 1.0 - eps))
    rest = unit.store(unit.round_even(unit.sub(1.0, x)))
    quotient = unit.mul(x, reciprocal_steps(unit, rest, 2))
    if not unit.fp32_dest:
        quotient = round_to_bfloat16_even(quotient)
    return unit.round(log_value(unit, unit.store(quotient)))
