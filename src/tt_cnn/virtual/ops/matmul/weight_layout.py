# SPDX-License-Identifier: Apache-2.0
"""How a convolution's weights stand in the right matrix of a product."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class WeightLayout:
    """How (out, in, height, width) weights become a matrix. All that preparing and its inverse need to know."""

    out_channels: int
    in_channels: int
    """Of the matrix: groups are spread out to dense, folded strides are part of the channels."""
    kernel: tuple[int, int]
    groups: int
    rows: int
    columns: int
    scheme: str
    """`interleaved`, `height`, `block`, `width` or `depthwise`: where rows stand."""
    in_shards: int = 1
    in_padded: int = 0
    out_shards: int = 1
    out_padded: int = 0
    row_block: int = 0
    """Rows of one kernel row (height), of one shard's part (block)."""
    full_inner: bool = False
    fold: tuple[int, int] = (1, 1)
    """Stride by which the kernel was folded into channels."""

    @property
    def logical_rows(self) -> int:
        return self.in_channels * self.kernel[0] * self.kernel[1]

    def spec(self, dtype: DataType) -> Spec:
        shape = Shape((1, 1, self.logical_rows, self.out_channels))
        return Spec(shape, dtype, Layout.TILE, alignment=(self.rows, self.columns))
