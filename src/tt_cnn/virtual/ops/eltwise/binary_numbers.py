# SPDX-License-Identifier: Apache-2.0
"""Values of binary ops: on the matrix unit or the vector unit, between activations, packed once at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tt_cnn.virtual import numerics
from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.formats import host_round
from tt_cnn.virtual.ops.eltwise import native
from tt_cnn.virtual.ops.eltwise.activations import Activation
from tt_cnn.virtual.ops.eltwise.binary_plan import NO_ACTIVATIONS, Activations
from tt_cnn.virtual.ops.eltwise.kinds import BF16, F32, Kind
from tt_cnn.virtual.ops.eltwise.numbers import apply_activation, as_integer, unary_register, unit_for
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.unary import UnaryOpType

_DIVIDING = ("div_floor", "div_trunc", "fmod", "remainder")


def scalar_operand(value: float, dtype: DataType, like: Tensor) -> Tensor:
    """A scalar as the kernel gets it: a tile of it, in the tensor's own format or, for block formats, in bfloat16."""
    if not dtype.is_float:
        low = int(value) & (2**32 - 1) if math.isfinite(value) else 0
        return torch.tensor(low - 2**32 * (low >= 2**31), dtype=torch.int64, device=like.device)
    number = torch.tensor([float(value)], dtype=torch.float64, device=like.device).to(torch.float32)
    return number if dtype is F32 else host_round(number, BF16)


def binary_value(
    engine: Engine,
    kind: Kind,
    a: Tensor,
    b: Tensor,
    dtypes: tuple[DataType, DataType, DataType],
    fast: bool | None = None,
    activations: Activations = NO_ACTIVATIONS,
) -> Tensor:
    """Register values of `a op b` for operands that broadcast; `dtypes` are those of a, b and the output."""
    a_dtype, b_dtype, out_dtype = dtypes
    if not a_dtype.is_float:
        return _integers(kind, _scaled(a, activations[0]), _scaled(b, activations[1]), out_dtype)
    if engine.numerics == "native":
        return _native(engine, kind, a, b, activations)
    fp32 = F32 in dtypes
    vector = kind.on_vector_unit(a_dtype, b_dtype, fast)
    before_a, before_b, after = kind.surroundings(vector)
    a = _operand(engine, a, a_dtype, activations[0], before_a, kind, fp32)
    b = _operand(engine, b, b_dtype, activations[1], before_b, kind, fp32)
    name = kind.core if before_a or before_b or after else kind.kernel
    if vector:
        a, b = (x.contiguous() for x in torch.broadcast_tensors(a, b))
        value = numerics.run_binary(name, a, b, unit=unit_for(engine, fp32))
    else:
        register_dtype = F32 if fp32 else out_dtype
        exact = engine.numerics == "exact"
        value = numerics.binary_register(name, a, b, a_dtype, b_dtype, out_dtype=register_dtype, fast=True, exact=exact)
    if after:
        value = unary_register(engine, after, value, (), fp32_dest=fp32)
    for one in activations[2]:
        value = apply_activation(engine, value, one, fp32_dest=fp32)
    return value


def _operand(
    engine: Engine, x: Tensor, dtype: DataType, activations: Sequence[Activation], kernel: str, kind: Kind, fp32: bool
) -> Tensor:
    """An operand after its activations, through the intermediate buffer in its own format (bfloat16 after exp2)."""
    if not activations and not kernel:
        return x
    for one in activations:
        x = apply_activation(engine, x, one, fp32_dest=fp32)
    if kernel:
        x = unary_register(engine, kernel, x, (), fp32_dest=fp32)
    held = BF16 if kind.kernel == "ldexp" and dtype.is_block_float else dtype
    if held.is_block_float and x.shape[-1] % numerics.BLOCK:
        held = BF16  # a single column has no neighbours to share an exponent with
    return engine.pack(x, held)


def _native(engine: Engine, kind: Kind, a: Tensor, b: Tensor, activations: Activations) -> Tensor:
    for one in activations[0]:
        a = apply_activation(engine, a, one)
    for one in activations[1]:
        b = apply_activation(engine, b, one)
    value = native.BINARY[kind.kernel](a, b)
    for one in activations[2]:
        value = apply_activation(engine, value, one)
    return value


def _scaled(x: Tensor, activations: Sequence[Activation]) -> Tensor:
    """Integers times whole numbers. Of other factors, and of other activations of integers, nothing is known."""
    for op_type, params in activations:
        if op_type is UnaryOpType.MUL_UNARY_SFPU:
            fatal(params[0].is_integer(), f"{params[0]:g} times integers has no numbers that are known: typecast first")
            x = x.to(torch.int64) * int(params[0])
    return x


def _integers(kind: Kind, a: Tensor, b: Tensor, out: DataType) -> Tensor:
    a, b = a.to(torch.int64), b.to(torch.int64)
    if kind.kernel == "div":
        return (a.to(torch.float64) / b.to(torch.float64)).to(torch.float32)
    if kind.kernel in _DIVIDING:
        b = b.masked_fill(b == 0, 1)  # padding holds zeros; what the card makes of them is not recorded
    value = native.BINARY[kind.kernel](a, b)
    return value.to(torch.float32) if out.is_float else as_integer(value, out)
