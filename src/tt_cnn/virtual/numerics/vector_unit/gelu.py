# SPDX-License-Identifier: Apache-2.0
"""gelu in its variants: accurate (the default), the fast table, and the tanh form with its fast twin."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import tables
from tt_cnn.virtual.numerics.vector_unit.error_function import ERF_FLOAT32_DENOMINATOR, ERF_FLOAT32_NUMERATOR
from tt_cnn.virtual.numerics.vector_unit.exponential import EXP2_C0, EXP2_C1, EXP2_C2, exp2_from_biased
from tt_cnn.virtual.numerics.vector_unit.hyperbolic import tanh_float32
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit

_LOWEST = -5.54259443  # below it the result is zero
_CORE = (
    3.9894227818e-01,
    -6.6361041488e-02,
    9.7720050615e-03,
    -1.0717806322e-03,
    8.1812159812e-05,
    -3.8082057209e-06,
    7.9821413868e-08,
)
_TAIL = (3.0369991064e-01, 9.5413386822e-02, 1.3809983619e-02, 7.5950479368e-04)
_FAST_TABLE = tables.six_pieces(
    (0.1928, -0.00010443), (0.4939, -0.1604), (0.6188, -0.2796), (0.6099, -0.2635), (0.5402, -0.1194), (0.5, 0.0)
)


def _gelu_bfloat16(unit: VectorUnit, x: Tensor) -> Tensor:
    """x * Phi(x): x itself on the right, an odd polynomial in the middle, the density with a correction on the left."""
    square = unit.mul(x, x)
    density = exp2_from_biased(unit, unit.mad(square, -0.72134752044, 127.0), EXP2_C0, EXP2_C1, EXP2_C2)
    tail = unit.mul(density, unit.polynomial(x, *_TAIL))
    tail = unit.sub(unit.add(tail, 0.375), 0.375)  # puts the tail on the grid of values near 0.375
    left = unit.mul(x, tail)
    middle = unit.mul(x, unit.mad(x, unit.polynomial(square, *_CORE), 0.5))
    y = torch.where(x >= 2.78125, x, torch.where(x >= -3.125, middle, left))
    return torch.where(x > _LOWEST, y, 0.0)


def _gelu_float32(unit: VectorUnit, x: Tensor) -> Tensor:
    scaled = unit.mul(x, 0.7071067811865475).clamp(max=10.0)
    square = unit.mul(scaled, scaled)
    numerator = unit.mul(unit.polynomial(square, *ERF_FLOAT32_NUMERATOR), scaled)
    denominator = unit.polynomial(square, *ERF_FLOAT32_DENOMINATOR)
    erf = unit.mul(numerator, reciprocal_steps(unit, denominator, 2)).clamp(-1.0, 1.0)
    y = unit.mul(x, unit.mad(0.5, erf, 0.5))
    y = torch.where(erf == -1.0, unit.mul(x, 2.9802322387695313e-08), y)
    return torch.where(x > _LOWEST, y, unit.sub(x, x))


@unary("gelu", trust=Trust.RECORDED)
def gelu(unit: VectorUnit, x: Tensor) -> Tensor:
    """GeluVariant.Accurate; with `approx` the table."""
    if unit.approx:
        return unit.add(unit.mul(x, 0.5), tables.evaluate(unit, x, _FAST_TABLE))
    if unit.fp32_dest:
        return _gelu_float32(unit, x)
    return unit.round(_gelu_bfloat16(unit, x))


@unary("gelu_tanh")
def gelu_tanh(unit: VectorUnit, x: Tensor) -> Tensor:
    """x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); with `approx` by way of a short exp."""
    cubic = unit.mul(x, unit.mad(0.044715, unit.mul(x, x), 1.0))
    if unit.approx:
        biased = unit.mad(cubic, -2.3022081981, 127.0).clamp(0.0, 254.0)
        e = exp2_from_biased(
            unit, biased, 1.0000025517, 8.2612558619e-08, 3.4310902370e-15, 8.8111597259e-23, 2.7332817452e-30
        )
        return unit.round(unit.mul(x, reciprocal_steps(unit, unit.add(e, 1.0), 2)))
    t = tanh_float32(unit, unit.mul(0.7978845608028654, cubic))
    half = unit.mul(0.5, x)
    return unit.round(unit.mad(half, t, half))
