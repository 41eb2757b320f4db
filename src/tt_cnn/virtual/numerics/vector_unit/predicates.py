# SPDX-License-Identifier: Apache-2.0
"""Tests that answer 1.0 or 0.0."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit import lanes
from tt_cnn.virtual.numerics.vector_unit.registry import Kernel, unary
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit, float32

_OF_ONE: dict[str, Kernel] = {
    "eqz": lambda x: x == 0,
    "nez": lambda x: x != 0,
    "gtz": lambda x: x > 0,
    "gez": lambda x: x >= 0,
    "ltz": lambda x: x < 0,
    "lez": lambda x: x <= 0,
    "logical_not": lambda x: x == 0,
    "isinf": torch.isinf,
    "isposinf": torch.isposinf,
    "isneginf": torch.isneginf,
    "isnan": torch.isnan,
    "isfinite": torch.isfinite,
    "signbit": lanes.is_negative,
}
_WITH_SCALAR: dict[str, Kernel] = {
    "unary_eq": torch.eq,
    "unary_ne": torch.ne,
    "unary_gt": torch.gt,
    "unary_lt": torch.lt,
    "unary_ge": torch.ge,
    "unary_le": torch.le,
}


def _one(test: Kernel) -> Kernel:
    return lambda unit, x: test(x).to(torch.float32)


def _with_scalar(test: Kernel) -> Kernel:
    return lambda unit, x, value: test(x, float32(value)).to(torch.float32)


for _name, _test in _OF_ONE.items():
    unary(_name)(_one(_test))
for _name, _test in _WITH_SCALAR.items():
    unary(_name)(_with_scalar(_test))


@unary("sign")
def sign(unit: VectorUnit, x: Tensor) -> Tensor:
    return torch.where(x == 0, 0.0, lanes.copy_sign(torch.ones_like(x), x))


@unary("heaviside")
def heaviside(unit: VectorUnit, x: Tensor, value: float) -> Tensor:
    return torch.where(x == 0, float32(value), (~lanes.is_negative(x)).to(torch.float32))
