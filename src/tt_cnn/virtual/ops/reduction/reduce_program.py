# SPDX-License-Identifier: Apache-2.0
"""The program of one `Reduce` step: its cores and what each of them stages.

The rules are those of `ReduceMultiCoreWProgramFactory`, `ReduceMultiCoreHProgramFactory` and
`ReduceSingleCoreHwProgramFactory`, confirmed by recordings.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.rows import Passes
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.reduction.time import reduce_cycles
from tt_cnn.virtual.ops.reduction.units import cores_for_work, staged, tiles
from tt_cnn.virtual.ops.shape.programs import borrowed
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout, MathFidelity, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_BATCH = 4
"""Tiles of a row that are read together where a core has that many."""
_LONGEST_CHUNK = 8
"""Tiles along the reduced dimension that row-major input is tilized in."""


_NEGATED = ("negated", "negated result")
FACTORIES = {
    "W": "ReduceMultiCoreWProgramFactory",
    "H": "ReduceMultiCoreHProgramFactory",
    "HW": "ReduceSingleCoreHwProgramFactory",
}
Placed = tuple[CoreRangeSet, tuple[CircularBuffer, ...]]


@dataclass(frozen=True, kw_only=True)
class ReduceProgram(ComputeProgram):
    """Along rows (`W`), along columns (`H`), or along both of a single tile (`HW`)."""

    op: str = "Reduce"
    along: str
    kind: str
    """The name of the reduction."""
    scalar: float = 1.0
    fast: bool = False
    """The matrix unit reduces float32 too."""
    negated: bool = False
    """The kernel looks for the largest of the negated values, and keeps those too."""
    slices: int = 1
    """Parts of the columns that are reduced each on its own; the next step reduces those."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        matrices, rows, columns = tiles(step.inputs[0].spec)
        units, length = {
            "W": (matrices * rows, columns),
            "H": (matrices * columns * self.slices, div_up(rows, self.slices)),
            "HW": (matrices, rows * columns),
        }[self.along]
        settings = self.compute
        passes = Passes(
            figures, settings.fidelity if settings else MathFidelity.HiFi4, settings.fp32 if settings else False
        )
        at_once = _BATCH if self.along == "W" and length >= _BATCH else 1
        return reduce_cycles(step, figures, passes, units, length, at_once)


_LEAST_ROWS = {Layout.TILE: 20, Layout.ROW_MAJOR: 16}
"""Rows of tiles from which on columns are cut into slices (measured for tiles)."""


