# SPDX-License-Identifier: Apache-2.0
"""The numbers of pools: the largest value, or a sum on the matrix unit times a scalar in bfloat16."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.accumulation import window_sums
from tt_cnn.virtual.numerics.bits import keep_mantissa
from tt_cnn.virtual.ops.operation import Context
from tt_cnn.virtual.ops.pool.problem import Pool
from tt_cnn.virtual.ops.pool.program import PoolProgram, window_areas
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.types.enums import DataType

_FACE = 16
"""Rows of a window that are summed up at a time."""
_BFLOAT16_MANTISSA = 7


def pooled(context: Context, x: Tensor, pool: Pool) -> list[Tensor]:
    """The outputs of a pool, stored. Results are bfloat16 before they are packed to the output's dtype.

    The programs of a sliced pool differ in their part of the image alone, so the first says how all compute.
    """
    program = context.program(PoolProgram)
    image = image_of(x, pool).permute(0, 3, 1, 2)
    values = [_averages(context, image, pool, program)] if pool.is_average else _maxima(image, pool, program.indices)
    stored = []
    for i, value in enumerate(values):
        spec = context.outputs[i]
        flat = value.permute(0, 2, 3, 1).reshape(tuple(spec.shape)).to(CARRIER[spec.dtype])
        stored.append(context.store(context.engine.pack(flat, DataType.BFLOAT16) if not i else flat, i))
    return stored


def image_of(x: Tensor, pool: Pool) -> Tensor:
    """(N, H, W, C) of an input of any shape; rows and channels beyond those asked for are left out."""
    flat = x.reshape(-1, x.shape[-1] if x.dim() == 4 else pool.channels)
    rows = pool.batch * pool.height * pool.width
    return flat[:rows, : pool.channels].reshape(pool.batch, pool.height, pool.width, pool.channels)


def _padded(image: Tensor, pool: Pool, value: float) -> Tensor:
    top, bottom, left, right = pool.padding
    more_h, more_w = pool.window.ceil_padding
    return F.pad(image, (left, right + more_w, top, bottom + more_h), value=value)


def _maxima(image: Tensor, pool: Pool, indices: bool) -> list[Tensor]:
    padded = _padded(image, pool, float("-inf"))
    if not indices:
        return [F.max_pool2d(padded, pool.kernel, pool.stride, dilation=pool.dilation)]
    value, place = F.max_pool2d(padded, pool.kernel, pool.stride, dilation=pool.dilation, return_indices=True)
    width = padded.shape[3]
    row, column = place // width - pool.padding[0], place % width - pool.padding[2]
    return [value, row * pool.width + column]


def _averages(context: Context, image: Tensor, pool: Pool, program: PoolProgram) -> Tensor:
    padded = _padded(image, pool, 0.0)
    if context.exact:
        return _followed_averages(padded, pool, program)
    scalars = _scalars(pool, image.device)
    if context.engine.numerics == "native":
        return F.avg_pool2d(padded, pool.kernel, pool.stride, divisor_override=1) * scalars
    scalars = keep_mantissa(scalars, _BFLOAT16_MANTISSA)
    return window_sums(padded, kernel=tuple(pool.kernel), stride=tuple(pool.stride)) * scalars


def _followed_averages(padded: Tensor, pool: Pool, program: PoolProgram) -> Tensor:
    out_h, out_w = pool.window.output_hw
    windows = F.unfold(padded, pool.kernel, stride=pool.stride).reshape(
        pool.batch, pool.channels, pool.window_size, out_h * out_w
    )
    result = padded.new_empty(pool.batch, pool.channels, out_h * out_w)
    scalars = keep_mantissa(_scalars(pool, torch.device("cpu")), _BFLOAT16_MANTISSA).reshape(-1)
    different = scalars.unique().tolist()  # of the host, which need not wait for them
    for scalar in different:
        chosen = slice(None) if len(different) == 1 else (scalars == scalar).to(padded.device)
        rows = windows[..., chosen].movedim(2, 0)
        result[..., chosen] = _summed(rows, scalar, program).reshape(rows.shape[1:])
    return result.reshape(pool.batch, pool.channels, out_h, out_w)


def _summed(rows: Tensor, scalar: float, program: PoolProgram) -> Tensor:
    """Sums over the first dimension, sixteen rows after sixteen, each times the scalar."""
    stacked = rows.reshape(rows.shape[0], -1)
    register: Tensor | None = None
    for start in range(0, stacked.shape[0], _FACE):
        block = stacked[start : start + _FACE]
        row = torch.full((1, block.shape[0]), scalar, device=rows.device)
        register = matrix_unit.matmul(row, block, program.sums_at, fp32_dest=program.fp32_sums, register=register)
    assert register is not None
    return register


def _scalars(pool: Pool, device: torch.device) -> Tensor:
    """By output row and column: one over the divisor, in float32."""
    if pool.divisor is not None or pool.has_one_scalar:
        divisor = float(pool.divisor or pool.window_size)
        return torch.full(pool.window.output_hw, 1.0, device=device) / divisor
    areas = torch.from_numpy(window_areas(pool)).to(device=device, dtype=torch.float32)
    return torch.where(areas > 0, 1.0 / areas, areas)
