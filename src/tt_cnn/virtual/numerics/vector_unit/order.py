# SPDX-License-Identifier: Apache-2.0
"""Which of two numbers is larger, as the vector unit sees it.

`SFPSWAP`, which TT-NN 0.81.1 takes minima, maxima and bounds with, compares sign and magnitude of the 32 bits, so that
-inf < ... < -0 < +0 < ... < +inf < NaN (Tenstorrent's ISA documentation; comparisons with `v_if` in `relu6` and
`hardsigmoid` come to the same). The maximum of NaN and a number is NaN, the minimum is the number, and a NaN that is
clamped is the upper bound. Hosts decide between zeros by the place of a number in a tensor, and by machine.

A NaN whose sign is set would be the smallest on a card. Those that its arithmetic makes have none; hosts give them one
or not as they like, so here all are positive.
"""

from __future__ import annotations

import ctypes
import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.accumulation import reduced
from tt_cnn.virtual.numerics.bits import MAGNITUDE, as_float, as_int
from tt_cnn.virtual.numerics.primitive import primitive


def larger(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(_rank(a) < _rank(b), b, a)


def smaller(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(_rank(b) < _rank(a), b, a)


def at_least(x: Tensor, bound: float) -> Tensor:
    return torch.where(_rank(x) < _rank_of_number(bound), bound, x)


def at_most(x: Tensor, bound: float) -> Tensor:
    return torch.where(_rank(x) > _rank_of_number(bound), bound, x)


@primitive("largest", shape=reduced)
def largest(x: Tensor, *, dims: tuple[int, ...]) -> Tensor:
    """Over some dimensions, which are kept."""
    return _number(_rank(x).amax(dims, keepdim=True))


@primitive("smallest", shape=reduced)
def smallest(x: Tensor, *, dims: tuple[int, ...]) -> Tensor:
    return _number(_rank(x).amin(dims, keepdim=True))


def _rank(x: Tensor) -> Tensor:
    """A whole number that is larger where `x` comes later."""
    return torch.where(x.isnan(), MAGNITUDE, _swapped(as_int(x.contiguous())))


def _number(rank: Tensor) -> Tensor:
    """What has this rank; of MAGNITUDE it is a NaN."""
    return as_float(_swapped(rank))


def _swapped(bits: Tensor) -> Tensor:
    """Sign and magnitude to two's complement, or back."""
    return bits ^ ((bits >> 31) & MAGNITUDE)


def _rank_of_number(value: float) -> int:
    if math.isnan(value):
        return MAGNITUDE
    bits = ctypes.c_int32.from_buffer(ctypes.c_float(value)).value
    return bits ^ ((bits >> 31) & MAGNITUDE)
