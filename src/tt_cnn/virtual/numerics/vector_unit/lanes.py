# SPDX-License-Identifier: Apache-2.0
"""Instructions of the vector unit that take a float apart and put it together again, lane by lane.

Sign and mantissa of a NaN are the host's own: x86 sets the sign of those that it makes, and of two operands hands on
the one that the compiler put first. What is taken out of a NaN here is that of the plain one, whose sign is not set.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import HIDDEN, INFINITY, MAGNITUDE, MANTISSA, SIGN, as_float, as_int
from tt_cnn.virtual.numerics.steady import with_plain_nans


def bits(x: Tensor) -> Tensor:
    return as_int(with_plain_nans(x).contiguous())


def is_negative(x: Tensor) -> Tensor:
    """Whether the sign is set: of -0 too, of no NaN."""
    return bits(x) < 0


def exponent(x: Tensor) -> Tensor:
    """The exponent without its bias; -127 for zeros and denormals."""
    return biased_exponent(x) - 127


def biased_exponent(x: Tensor) -> Tensor:
    return (as_int(x.contiguous()) >> 23) & 0xFF


def mantissa(x: Tensor) -> Tensor:
    """The 23 stored bits, as an integer."""
    return bits(x) & MANTISSA


def significand(x: Tensor) -> Tensor:
    """The stored bits with the implied one in front, as an integer."""
    return mantissa(x) | HIDDEN


def set_exponent(x: Tensor, biased: Tensor | int) -> Tensor:
    """Sign and mantissa of `x` with the exponent's low 8 bits taken from `biased`."""
    return as_float((bits(x) & ~INFINITY) | ((biased & 0xFF) << 23))


def add_exponent(x: Tensor, amount: int) -> Tensor:
    """x * 2 ** amount by way of the exponent bits, which wrap around; exponents 0 and 255 included."""
    return set_exponent(x, biased_exponent(x) + amount)


def set_sign(x: Tensor, negative: bool) -> Tensor:
    plain = as_int(x.contiguous())
    return as_float(plain | SIGN if negative else plain & MAGNITUDE)


def copy_sign(magnitude: Tensor, sign: Tensor) -> Tensor:
    return as_float((as_int(magnitude.contiguous()) & MAGNITUDE) | (bits(sign) & SIGN))


def whole(x: Tensor) -> Tensor:
    """Floats as int32, cut toward zero. What does not fit is the smallest of them, which x86 gives and GPUs do not."""
    return torch.where(x.abs() < 2.0**31, x, -(2.0**31)).to(torch.int32)


def shift(value: Tensor, amount: Tensor) -> Tensor:
    """Left for positive amounts, right without sign for negative ones; of the amount 5 bits count."""
    left = value << (amount.clamp(min=0) & 31)
    right = (value.to(torch.int64) & 0xFFFFFFFF) >> ((-amount).clamp(min=0) & 31)
    return torch.where(amount >= 0, left, right.to(torch.int32))


def to_nearest_integer(x: Tensor, largest: int) -> Tensor:
    """Round to an integer, ties away from zero, and saturate at +-`largest`; as floats of the width of `x`."""
    magnitude = x.abs()
    whole = magnitude.trunc()
    whole = whole + (magnitude - whole >= 0.5)
    whole = whole.nan_to_num(nan=float(largest)).clamp(max=float(largest))
    return torch.copysign(whole, with_plain_nans(x)) + 0.0


def truncated_integer(x: Tensor) -> Tensor:
    """Float to int32 toward zero for positive values: 0 below one, the largest int32 from 2 ** 31 on."""
    power = exponent(x)
    value = shift(significand(x), power - 23)
    value = torch.where(power < 0, 0, value)
    return torch.where(power > 30, MAGNITUDE, value)
