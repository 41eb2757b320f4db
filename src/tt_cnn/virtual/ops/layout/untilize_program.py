# SPDX-License-Identifier: Apache-2.0
"""The programs that make rows of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal import element_bytes
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.tile_time import untilize_cycles
from tt_cnn.virtual.ops.layout.tilize import Manner
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.memory_config import MemoryConfig

_PACK_UNTILIZE_CYCLES, _UNTILIZE_CYCLES, _PACK_UNTILIZE_TILES = 80, 390, 8


@dataclass(frozen=True, kw_only=True)
class UntilizeProgram(MovingProgram):
    op: str = "Untilize"
    manner: Manner

    def time(self, step: Step, figures: Figures) -> Cycles:
        return untilize_cycles(self, step, figures, row_by_row="Block" in self.factory)

    def ideal_cycles(self, step: Step, card: Card, figures: Figures) -> int:
        """Upstream's model also counts the untilizing; its "tiles" are the elements over a tile's bytes."""
        move, source = self.ideal_move(step), step.inputs[0].spec
        tiles = ceil(source.volume / (TILE_SIZE * TILE_SIZE * element_bytes(source.dtype)))
        narrow = source.padded_shape[-1] <= _PACK_UNTILIZE_TILES * TILE_SIZE
        compute = tiles * (_PACK_UNTILIZE_CYCLES if narrow else _UNTILIZE_CYCLES)
        workers = max(1, min(card.cores, max(move.reads.count, move.writes.count)))
        return max(move.cycles(card, figures), ceil(compute / workers))


@dataclass(frozen=True, kw_only=True)
class UntilizeWithUnpaddingProgram(UntilizeProgram):
    op: str = "UntilizeWithUnpadding"
    memory_config: MemoryConfig
    """The one asked for: the output's shards follow from the input's."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        return untilize_cycles(self, step, figures, row_by_row=True)


@dataclass(frozen=True, kw_only=True)
class UntilizeCodegenProgram(Program):
    """The generated one, which has no performance model upstream."""

    op: str = "UntilizeCodegen"
    factory: str = "UntilizeCodegenProgramFactory"
    depths: tuple[int, int]
    """Tiles in the input's and the output's buffer."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        return untilize_cycles(self, step, figures, row_by_row=False)
