# SPDX-License-Identifier: Apache-2.0
"""The split device operation: a tiled tensor cut into equal parts of its last dimension."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal_moves import IdealMove
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingPagesProgram
from tt_cnn.virtual.ops.layout.relayout import staging
from tt_cnn.virtual.ops.layout.time import one_by_one_cycles
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class SplitProgram(MovingPagesProgram):
    op: str = "Split"
    factory: str = "SplitProgramFactory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        """Tile by tile, each core for one of the parts."""
        source, cores = step.inputs[0].spec, self.cores.num_cores()
        return one_by_one_cycles(figures, source, step.outputs[0].spec, source.num_pages, source.page_bytes, cores)

    def ideal_move(self, step: Step) -> IdealMove:
        """All parts together are written as the tensor is read."""
        source = step.inputs[0].spec
        return IdealMove.between(source, step.outputs[0].spec, written=source.padded_shape)


def plan_split_device(planner: Planner, x: Slot, parts: int, config: MemoryConfig) -> list[Slot]:
    spec = x.spec
    shape = Shape([*tuple(spec.shape)[:-1], spec.shape[-1] // parts])
    outputs = [planner.allocate(Spec(shape, spec.dtype, spec.layout, config)) for _ in range(parts)]
    fatal(spec.padded_shape[0] == 1, "shape[0] must be 1 (batch 1 only)")
    across, down = planner.card.grid
    matrices = spec.padded_shape[1]
    rows = _most_even(spec.padded_shape[2] // TILE_SIZE, across // matrices)
    columns = _most_even(spec.padded_shape[3] // TILE_SIZE // parts, down // parts)
    cores = CoreRangeSet([CoreRange((0, 0), (rows * matrices - 1, columns * parts - 1))])
    bands = [CoreRange((0, i * columns), (rows * matrices - 1, (i + 1) * columns - 1)) for i in range(parts)]
    buffers = (staging(2 * spec.dtype.tile_bytes, CoreRangeSet(bands), name="tiles"),)
    planner.dispatch(SplitProgram(cores=cores, buffers=buffers), [x], outputs)
    return outputs


def _most_even(tiles: int, cores: int) -> int:
    """The most cores that share the tiles equally."""
    return next((n for n in range(cores, 1, -1) if tiles % n == 0), 1)
