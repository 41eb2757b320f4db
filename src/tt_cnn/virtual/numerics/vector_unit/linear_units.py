# SPDX-License-Identifier: Apache-2.0
"""Activations that are linear on the right and exponential on the left: elu, selu, celu, xielu; and softsign."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit.exponential import (
    INV_LN2,
    LN2_HIGH,
    LN2_LOW,
    ROUND_TO_INTEGER,
    expm1_clamped,
    scale_by_power,
)
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_steps
from tt_cnn.virtual.numerics.vector_unit.registry import unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32

SELU_SCALE, SELU_ALPHA = 1.0507, 1.67326


@unary("elu")
def elu(unit: VectorUnit, x: Tensor, alpha: float = 1.0) -> Tensor:
    return unit.round(torch.where(x >= 0, x, unit.mul(alpha, expm1_clamped(unit, x))))


@unary("selu")
def selu(unit: VectorUnit, x: Tensor, scale: float = SELU_SCALE, alpha: float = SELU_ALPHA) -> Tensor:
    both = float32(float32(scale) * float32(alpha))
    return unit.round(torch.where(x >= 0, unit.mul(scale, x), unit.mul(both, expm1_clamped(unit, x))))


@unary("celu")
def celu(unit: VectorUnit, x: Tensor, alpha: float = 1.0) -> Tensor:
    left = unit.mul(alpha, expm1_clamped(unit, unit.mul(1.0 / alpha, x)))
    return unit.round(torch.where(x >= 0, x, left))


@unary("xielu")
def xielu(unit: VectorUnit, x: Tensor, alpha_p: float = 0.8, alpha_n: float = 0.8) -> Tensor:
    """alpha_p x^2 + x / 2 on the right, alpha_n (exp(x) - 1 - x) + x / 2 on the left."""
    half = unit.mul(0.5, x)
    right = unit.mad(unit.mul(alpha_p, x), x, half)
    series = unit.polynomial(
        x,
        0.500000059604644775390625,
        0.16666667163372039794921875,
        4.16650883853435516357421875e-2,
        8.333188481628894805908203125e-3,
        1.400390756316483020782470703125e-3,
        1.99588379473425447940826416015625e-4,
    )
    near = unit.mul(unit.mul(x, x), series)
    shifted = unit.add(unit.mul(x, INV_LN2).clamp(min=-126.5), ROUND_TO_INTEGER)
    k = unit.sub(shifted, ROUND_TO_INTEGER)
    r = unit.mad(k, LN2_LOW, unit.mad(k, LN2_HIGH, x))
    taylor = (1.0, 1.0, 0.5, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040)
    far = unit.sub(unit.sub(scale_by_power(unit.polynomial(r, *taylor), k), 1.0), x)
    tiny = unit.sub(-0.0000009999995427, x)
    term = torch.where(x >= -1e-6, tiny, torch.where(x > -0.5, near, far))
    return unit.round(torch.where(x > 0, right, unit.mad(alpha_n, term, half)))


@unary("softsign")
def softsign(unit: VectorUnit, x: Tensor) -> Tensor:
    return unit.mul(x, reciprocal_steps(unit, unit.add(x.abs(), 1.0), 1 if unit.approx else 2))
