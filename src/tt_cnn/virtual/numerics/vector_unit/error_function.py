# SPDX-License-Identifier: Apache-2.0
"""erf and erfc as quotients of polynomials, erfinv by Winitzki's formula."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.logarithm import log_value
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import unary
from tt_cnn.virtual.numerics.vector_unit.roots import sqrt_of_normal
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit

# Polynomials in x^2; the numerator is then multiplied by x.
ERF_FLOAT32_NUMERATOR = (
    1.1283791065e00,
    2.1477432549e-01,
    6.2133435160e-02,
    5.6230435148e-03,
    6.1307044234e-04,
    1.7678321456e-05,
    2.7384647439e-08,
    -2.8632063387e-10,
)
ERF_FLOAT32_DENOMINATOR = (
    1.0,
    5.2367275953e-01,
    1.2961706519e-01,
    1.9642570987e-02,
    1.9545555115e-03,
    1.3179056987e-04,
    1.3156344494e-06,
    -3.5153888689e-09,
    -6.7350725691e-12,
)
_ERF_NUMERATOR = (1.1280932447e00, 2.7609212279e-01, 4.5400281738e-02, 7.4481184425e-04)
_ERF_DENOMINATOR = (1.0, 5.7439188334e-01, 1.3675764810e-01, 8.2844606784e-03, 2.4813862145e-05)
_ERFC_NEAR = (
    (1.0000233650e00, -1.3375675678e00, 6.8185544014e-01, -1.5691982210e-01, 1.3746744953e-02),
    (1.0, -2.0801517367e-01, 4.3667086959e-01, -3.4568668343e-03, 2.5104774162e-02, 2.8375532478e-02),
)
_ERFC_FAR = (
    (-2.5655237550e-05, 2.1275576728e-05, -6.6162156145e-06, 9.1439767402e-07, -4.7387182178e-08),
    (1.0, -1.6457208991e-01, -2.0572184026e-01, -1.3888636231e-01, 1.2677097321e-01, -2.1375391632e-02),
)


@unary("erf")
def erf(unit: VectorUnit, x: Tensor) -> Tensor:
    x = x.clamp(-10.0, 10.0)
    square = unit.mul(x, x)
    numerator, denominator = (
        (ERF_FLOAT32_NUMERATOR, ERF_FLOAT32_DENOMINATOR) if unit.fp32_input else (_ERF_NUMERATOR, _ERF_DENOMINATOR)
    )
    top = unit.mul(unit.polynomial(square, *numerator), x)
    bottom = unit.polynomial(square, *denominator)
    return unit.mul(top, reciprocal_steps(unit, bottom, 1 if unit.approx else 2)).clamp(-1.0, 1.0)


@unary("erfc")
def erfc(unit: VectorUnit, x: Tensor) -> Tensor:
    a = x.abs().clamp(max=5.0)
    far = a >= 2.5
    top, bottom = (
        torch.where(far, unit.polynomial(a, *distant), unit.polynomial(a, *close))
        for close, distant in zip(_ERFC_NEAR, _ERFC_FAR, strict=True)
    )
    y = unit.mul(top, reciprocal_steps(unit, bottom, 1))
    return torch.where(x < 0, unit.sub(2.0, y), y)


@unary("erfinv")
def erfinv(unit: VectorUnit, x: Tensor) -> Tensor:
    narrow = VectorUnit(exact=unit.exact)  # the kernel always takes the bfloat16 logarithm
    log = log_value(narrow, unit.mad(-x, x, 1.0))
    t = unit.mad(-0.5, log, -4.330746750799873)
    root = sqrt_of_normal(unit, unit.mad(t, t, unit.mul(log, -6.802721088435375)))
    return lanes.copy_sign(sqrt_of_normal(unit, unit.add(t, root)), x)
