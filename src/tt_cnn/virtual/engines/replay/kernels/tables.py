# SPDX-License-Identifier: Apache-2.0
"""Functions of bfloat16 registers as tables: the vector unit sees 65536 different numbers, so each is computed once."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import torch
from torch import Tensor

from tt_cnn.virtual.kernel_library import library, pointer
from tt_cnn.virtual.numerics.bits import as_float, as_int
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.numerics.vector_unit import VectorUnit
from tt_cnn.virtual.numerics.vector_unit.registry import has_stand_in

NUMBERS = 1 << 16
FEW_VALUES = 1 << 13
"""Up to so many, the kernel is quick enough."""
TABLES = 256
"""Kept, of 128 KiB each."""


def is_tabulated(x: Tensor, name: str, unit: VectorUnit) -> bool:
    """Whether each result is made of one bfloat16 number, and there are enough of them to be worth a table."""
    suits = x.device.type == "cpu" and x.dtype is torch.float32 and x.numel() > FEW_VALUES
    return suits and not unit.fp32_dest and not has_stand_in(name, unit)


def looked_up(x: Tensor, name: str, params: tuple[float, ...], unit: VectorUnit) -> Tensor:
    results = table_of(name, params, repr(params), unit)
    x = x.contiguous()
    y = torch.empty_like(x)
    count = (ctypes.c_int64(x.numel()), ctypes.c_int64(torch.get_num_threads()))
    library().look_up(pointer(results), pointer(x), pointer(y), *count)
    return y


@lru_cache(maxsize=TABLES)
def table_of(name: str, params: tuple[float, ...], written: str, unit: VectorUnit) -> Tensor:
    """The upper halves of all results. `written` tells 0.0 from -0.0, which are equal."""
    every = as_float(torch.arange(-(NUMBERS >> 1), NUMBERS >> 1, dtype=torch.int32) << 16)
    every = torch.cat((every[NUMBERS >> 1 :], every[: NUMBERS >> 1]))  # as unsigned numbers are counted
    results = PRIMITIVES["unary"].function(every, name=name, params=params, unit=unit)
    return (as_int(results.contiguous()) >> 16).to(torch.int16)
