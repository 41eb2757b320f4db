# SPDX-License-Identifier: Apache-2.0
"""What a pool is asked to compute, and how."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

from tt_cnn.virtual.ops.sliding_window.window import Padding, Pair, SlidingWindow
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.memory_config import MemoryConfig


class Kind(enum.Enum):
    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True)
class Pool:
    """The pool of one image batch."""

    kind: Kind
    batch: int
    height: int
    width: int
    channels: int
    kernel: Pair
    stride: Pair
    padding: Padding
    dilation: Pair = (1, 1)
    ceil_mode: bool = False
    ceil_pad: Pair | None = None
    """Rows and columns that `ceil_mode` adds, where a slice must not work them out itself."""
    count_include_pad: bool = True
    divisor: int | None = None

    @property
    def window(self) -> SlidingWindow:
        return SlidingWindow(
            self.batch,
            (self.height, self.width),
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            ceil_pad=self.ceil_pad,
        )

    @property
    def window_size(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def is_average(self) -> bool:
        return self.kind is Kind.AVERAGE

    @property
    def has_one_scalar(self) -> bool:
        """Every window is divided by the same number (`is_pool_op_one_scalar_per_core`)."""
        if not self.is_average or self.divisor is not None:
            return True
        window = self.window
        whole = not any(window.ceil_padding)
        return whole and (self.count_include_pad or not any(self.padding))

    def but(self, **changes: Any) -> Pool:
        return replace(self, **changes)


@dataclass(frozen=True)
class Wish:
    """Where the result goes, in which form, and how the input is brought there."""

    layout: Layout = Layout.ROW_MAJOR
    dtype: DataType = DataType.BFLOAT16
    memory_config: MemoryConfig | None = None
    scheme: TensorMemoryLayout | None = None
    indices: bool = False
    deallocate_input: bool = False
    reallocate_halo: bool = True
    tables_in_dram: bool = False
    compute: WormholeComputeKernelConfig | None = None

    def __post_init__(self) -> None:
        if self.memory_config is not None:
            object.__setattr__(self, "memory_config", self.memory_config.sealed())

    @property
    def tiled(self) -> bool:
        return self.layout is Layout.TILE

    def but(self, **changes: Any) -> Wish:
        return replace(self, **changes)
