# SPDX-License-Identifier: Apache-2.0
"""Sums of float32 numbers that the host adds up in an order of its own, where the card's order is not followed.

The order that torch takes hangs on how its operands lie in memory. These take them as they lie row by row, so that a
command gives the same bits in a trace and outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.primitive import primitive


def reduced(shape: Sequence[int], *, dims: tuple[int, ...], **_: Any) -> tuple[int, ...]:
    """A shape whose dimensions `dims` are kept with size 1."""
    axes = {dim % len(shape) for dim in dims}
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def _multiplied(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return (*torch.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


@primitive("total", shape=reduced)
def total(x: Tensor, *, dims: tuple[int, ...]) -> Tensor:
    """Sums over some dimensions, which are kept."""
    return x.contiguous().sum(dims, keepdim=True)


def _windows(shape: Sequence[int], *, kernel: tuple[int, int], stride: tuple[int, int]) -> tuple[int, ...]:
    places = ((n - k) // step + 1 for n, k, step in zip(shape[2:], kernel, stride, strict=True))
    return (*shape[:2], *places)


@primitive("window_sums", shape=_windows)
def window_sums(image: Tensor, *, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """Sums over the windows of an image with channels first."""
    return F.avg_pool2d(image.contiguous(), kernel, stride, divisor_override=1)


def average(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    return total(x, dims=dims) / math.prod(x.shape[dim] for dim in dims)


@primitive("product", shape=_multiplied)
def product(a: Tensor, b: Tensor) -> Tensor:
    """Matrices times matrices."""
    return a.contiguous() @ b.contiguous()
