# SPDX-License-Identifier: Apache-2.0
"""What the reduction kernels compute, before they pack. Sums run on the matrix unit, as products with a scaler."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.accumulation import total
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.types.enums import Arch, DataType, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

FACE = 16


def reduction_compute(arch: Arch, approx: bool = False) -> Compute:
    """What reductions and softmax take where no compute config is given: float32 registers, and all phases where the
    card has that right (Wormhole's HiFi4 with float32 registers has not)."""
    fidelity = MathFidelity.HiFi3 if arch is Arch.WORMHOLE_B0 else MathFidelity.HiFi4
    return Compute(fidelity, approx=approx, fp32=True)


def scaler_of(value: float, dtype: DataType) -> float:
    """A scaler as its tile holds it: bfloat16, float32 for float32 tensors."""
    if dtype is DataType.FLOAT32:
        return value
    return float(pack(torch.tensor([value], dtype=torch.float32), DataType.BFLOAT16)[0])


def sum_rows(
    engine: Engine, x: Tensor, dtype: DataType, scale: float, compute: Compute, *, whole: bool = False
) -> Tensor:
    """Sums over the last dimension (kept, of size 1), times a scale: each row times a column of scalers. `whole`: by
    the vector unit, which holds float32 as it is."""
    if engine.numerics == "native":
        return x.sum(-1, keepdim=True) * scale
    if whole:
        return total(x, dims=(-1,)) * scale
    rows = to_source(x.reshape(-1, x.shape[-1]), dtype)
    column = torch.full((x.shape[-1], 1), scaler_of(scale, dtype), device=x.device)
    sums = matrix_unit.matmul(rows, column, compute.fidelity, fp32_dest=compute.fp32, exact=engine.numerics == "exact")
    return sums.reshape(*x.shape[:-1], 1)


def sum_columns(
    engine: Engine, x: Tensor, dtype: DataType, scale: float, compute: Compute, *, whole: bool = False
) -> Tensor:
    """Sums over the last but one dimension: 16 rows at a time are pooled into the register, the tensor as source A."""
    if engine.numerics == "native":
        return x.sum(-2, keepdim=True) * scale
    if whole:
        return total(x, dims=(-2,)) * scale
    exact = engine.numerics == "exact"
    stacked = to_source(x.movedim(-2, 0).reshape(x.shape[-2], -1), dtype)
    depth = FACE if exact else stacked.shape[0]
    register: Tensor | None = None
    for start in range(0, stacked.shape[0], depth):
        block = stacked[start : start + depth]
        row = torch.full((1, block.shape[0]), scaler_of(scale, dtype), device=x.device)
        register = matrix_unit.matmul(
            row, block, compute.fidelity, fp32_dest=compute.fp32, register=register, exact=exact
        )
    assert register is not None
    return register.reshape(*x.shape[:-2], 1, x.shape[-1])


def sum_slices(
    engine: Engine, x: Tensor, dtype: DataType, scale: float, compute: Compute, slices: int, *, whole: bool
) -> Tensor:
    """Sums over the last but one dimension in slices of whole tiles: each in float32, then their sum, which is scaled
    and which the vector unit takes where the registers are float32. The last slices may have nothing."""
    if engine.numerics == "native":
        return x.sum(-2, keepdim=True) * scale
    height = div_up(div_up(x.shape[-2], TILE_SIZE), slices) * TILE_SIZE
    padded = torch.nn.functional.pad(x, (0, 0, 0, slices * height - x.shape[-2]))
    cut = padded.reshape(*x.shape[:-2], slices, height, x.shape[-1])
    parts = sum_columns(engine, cut, dtype, 1.0, compute, whole=whole).squeeze(-2)
    return sum_columns(engine, parts, DataType.FLOAT32, scale, compute, whole=compute.fp32)
