# SPDX-License-Identifier: Apache-2.0
"""Float32 tensors seen as the 32-bit patterns that the card's registers hold."""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.primitive import primitive

SIGN = -0x80000000  # int32 tensors: the sign bit is their most negative number
MAGNITUDE = 0x7FFFFFFF
MANTISSA = 0x007FFFFF
HIDDEN = 0x00800000
INFINITY = 0x7F800000
SMALLEST_NORMAL = 2.0**-126


def as_int(x: Tensor) -> Tensor:
    """The bit pattern of float32 values as int32, sharing memory."""
    return x.view(torch.int32)


def as_float(bits: Tensor) -> Tensor:
    """The float32 values of int32 bit patterns, sharing memory."""
    return bits.view(torch.float32)


def exponent_bits(x: Tensor) -> Tensor:
    """The biased exponent, 0 for zeros and denormals and 255 for inf and NaN."""
    return (as_int(x) >> 23) & 0xFF


@primitive("flush_denormals")
def flush_denormals(x: Tensor) -> Tensor:
    """Denormals become zeros of the same sign: no unit of the card computes with them."""
    return torch.where(exponent_bits(x) == 0, x * 0.0, x)


def keep_mantissa(x: Tensor, bits: int) -> Tensor:
    """Cut the mantissa to its `bits` most significant ones (truncation toward zero)."""
    return _cut(x, bits=bits)


@primitive("cut")
def _cut(x: Tensor, *, bits: int) -> Tensor:
    return as_float(as_int(x) & (-1 << (23 - bits)))


def power_of_two(exponent: Tensor) -> Tensor:
    """2 ** exponent as float64, built from the bits; exponents within the normal range of float64."""
    return ((exponent.to(torch.int64) + 1023) << 52).view(torch.float64)
