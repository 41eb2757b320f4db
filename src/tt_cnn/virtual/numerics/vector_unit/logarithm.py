# SPDX-License-Identifier: Apache-2.0
"""Logarithms: the exponent apart, a polynomial on a mantissa in [0.75, 1.5) (after Norbert Juffa)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_float
from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Trust, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32, from_bits

_LN2_SHIFTED = float32(float32(0.693147182) * 2.0**-23)  # the exponent stays 23 bits up when it is converted
_TAIL_BFLOAT16 = (float.fromhex("-0x1.008p-1"), float.fromhex("0x1.744p-2"), -0.25)
_TAIL_FLOAT32 = tuple(
    float.fromhex(c)
    for c in (
        "-0x1p-1",
        "0x1.555572p-2",
        "-0x1.00001ap-2",
        "0x1.998p-3",
        "-0x1.55p-3",
        "0x1.274p-3",
        "-0x1.0c4p-3",
        "0x1.b84p-4",
        "-0x1.92cp-5",
    )
)


def _exponent_step(x: Tensor) -> Tensor:
    """k << 23 as int32 with x = 2 ** k * m, m in [0.75, 1.5)."""
    return (lanes.bits(x) - 0x3F400000) & -0x800000


def _exponent_value(step: Tensor) -> Tensor:
    return torch.copysign(step.abs().to(torch.float32), step.to(torch.float32))


def _log1p_reduced(unit: VectorUnit, m: Tensor) -> Tensor:
    """log(1 + m) for m in [-0.25, 0.5)."""
    tail = _TAIL_FLOAT32 if unit.fp32_dest else _TAIL_BFLOAT16
    return unit.mad(unit.polynomial(m, *tail), unit.mul(m, m), m)


def log_value(unit: VectorUnit, x: Tensor, base_scale: float | None = None, base_two: bool = False) -> Tensor:
    """log(x), not rounded; `base_scale` is 1 / ln(base)."""
    a = unit.mad(x, 1.0, 0.0)
    step = _exponent_step(a)
    r = _log1p_reduced(unit, unit.sub(as_float(lanes.bits(a) - step), 1.0))
    k = _exponent_value(step)
    if base_two:
        assert base_scale is not None
        result = unit.mad(k, 2.0**-23, unit.mul(r, base_scale))
    else:
        result = unit.mad(k, _LN2_SHIFTED, r)
        if base_scale is not None:
            result = unit.mul(result, base_scale)
    result = torch.where(a == 0, -math.inf, torch.where(torch.isinf(a), a, result))
    return torch.where(a >= 0, result, math.nan)


def log1p_value(unit: VectorUnit, x: Tensor) -> Tensor:
    """log(1 + x), not rounded."""
    u = unit.add(x, 1.0)
    step = _exponent_step(u)
    m = as_float(lanes.bits(x) - step)
    s = as_float(-0x3F800000 - step)  # -4 * 2 ** -k
    t = unit.mad(-0.25, s, -1.0)
    result = unit.mad(_exponent_value(step), _LN2_SHIFTED, _log1p_reduced(unit, unit.add(m, t)))
    result = torch.where(torch.isfinite(u), result, u)
    return torch.where(u >= 0, result, math.nan)


@unary("log", trust=Trust.RECORDED)
def log(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(log_value(unit, x))


@unary("log10")
def log10(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(log_value(unit, x, from_bits(0x3EDE5BD9)))


@unary("log2")
def log2(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(log_value(unit, x, from_bits(0x3FB8AA3B), base_two=True))


@unary("log1p")
def log1p(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.round(log1p_value(unit, x))
