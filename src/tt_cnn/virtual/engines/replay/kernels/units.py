# SPDX-License-Identifier: Apache-2.0
"""Single instructions of the card's units by our own library: torch takes dozens of passes for each."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from tt_cnn.virtual.kernel_library import library, pointer
from tt_cnn.virtual.numerics.primitive import PRIMITIVES

_PERIODS = 16
"""A period is a multiple of this, or one number, or all of them."""
FEW_SUMS = 1 << 10
"""Up to so many, torch is quick enough."""


class Operand(ctypes.Structure):
    """As units.h has it."""

    _fields_ = (("data", ctypes.c_void_p), ("period", ctypes.c_int64))


def aligned_sum(a: Tensor, b: Tensor, *, fp32_dest: bool) -> Tensor:
    if not _suit(a, b) or max(a.numel(), b.numel()) <= FEW_SUMS:
        return PRIMITIVES["aligned_sum"].function(a, b, fp32_dest=fp32_dest)
    return _each("aligned_sums", (a, b), int(fp32_dest))


def partially_fused(a: Tensor, b: Tensor, c: Tensor, *, vectors: tuple[bool, bool, bool]) -> Tensor:
    if not _suit(a, b, c):
        return PRIMITIVES["partially_fused"].function(a, b, c, vectors=vectors)
    return _each("partially_fused", (a, b, c), sum(1 << place for place, flag in enumerate(vectors) if flag))


def _suit(*operands: Tensor) -> bool:
    return all(x.device.type == "cpu" and x.dtype is torch.float32 for x in operands)


def _each(function: str, given: tuple[Tensor, ...], setting: int) -> Tensor:
    shape = torch.broadcast_shapes(*(x.shape for x in given))
    held = [repeated_numbers(x, shape) for x in given]
    operands = (Operand * len(held))(*(Operand(x.data_ptr(), x.numel()) for x in held))
    result = torch.empty(shape)
    numbers = (ctypes.c_int64(one) for one in (setting, result.numel(), torch.get_num_threads()))
    getattr(library("units"), function)(operands, pointer(result), *numbers)
    return result


def repeated_numbers(x: Tensor, shape: torch.Size) -> Tensor:
    """The numbers of one period."""
    size = x.numel()
    if size == 1 or (_is_innermost(x, shape) and (size % _PERIODS == 0 or size == shape.numel())):
        return x.contiguous()
    return x.expand(shape).contiguous()


def _is_innermost(x: Tensor, shape: torch.Size) -> bool:
    """Whether it is repeated along its first dimensions alone."""
    sizes = list(x.shape)
    while sizes and sizes[0] == 1:
        sizes.pop(0)
    return sizes == list(shape[len(shape) - len(sizes) :])
