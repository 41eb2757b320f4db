"""The device steps that reductions are made of: `Reduce`, `WelfordReduce`, `FastReduceNC`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRangeSet,
    Shape,
    cores_to_ranges,
    div_up,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_FEW, _MANY = 2, 8
"""Input tiles that a core stages: many where it has at least half as many to work through in a row."""


def dealt(planner: Planner, units: int, row_wise: bool = False) -> CoreRangeSet:
    """A unit a core, column after column (or row after row), written as the fewest ranges."""
    card = planner.card
    cores = num_cores_to_corerangeset(min(units, card.cores), CoreCoord(*card.grid), row_wise)
    return cores_to_ranges(cores.cores())


def staging(planner: Planner, sizes: Sequence[int], cores: CoreRangeSet) -> list[CircularBuffer]:
    return [CircularBuffer(size, cores, dataflow=True) for size in sizes]


def tiles(spec: Spec) -> tuple[int, int, int]:
    """Matrices, tile rows and tile columns of one; row-major ones count the tiles they would fill."""
    padded = spec.padded_shape
    height = padded[-2] if len(padded) > 1 else 1
    return prod(tuple(padded)[:-2]), div_up(height, TILE_SIZE), div_up(padded[-1], TILE_SIZE)


def staged_rows(rows: int) -> int:
    """Tile rows of a row-major input that a core holds at a time when it reduces along H."""
    return max(2, min(rows, _MANY))


def plan_reduce(
    planner: Planner,
    x: Slot,
    along: str,
    config: MemoryConfig,
    dtype: DataType,
    attributes: dict[str, Any] | None = None,
) -> Slot:
    """One `Reduce` step along W or H, or along both of a single tile."""
    spec = x.spec
    matrices, rows, columns = tiles(spec)
    units = matrices * (rows if along == "W" else columns)
    cores = dealt(planner, units)
    in_a_row = columns if along == "W" else units // planner.card.cores
    tile, scaler = spec.dtype.tile_bytes, _scaler_tile(spec.dtype)
    out = planner.allocate(_reduced(spec, along, config, dtype))
    if along == "HW":
        sizes = [2 * tile, scaler, 2 * dtype.tile_bytes]
        buffers, work = staging(planner, sizes, cores), traffic([spec], [out.spec], 0, macs=spec.volume)
        planner.step("Reduce", "ReduceSingleCoreHwProgramFactory", cores, [x], [out], buffers, attributes, work)
        return out
    staged = _MANY if 2 * in_a_row >= _MANY else _FEW
    sizes = [staged * tile, scaler, 2 * dtype.tile_bytes]
    if spec.layout is Layout.ROW_MAJOR:  # rows are tilized on the way in and untilized on the way out
        sizes += [tile, (columns if along == "W" else staged_rows(rows)) * tile, tile]
    buffers = staging(planner, sizes, cores)
    factory = f"ReduceMultiCore{along}ProgramFactory"
    work = traffic([spec], [out.spec], 0, macs=spec.volume)
    planner.step("Reduce", factory, cores, [x], [out], buffers, attributes, work)
    return out


def plan_welford(
    planner: Planner, x: Slot, along: str, config: MemoryConfig, attributes: dict[str, Any] | None = None
) -> Slot:
    """Variance or standard deviation in one pass over W, H or both."""
    spec = x.spec
    matrices, rows, columns = tiles(spec)
    cores = dealt(planner, matrices * {"W": rows, "H": columns, "HW": 1}[along])
    tile = spec.dtype.tile_bytes
    sizes = [_MANY * tile, 2 * tile]
    if along == "HW":
        sizes += [4 * DataType.FLOAT32.tile_bytes, DataType.FLOAT32.tile_bytes]
    reduced = spec
    for one in along:
        reduced = _reduced(reduced, one, config, spec.dtype)
    out = planner.allocate(reduced)
    work = traffic([spec], [out.spec], spec.volume)
    planner.step(
        "WelfordReduce",
        "WelfordReduceProgramFactory",
        cores,
        [x],
        [out],
        staging(planner, sizes, cores),
        attributes,
        work,
    )
    return out


def plan_fast_reduce(planner: Planner, x: Slot, dim: int, config: MemoryConfig, dtype: DataType) -> Slot:
    """A sum over a leading dimension: tiles are added up, none is looked into."""
    spec = x.spec
    shape = list(spec.padded_shape)
    length = shape[dim]
    shape[dim] = 1
    out = planner.allocate(Spec(Shape(shape), dtype, spec.layout, config))
    cores = dealt(planner, out.spec.num_pages, row_wise=True)
    together = next(n for n in range(min(8, length), 0, -1) if length % n == 0)
    sizes = (2 * together * spec.dtype.tile_bytes, DataType.BFLOAT16.tile_bytes, 2 * dtype.tile_bytes)
    work = traffic([spec], [out.spec], 0, macs=spec.volume)
    planner.step(
        "FastReduceNC",
        "FastReduceNCProgramFactory",
        cores,
        [x],
        [out],
        staging(planner, sizes, cores),
        {"dim": dim},
        work,
    )
    return out


def _reduced(spec: Spec, along: str, config: MemoryConfig, dtype: DataType) -> Spec:
    shape = list(spec.shape)
    if "W" in along:
        shape[-1] = 1
    if "H" in along:
        shape[-2] = 1
    out = Shape(shape)
    if config.is_sharded() and config.shard_spec is not None:
        config = _shrunk(config, spec, along)
    return Spec(out, dtype, spec.layout, config)


def _shrunk(config: MemoryConfig, spec: Spec, along: str) -> MemoryConfig:
    """Shards of the result: a tile wide (or high a matrix) on the cores that the input has."""
    shard = config.shard_spec
    assert shard is not None
    height, width = shard.shape
    matrices, _, columns = tiles(spec)
    layout = config.memory_layout
    if along == "W":
        width = TILE_SIZE
    elif layout is TensorMemoryLayout.WIDTH_SHARDED:
        height = matrices * TILE_SIZE
    else:
        height = TILE_SIZE
    if layout is TensorMemoryLayout.HEIGHT_SHARDED and along == "H":
        width = columns * TILE_SIZE
    return config.with_shard_spec(ShardSpec(shard.grid, (height, width), shard.orientation))


def _scaler_tile(dtype: DataType) -> int:
    return (DataType.FLOAT32 if dtype is DataType.FLOAT32 else DataType.BFLOAT16).tile_bytes
