# SPDX-License-Identifier: Apache-2.0
"""Rounding to whole numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Kernel, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32

_KERNELS: dict[str, Kernel] = {
    "trunc": lambda unit, x: x.trunc(),
    "floor": lambda unit, x: x.floor(),
    "ceil": lambda unit, x: x.ceil(),
    "frac": lambda unit, x: unit.sub(x, x.trunc()),
}
for _name, _kernel in _KERNELS.items():
    unary(_name)(_kernel)


@unary("round")
def round_decimals(unit: VectorUnit, x: Tensor, decimals: int = 0) -> Tensor:
    """Ties to even, after a multiplication with a power of ten that rounds as every other."""
    scaled = unit.mul(x, _power_of_ten(decimals))
    whole = unit.sub(unit.add(scaled.abs(), 8388608.0), 8388608.0)
    whole = torch.where(lanes.exponent(scaled) < 23, lanes.copy_sign(whole, scaled), scaled)
    return unit.mul(_power_of_ten(-decimals), whole)


def _power_of_ten(exponent: int) -> float:
    """Infinite, or 0, beyond float32."""
    return float32(float(f"1e{exponent}"))
