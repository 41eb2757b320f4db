"""The split device operation: a tiled tensor cut into equal parts of its last dimension."""

from __future__ import annotations

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import staging
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


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
    buffers = [staging(2 * spec.dtype.tile_bytes, CoreRangeSet(bands))]
    planner.step("Split", "SplitProgramFactory", cores, [x], outputs, buffers, {"parts": parts})
    return outputs


def _most_even(tiles: int, cores: int) -> int:
    """The most cores that share the tiles equally."""
    return next((n for n in range(cores, 1, -1) if tiles % n == 0), 1)
