# SPDX-License-Identifier: Apache-2.0
"""Whole element-wise ops on values: which unit runs them, with which register, and how the result is packed.

* A register holds float32 when the input is FLOAT32 (unary) or the output is (binary), else bfloat16.
* `mul` of two BFLOAT16 tensors runs on the vector unit and rounds ties to even; `fast=True` asks for the matrix unit.
  With block formats it always runs on the matrix unit, at HiFi4. `add`, `sub` and `rsub` are the other way round: the
  matrix unit by default, the vector unit with `fast=False` (TT-NN's `fast_and_approximate_mode`).
* FLOAT32 operands run on the vector unit, which holds them whole.
* All other binary ops run on the vector unit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.vector_unit import VectorUnit, run_binary, run_unary
from tt_cnn.virtual.types.enums import DataType

_MATRIX_OPS = {"add": matrix_unit.add, "sub": matrix_unit.sub, "subtract": matrix_unit.sub}
_MULTIPLY = ("mul", "multiply")


def unary(
    name: str,
    x: Tensor,
    dtype: DataType,
    *params: float,
    out_dtype: DataType | None = None,
    approx: bool = False,
    exact: bool = True,
) -> Tensor:
    """A unary op as TT-NN runs it on a tile tensor of `dtype` with the values `x` (float32)."""
    unit = VectorUnit(
        fp32_dest=dtype is DataType.FLOAT32, fp32_input=dtype is DataType.FLOAT32, approx=approx, exact=exact
    )
    return pack(unary_register(name, x, *params, unit=unit), out_dtype or dtype)


def unary_register(name: str, x: Tensor, *params: float, unit: VectorUnit) -> Tensor:
    """The same up to the packer: register values from register values."""
    if name == "hardswish":
        return _hardswish(x, unit)
    return run_unary(name, x, *params, unit=unit)


def binary(name: str, a: Tensor, b: Tensor, dtype_a: DataType, dtype_b: DataType, **options: Any) -> Tensor:
    """A binary op as TT-NN runs it, with the options of `binary_register`.

    `a` and `b` may be broadcast against each other along dimensions of size 1.
    """
    return pack(binary_register(name, a, b, dtype_a, dtype_b, **options), options.get("out_dtype") or dtype_a)


def binary_register(
    name: str,
    a: Tensor,
    b: Tensor,
    dtype_a: DataType,
    dtype_b: DataType,
    *,
    out_dtype: DataType | None = None,
    fast: bool | None = None,
    exact: bool = True,
) -> Tensor:
    """The same up to the packer, for ops that go on with activations in the register."""
    a, b = (operand.contiguous() for operand in torch.broadcast_tensors(a, b))
    fp32_dest = (out_dtype or dtype_a) is DataType.FLOAT32
    if runs_on_matrix_unit(name, dtype_a, dtype_b, fast):
        a, b = to_source(a, dtype_a), to_source(b, dtype_b)
        if name in _MULTIPLY:
            return matrix_unit.mul(a, b, fp32_dest=fp32_dest, exact=exact)
        if name == "rsub":
            return matrix_unit.sub(b, a, fp32_dest=fp32_dest, exact=exact)
        return _MATRIX_OPS[name](a, b, fp32_dest=fp32_dest, exact=exact)
    unit = VectorUnit(fp32_dest=fp32_dest, fp32_input=DataType.FLOAT32 in (dtype_a, dtype_b), exact=exact)
    return run_binary(name, a, b, unit=unit)


def runs_on_matrix_unit(name: str, dtype_a: DataType, dtype_b: DataType, fast: bool | None = None) -> bool:
    """Whether a binary op of these operands is one for the matrix unit; see the module's text."""
    if dtype_a is DataType.FLOAT32 and dtype_b is DataType.FLOAT32:
        return False
    if name in _MULTIPLY:
        both_bfloat16 = dtype_a is DataType.BFLOAT16 and dtype_b is DataType.BFLOAT16
        return fast is True or not both_bfloat16
    return name in (*_MATRIX_OPS, "rsub") and fast is not False


def _hardswish(x: Tensor, unit: VectorUnit) -> Tensor:
    """x * hardsigmoid(x): the factor from the vector unit, the product on the matrix unit unless it is float32."""
    factor = run_unary("hardsigmoid", x, unit=unit)
    if unit.fp32_dest:
        return run_binary("mul", factor, x, unit=unit)
    return matrix_unit.mul(factor, x, exact=unit.exact)