def height_slices(planner: Planner, spec: Spec, config: MemoryConfig, grid: CoreRangeSet | None) -> int:
    """Slices of the height that are reduced each on its own where columns alone leave cores idle; 1 for none.

    Each slice is a row of its own in a row-major tensor, which a second step reduces. Shards are never cut.
    """
    if spec.is_sharded or config.is_sharded() or not spec.dtype.is_float:
        return 1
    matrices, rows, columns = tiles(spec)
    cores = planner.card.cores if grid is None else grid.num_cores()
    if rows < _LEAST_ROWS[spec.layout] or not matrices * columns:
        return 1
    return max(1, min(cores // (matrices * columns), rows))


def place_reduce(
    planner: Planner,
    x: Slot,
    out: Slot,
    along: str,
    registers: int,
    negated: bool,
    grid: CoreRangeSet | None,
    slices: int = 1,
) -> Placed:
    """`registers`: tiles that the destination registers hold. `grid`: the cores that the caller leaves to the op."""
    if x.spec.layout is Layout.ROW_MAJOR:
        return _row_major(planner, x.spec, out.spec, along, grid, slices)
    if slices > 1:
        return _slices(planner, x.spec, out.spec, registers, grid, slices)
    if _resident(x.spec, out.spec, along):
        return _in_place(planner, x, out, negated)
    if along == "H":
        return _columns(planner, x.spec, out.spec, registers, negated, grid)
    return _rows(planner, x.spec, out.spec, along, negated, grid)


def scaler_tile(dtype: DataType) -> int:
    return (DataType.FLOAT32 if dtype is DataType.FLOAT32 else DataType.BFLOAT16).tile_bytes


def _row_major(planner: Planner, spec: Spec, out: Spec, along: str, grid: CoreRangeSet | None, slices: int) -> Placed:
    """Rows are tilized on the way in, beside a tile of what fills them up, and untilized on the way out."""
    matrices, rows, columns = tiles(spec)
    units = matrices * (spec.shape[-2] if along == "W" else columns * slices)
    cores = cores_for_work(planner, units, along == "W", grid)
    tile, result = spec.dtype.tile_bytes, out.dtype.tile_bytes
    chunk = min(columns if along == "W" else rows, _LONGEST_CHUNK)
    wide = chunk if along == "W" else 1
    sizes = {"rows": 2 * wide * tile, "padding": tile, "result": result, "input": max(2, chunk) * tile}
    return cores, staged(cores, sizes | {"scaler": scaler_tile(spec.dtype), "output": 2 * result})


def _slices(planner: Planner, spec: Spec, out: Spec, registers: int, grid: CoreRangeSet | None, slices: int) -> Placed:
    """A slice of a column a core; tiles are read together, but for float32."""
    matrices, _, columns = tiles(spec)
    cores = cores_for_work(planner, matrices * columns * slices, grid=grid)
    together = 1 if spec.dtype is DataType.FLOAT32 else registers
    sizes = {"input": 2 * together * spec.dtype.tile_bytes, "scaler": scaler_tile(spec.dtype)}
    return cores, staged(cores, sizes | {"output": 2 * out.dtype.tile_bytes})


def _resident(spec: Spec, out: Spec, along: str) -> bool:
    """Every core reduces its own shard: rows of height shards, columns of width shards."""
    layout = {"W": TensorMemoryLayout.HEIGHT_SHARDED, "H": TensorMemoryLayout.WIDTH_SHARDED}.get(along)
    for one in (spec, out):
        config = one.memory_config
        if config.memory_layout is not layout or config.buffer_type is not BufferType.L1 or config.shard_spec is None:
            return False
    if along == "H":
        return True
    matrices, rows, _ = tiles(spec)
    mine, its = spec.shard, out.shard
    return (mine.grid, mine.shape[0], mine.orientation) == (its.grid, its.shape[0], its.orientation) and mine.shape[
        0
    ] // TILE_SIZE * mine.grid.num_cores() == matrices * rows


def _in_place(planner: Planner, x: Slot, out: Slot, negated: bool) -> Placed:
    cores, tile, result = x.spec.shard.grid, x.spec.dtype.tile_bytes, out.spec.dtype.tile_bytes
    sizes = {"staged input": 2 * tile, "scaler": scaler_tile(x.spec.dtype)}
    shards = (
        borrowed(planner, "src1", tile, x.spec.shard_pages, cores, x, "input")._replace(name="input"),
        borrowed(planner, "out", result, out.spec.shard_pages, cores, out, "output")._replace(name="output"),
    )
    if negated:
        by_rows = x.spec.memory_config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED
        sizes |= dict.fromkeys(_NEGATED, result if by_rows else negated_bytes(planner, x.spec))
    return cores, (*staged(cores, sizes), *shards)


def _rows(planner: Planner, spec: Spec, out: Spec, along: str, negated: bool, grid: CoreRangeSet | None) -> Placed:
    """Rows of tiles, or all tiles on one core (`HW`); tiles are read together where every core has enough of them."""
    matrices, rows, columns = tiles(spec)
    units = matrices * rows if along == "W" else 1
    least, _ = _shares(planner, units, grid)
    cores = cores_for_work(planner, units, grid=grid)
    read = least * columns if along == "W" else matrices * rows * columns
    together = 1 if read < _BATCH or (negated and along == "W" and least < 2) else _BATCH
    result = out.dtype.tile_bytes
    sizes = {"input": 2 * together * spec.dtype.tile_bytes, "scaler": scaler_tile(spec.dtype), "output": 2 * result}
    return cores, staged(cores, sizes | (dict.fromkeys(_NEGATED, result) if negated else {}))


def _columns(
    planner: Planner, spec: Spec, out: Spec, registers: int, negated: bool, grid: CoreRangeSet | None
) -> Placed:
    """As many columns at a time as the destination registers hold, where a core has that many."""
    matrices, _, columns = tiles(spec)
    least, _ = _shares(planner, matrices * columns, grid)
    cores = cores_for_work(planner, matrices * columns, grid=grid)
    tile, result, scaler = spec.dtype.tile_bytes, out.dtype.tile_bytes, scaler_tile(spec.dtype)
    if negated:
        sizes = {"input": registers * tile, "scaler": scaler, "output": registers * result}
        return cores, staged(cores, sizes | dict.fromkeys(_NEGATED, negated_bytes(planner, spec, grid)))
    together = 1 if least < registers else registers
    return cores, staged(cores, {"input": 2 * together * tile, "scaler": scaler, "output": 2 * result})


def negated_bytes(planner: Planner, spec: Spec, grid: CoreRangeSet | None = None) -> int:
    """Each of the two buffers of negated columns: all that a core gets, so that both shares end where they began."""
    matrices, rows, columns = tiles(spec)
    if spec.memory_config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED and spec.is_sharded:
        together = spec.shard.shape[1] // TILE_SIZE
    else:
        together = lcm(*_shares(planner, matrices * columns, grid))
    return rows * together * spec.dtype.tile_bytes


def _shares(planner: Planner, units: int, grid: CoreRangeSet | None) -> tuple[int, int]:
    """The least and the most units that a core gets."""
    cores = min(units, planner.card.cores if grid is None else grid.num_cores())
    return units // cores, -(-units // cores)
