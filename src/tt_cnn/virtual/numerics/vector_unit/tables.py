# SPDX-License-Identifier: Apache-2.0
"""`SFPLUT` and `SFPLUTFP32`: a straight line for each range of |x|, slopes and offsets in few bits.

Coefficients are given as the instruction decodes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit

Table = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""Upper bounds of |x| (one fewer than pieces), slopes, offsets."""


def three_pieces(*lines: tuple[float, float]) -> Table:
    return _table((1.0, 2.0), lines)


def six_pieces(*lines: tuple[float, float]) -> Table:
    return _table((0.5, 1.0, 1.5, 2.0, 3.0), tuple((half(slope), half(offset)) for slope, offset in lines))


def _table(bounds: tuple[float, ...], lines: Sequence[tuple[float, float]]) -> Table:
    return bounds, tuple(slope for slope, _ in lines), tuple(offset for _, offset in lines)


def half(value: float) -> float:
    """A coefficient as the instruction decodes half precision: without denormals, so that zero reads as 2 ** -15."""
    return float(torch.tensor(value, dtype=torch.float16)) or 2.0**-15


def evaluate(unit: VectorUnit, x: Tensor, table: Table) -> Tensor:
    """slope * |x| + offset of the piece |x| lies in."""
    bounds, slopes, offsets = table
    magnitude = x.abs()
    piece = torch.bucketize(magnitude, torch.tensor(bounds, device=x.device), right=True)
    slope = torch.tensor(slopes, device=x.device)[piece]
    offset = torch.tensor(offsets, device=x.device)[piece]
    return unit.mad(slope, magnitude, offset)
