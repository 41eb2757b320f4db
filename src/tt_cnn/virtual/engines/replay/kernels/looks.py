# SPDX-License-Identifier: Apache-2.0
"""Looks at a replay's inputs by the kernels' library, which takes tens of microseconds where torch's threads take ten
times as long; None where there is none of it, or values are not as it takes them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from torch import Tensor, float32

from tt_cnn.virtual.engines.replay.kernels.instructions import LANES
from tt_cnn.virtual.kernel_library import compiler, library, pointer

NUMBERS = 8
"""Of `input_statistics`."""


class Runs(ctypes.Structure):
    """As looks.h has it."""

    _fields_ = (("values", ctypes.c_void_p), ("sizes", ctypes.c_int64 * 3), ("distances", ctypes.c_int64 * 3))


def are_within(value: Tensor, largest: float) -> bool | None:
    """Whether no number is NaN, or further from 0 than that."""
    kernels = _kernels_for(value)
    if kernels is None:
        return None
    return bool(kernels.are_within(pointer(value), ctypes.c_int64(value.numel()), ctypes.c_float(largest)))


def input_statistics(value: Tensor, runs: Tensor) -> list[float] | None:
    """The numbers of `eight_bit/inputs.py`, of all values and of (lines, runs, pixels) among them."""
    kernels = _kernels_for(value)
    if kernels is None or not runs.numel() or runs.shape[-1] > LANES:
        return None
    sizes, distances = (ctypes.c_int64 * 3)(*runs.shape), (ctypes.c_int64 * 3)(*runs.stride())
    chosen = Runs(values=runs.data_ptr(), sizes=sizes, distances=distances)
    found = (ctypes.c_float * NUMBERS)()
    kernels.input_statistics(pointer(value), ctypes.c_int64(value.numel()), ctypes.byref(chosen), found)
    return list(found)


def _kernels_for(value: Tensor) -> Any:
    suits = value.dtype is float32 and value.device.type == "cpu" and value.is_contiguous()
    return _kernels() if suits else None


@cache
def _kernels() -> Any:
    if compiler() is None:
        return None
    try:
        return library()
    except RuntimeError:  # whoever needs it says why
        return None
