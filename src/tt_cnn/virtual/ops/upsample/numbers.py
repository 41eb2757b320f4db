# SPDX-License-Identifier: Apache-2.0
"""The numbers of upsampling: sticks picked by fixed-point coordinates; bilinear ones mixed by the matrix unit."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.bits import keep_mantissa
from tt_cnn.virtual.ops.operation import Context
from tt_cnn.virtual.ops.upsample.bilinear import BilinearProgram
from tt_cnn.virtual.ops.upsample.problem import Upsampling

_ONE = 1 << 16
"""1.0 in the kernels' fixed-point numbers."""
_BFLOAT16_MANTISSA = 7


def upsampled(context: Context, x: Tensor, ups: Upsampling) -> Tensor:
    """(n, h, w, c), before it is packed."""
    if ups.mode == "bilinear":
        return _bilinear(context, x, ups)
    rows = _nearest_sources(x.shape[1], ups.scale_h, x.device)
    columns = _nearest_sources(x.shape[2], ups.scale_w, x.device)
    return x[:, rows][:, :, columns]


def _nearest_sources(size: int, scale: float, device: torch.device) -> Tensor:
    """The input row of each output row: the output's number times the reciprocal factor, rounded up to 1/65536."""
    reciprocal = math.ceil(_single(1.0 / scale) * _ONE)
    outputs = torch.arange(math.floor(size * scale), device=device)
    return ((outputs * reciprocal) >> 16).clamp(max=size - 1)


def _bilinear(context: Context, x: Tensor, ups: Upsampling) -> Tensor:
    (n, h, w, c), (scale_h, scale_w) = x.shape, ups.whole
    if context.engine.numerics == "native":
        nchw = F.interpolate(x.permute(0, 3, 1, 2), scale_factor=(scale_h, scale_w), mode="bilinear")
        return nchw.permute(0, 2, 3, 1)
    tops, bottoms = _neighbours(h, scale_h, x.device)
    lefts, rights = _neighbours(w, scale_w, x.device)
    fidelity = context.program(BilinearProgram).mixes_at
    rows = []
    for row in range(scale_h):
        pixels = []
        for column in range(scale_w):
            top, bottom = x[:, tops[row::scale_h]], x[:, bottoms[row::scale_h]]
            left, right = lefts[column::scale_w], rights[column::scale_w]
            four = torch.stack([top[:, :, left], top[:, :, right], bottom[:, :, left], bottom[:, :, right]])
            weights = torch.tensor([_weights(row, column, scale_h, scale_w)], dtype=torch.float32, device=x.device)
            mixed = matrix_unit.matmul(weights, four.reshape(4, -1), fidelity, exact=context.exact)
            pixels.append(mixed.reshape(four.shape[1:]))
        rows.append(torch.stack(pixels, 3).reshape(n, h, w * scale_w, c))
    return torch.stack(rows, 2).reshape(n, h * scale_h, w * scale_w, c)


def _neighbours(size: int, scale: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The two input rows that an output row lies between; beyond the border the last row counts twice."""
    inverse = _single(1.0 / scale)
    start, step = int(_single(_single(0.5 * inverse) + 0.5) * _ONE), int(inverse * _ONE)
    first = (start + torch.arange(size * scale, device=device) * step) >> 16
    return first.clamp(min=1) - 1, (first + 1).clamp(max=size) - 1


def _weights(row: int, column: int, scale_h: int, scale_w: int) -> list[float]:
    """The four weights of an output pixel by its place within a factor, in bfloat16."""
    down, across = _fraction(row, scale_h), _fraction(column, scale_w)
    products = (
        (_ONE - across) * (_ONE - down),
        across * (_ONE - down),
        (_ONE - across) * down,
        across * down,
    )
    cut = torch.tensor([(product >> 16) / _ONE for product in products], dtype=torch.float32)
    return [float(v) for v in keep_mantissa(cut, _BFLOAT16_MANTISSA)]


def _fraction(place: int, scale: int) -> int:
    return (_ONE // (2 * scale) - _ONE // 2 + place * (_ONE // scale)) % _ONE


def _single(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float32))
