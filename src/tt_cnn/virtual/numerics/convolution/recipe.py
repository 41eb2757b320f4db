# SPDX-License-Identifier: Apache-2.0
"""How one convolution is computed: formats, registers, blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tt_cnn.virtual.numerics.convolution.inner import TILE, Inner, Piece
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.types.enums import DataType, MathFidelity


@dataclass(frozen=True)
class Recipe:
    """Facts of a program that its numbers depend on. How rows of the output are distributed is none of them."""

    window: Window
    inner: Inner
    activations: DataType
    """Format of the tiles that are multiplied: a convolution's tilizer writes the *output's* format."""
    output: DataType
    partials: DataType
    """Format in which sums are kept between blocks, and in front of the bias."""
    fidelity: MathFidelity = MathFidelity.HiFi4
    fp32_dest: bool = False
    packer_adds: bool = False
    """The packer adds blocks up in L1; else they are loaded back into the register."""
    bias: bool = True
    block: int = 0
    """Rows of a block of a matmul; a convolution's blocks are those of `inner`."""
    reloads_whole: bool = False
    """Float32 sums come back into the register as they are (matmul), not through a source register."""
    untilizes: bool = False
    """A row-major output: the tile is stored like a partial sum and copied."""
    groups: int = 1

    def but(self, **changes: Any) -> Recipe:
        return replace(self, **changes)

    @property
    def pieces(self) -> list[Piece]:
        """Blocks of the inner dimension in the order in which they are worked through."""
        if not self.block:
            return self.inner.pieces()
        end = self.inner.shard
        return [Piece((0, 1), (start, min(start + self.block, end))) for start in range(0, end, self.block)]

    @property
    def depth(self) -> int:
        return self.block or self.inner.depth()

    @property
    def steps(self) -> int:
        """Tiles of the inner dimension that a register adds up before it starts again."""
        rows = self.depth if self.packer_adds else len(self.inner.worked_rows())
        return rows // TILE
