# SPDX-License-Identifier: Apache-2.0
"""How an op with a sliding window takes its input: at once through L1, or in slices out of DRAM."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class SliceTypeEnum(enum.Enum):
    L1Full = 0
    DRAMSliceHeight = 1
    DRAMSliceWidth = 2

    def __repr__(self) -> str:
        return f"SliceTypeEnum.{self.name}"

    __str__ = __repr__

    @property
    def native(self) -> str:
        return {"L1Full": "L1_FULL", "DRAMSliceHeight": "DRAM_HEIGHT", "DRAMSliceWidth": "DRAM_WIDTH"}[self.name]


_SliceType = SliceTypeEnum


class Op2DSliceConfig:
    """Whether an op takes its input through L1 at once or in slices out of DRAM; 0 slices: as many as it needs."""

    SliceTypeEnum = _SliceType
    __slots__ = ("num_slices", "slice_type")

    def __init__(self, *, slice_type: _SliceType, num_slices: int = 0) -> None:
        if not isinstance(slice_type, _SliceType) or not isinstance(num_slices, int) or not 0 <= num_slices < 2**32:
            raise TypeError(
                "__init__(): incompatible function arguments: Op2DSliceConfig takes slice_type: SliceTypeEnum and "
                f"num_slices: int; it was given {slice_type!r} and {num_slices!r}"
            )
        self.slice_type = slice_type
        self.num_slices = num_slices

    def frozen(self) -> Slicing:
        return Slicing(self.slice_type, self.num_slices)

    def __repr__(self) -> str:
        return f"Op2DSliceConfig(slice_type=SliceType::{self.slice_type.native},num_slices={self.num_slices})"


@dataclass(frozen=True)
class Slicing:
    """A slice configuration as planning knows it."""

    kind: _SliceType
    count: int = 0
