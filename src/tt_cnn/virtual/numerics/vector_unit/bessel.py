# SPDX-License-Identifier: Apache-2.0
"""Modified Bessel functions and the gamma family."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_float
from tt_cnn.virtual.numerics.steady import steady
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.exponential import exp_bfloat16, exp_float32
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, round_to_bfloat16

_I0 = (
    0.25,
    0.015625,
    0.0004340277778,
    0.000006781684028,
    6.78e-08,
    4.71e-10,
    2.40e-12,
    9.39e-15,
    2.90e-17,
    7.24e-20,
    1.50e-22,
)
_I1_NUMERATOR = (4.9992737740e-01, 5.4503594600e-02, 1.6126291630e-03, 2.0223499130e-05)
_I1_DENOMINATOR = (1.0, -1.6242591070e-02, 1.0333660750e-04, -2.5076132990e-07)
_I1_NUMERATOR_FLOAT32 = (
    0.5,
    5.6819390506e-02,
    1.9247245509e-03,
    2.8397364076e-05,
    2.0916867527e-07,
    7.7937084564e-10,
    1.2293555930e-12,
)
_I1_DENOMINATOR_FLOAT32 = (
    1.0,
    -1.1361218989e-02,
    6.1268139689e-05,
    -1.9771712800e-07,
    3.8127551116e-10,
    -3.1218170410e-13,
    -3.0635529988e-16,
    7.4301498523e-19,
)
_I1_FAR = (
    3.9894228967e-01,
    -1.4960495444e-01,
    -4.6652925320e-02,
    -4.3674591560e-02,
    -1.9748322314e-02,
    -3.3467922914e-01,
)


@unary("i0")
def i0(unit: VectorUnit, x: Tensor) -> Tensor:
    square = unit.mul(x, x)
    return unit.mad(unit.polynomial(square, *_I0), square, 1.0)


@unary("i1")
def i1(unit: VectorUnit, x: Tensor) -> Tensor:
    """A quotient up to 10, the asymptotic series beyond."""
    x = x.clamp(-88.5, 88.5)
    a = x.abs()
    square = unit.mul(x, x)
    if unit.fp32_input:
        top, bottom = (unit.polynomial(square, *c) for c in (_I1_NUMERATOR_FLOAT32, _I1_DENOMINATOR_FLOAT32))
        e = exp_float32(unit, a)
    else:
        top, bottom = (unit.polynomial(square, *c) for c in (_I1_NUMERATOR, _I1_DENOMINATOR))
        e = exp_bfloat16(unit, a)
    near = unit.mul(unit.mul(top, x), reciprocal_steps(unit, bottom, 1 if unit.approx else 2))
    root = as_float(0x5F1110A0 - (lanes.bits(a) >> 1))
    c = unit.mul(-root, unit.mul(a, root))
    root = unit.mul(root, unit.mad(c, unit.add(c, 2.2533049), 2.2825186))
    rest = unit.mad(-root, unit.mul(a, root), 1.0)
    root = unit.mad(rest, lanes.add_exponent(root, -1), root)
    series = unit.polynomial(unit.mul(root, root), *_I1_FAR)
    far = lanes.copy_sign(unit.mul(unit.mul(e, root), series), x)
    y = torch.where(a > 10.0, far, near)
    return y if unit.fp32_input else round_to_bfloat16(y)


@unary("digamma", trust=Trust.IDEAL)
def digamma(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(steady(torch.digamma)(x))


@unary("lgamma", trust=Trust.IDEAL)
def lgamma(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(steady(torch.lgamma)(x))


@unary("multigammaln", trust=Trust.IDEAL)
def multigammaln(unit: VectorUnit, x: Tensor) -> Tensor:
    """Always of order 4 in TT-NN."""
    return unit.round(steady(torch.mvlgamma)(x, 4))


@unary("polygamma", trust=Trust.IDEAL)
def polygamma(unit: VectorUnit, x: Tensor, order: float) -> Tensor:
    return unit.round(steady(lambda one: torch.polygamma(int(order), one))(x))
