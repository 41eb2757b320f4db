# SPDX-License-Identifier: Apache-2.0
"""Primitives of the numerics by our own library, for commands outside of traces: torch takes many passes for each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.engines.replay.kernels.gathering import followed_sums
from tt_cnn.virtual.engines.replay.kernels.instructions import BLOCKS, LANES, ROUNDINGS
from tt_cnn.virtual.engines.replay.kernels.units import aligned_sum, partially_fused
from tt_cnn.virtual.kernel_library import library, pointer
from tt_cnn.virtual.numerics.fidelity import phases_of
from tt_cnn.virtual.numerics.matrix_unit import TILE
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.types.enums import DataType, MathFidelity

FEW_VALUES, FEW_PRODUCTS = 1 << 13, 1 << 16
"""Up to so many, torch is quick enough."""


def rounded(name: str) -> Callable[..., Tensor]:
    """A rounding of each number by itself."""

    def run(x: Tensor, *, bits: int = 0, **options: Any) -> Tensor:
        if not _suits(x, FEW_VALUES):
            return PRIMITIVES[name].function(x, **({"bits": bits} if bits else {}), **options)
        return staged(ROUNDINGS[name], x, bits, **options)

    return run


def to_blocks(x: Tensor, *, dtype: DataType, precise: bool, inplace: bool = False) -> Tensor:
    if not _suits(x, FEW_VALUES):
        return PRIMITIVES["to_blocks"].function(x, dtype=dtype, precise=precise, inplace=inplace)
    if x.shape[-1] % LANES:
        raise ValueError(f"a row of {x.shape[-1]} values is not made of blocks of {LANES}")
    return staged(BLOCKS[dtype, precise], x, 0, inplace)


def followed_product(
    x: Tensor, w: Tensor, register: Tensor | None = None, *, fidelity: MathFidelity, fp32_dest: bool
) -> Tensor:
    """As the matrix unit adds products up. What may not stay finite goes torch's way."""
    given = [x, w] if register is None else [x, w, register]
    few = x.numel() * w.shape[1] <= FEW_PRODUCTS
    result = None
    if not few and all(_suits(one, 0) for one in given):
        result = multiplied(x, w, register, len(phases_of(fidelity)), fp32_dest, library("units").widest())
    if result is None:
        return PRIMITIVES["followed_product"].function(*given, fidelity=fidelity, fp32_dest=fp32_dest)
    return result


def multiplied(
    x: Tensor, w: Tensor, register: Tensor | None, phases: int, fp32_dest: bool, width: int
) -> Tensor | None:
    """By registers of this many columns; None where sums may not be finite."""
    (rows, inner), columns = x.shape, w.shape[1]
    deeper, wider = -inner % TILE, -columns % LANES
    if deeper or x.stride(1) != 1:
        x = F.pad(x, (0, deeper)).contiguous()
    w = _padded(w, wider, deeper)
    begin = None if register is None else _padded(register, wider, 0)
    result = torch.empty(rows, columns + wider)
    shape = (rows, inner + deeper, columns + wider, x.stride(0))
    sizes = (*shape, phases, int(fp32_dest), torch.get_num_threads(), width)
    follow = library("units").followed_product
    if follow(pointer(x), pointer(w), pointer(begin), pointer(result), *map(ctypes.c_int64, sizes)):
        return None
    return result[:, :columns].contiguous() if wider else result


def _padded(x: Tensor, right: int, below: int) -> Tensor:
    return (F.pad(x, (0, right, 0, below)) if right or below else x).contiguous()


def _suits(x: Tensor, few: int) -> bool:
    return x.device.type == "cpu" and x.dtype is torch.float32 and x.numel() > few


def staged(kind: int, x: Tensor, bits: int = 0, inplace: bool = False) -> Tensor:
    """One of the stages of rounding.h on every value."""
    x = x.contiguous()
    result = x if inplace else torch.empty_like(x)
    numbers = (ctypes.c_int64(kind), ctypes.c_int64(bits))
    count = (ctypes.c_int64(x.numel()), ctypes.c_int64(torch.get_num_threads()))
    library().round_values(*numbers, pointer(x), pointer(result), *count)
    return result


COMPILED: dict[str, Callable[..., Tensor]] = {
    "to_blocks": to_blocks,
    "followed_product": followed_product,
    "followed_sums": followed_sums,
    "aligned_sum": aligned_sum,
    "partially_fused": partially_fused,
    **{name: rounded(name) for name in ROUNDINGS if name != "nearest_even"},  # a rounding of graphs alone
}
