"""The device steps that reductions are made of: `Reduce`, `WelfordReduce`, `FastReduceNC`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.ops.reduction.reduce_program import reduce_program
from tt_cnn.virtual.ops.reduction.units import dealt, staging, tiles
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_MANY = 8
_LONG_ROW = 24
"""Tiles from which on a row is kept in L1 for a variance, also where a core has one row only (measured)."""
_REGISTERS = 4
"""Destination tiles of a kernel that was given no config: float32 ones."""
_FACTORIES = {
    "W": "ReduceMultiCoreWProgramFactory",
    "H": "ReduceMultiCoreHProgramFactory",
    "HW": "ReduceSingleCoreHwProgramFactory",
}


def plan_reduce(
    planner: Planner,
    x: Slot,
    along: str,
    config: MemoryConfig,
    dtype: DataType,
    attributes: dict[str, Any] | None = None,
    negated: bool = False,
) -> Slot:
    """One `Reduce` step along W or H, or along both within a single tile. `negated`: the kernel looks for the largest
    of the negated values, and keeps those too."""
    spec = x.spec
    out = planner.allocate(_reduced(spec, along, config, dtype))
    compute = (attributes or {}).get("compute")
    registers = _REGISTERS if compute is None else compute.registers
    program = reduce_program(planner, x, out, along, registers, negated, (attributes or {}).get("cores"))
    work = traffic([spec], [out.spec], 0, macs=spec.volume)
    planner.step("Reduce", _FACTORIES[along], program.cores, [x], [out], program.buffers, attributes, work)
    return out


def plan_welford(
    planner: Planner,
    x: Slot,
    along: str,
    config: MemoryConfig,
    attributes: dict[str, Any],
    grid: CoreRangeSet | None,
    extra: int = 0,
) -> Slot:
    """Variance or standard deviation in one pass over W, H or both; over `extra` dimensions before those too."""
    spec = x.spec
    matrices, rows, columns = tiles(spec)
    shape = list(spec.shape)
    for dim in range(len(shape) - 2 - extra, len(shape) - 2):
        matrices //= shape[dim]
        shape[dim] = 1
    units = matrices * {"W": rows, "H": columns, "HW": 1}[along]
    cores = dealt(planner, units, grid=grid)
    tile = spec.dtype.tile_bytes
    several = units > (planner.card.cores if grid is None else grid.num_cores())
    keeps_row = along == "W" and (several or columns >= _LONG_ROW)
    sizes = [max(_MANY, columns if keeps_row else 0) * tile, 2 * tile]
    if along == "HW":
        sizes += [4 * DataType.FLOAT32.tile_bytes, DataType.FLOAT32.tile_bytes]
    out = planner.allocate(_reduced(spec, along, config, spec.dtype, shape))
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


def plan_fast_reduce(
    planner: Planner,
    x: Slot,
    dim: int,
    config: MemoryConfig,
    dtype: DataType,
    grid: CoreRangeSet | None = None,
) -> Slot:
    """A sum over a leading dimension: tiles are added up, none is looked into."""
    spec = x.spec
    shape = list(spec.padded_shape)
    length = shape[dim]
    shape[dim] = 1
    out = planner.allocate(Spec(Shape(shape), dtype, spec.layout, config))
    cores = dealt(planner, out.spec.num_pages, True, grid)
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


def _reduced(spec: Spec, along: str, config: MemoryConfig, dtype: DataType, given: Sequence[int] | None = None) -> Spec:
    shape = list(given or spec.shape)
    for one in along:
        shape[-1 if one == "W" else -2] = 1
    out = Spec(Shape(shape), dtype, spec.layout, MemoryConfig(buffer_type=config.buffer_type))
    return out if config.shard_spec is None else out.with_(memory_config=_sharded(config, out))


def _sharded(config: MemoryConfig, out: Spec) -> MemoryConfig:
    """The cores and the orientation that were asked for; shards that spread the result over all of them.

    Height shards of which one holds all rows are called width shards.
    """
    shard = config.shard_spec
    assert shard is not None
    height, width = out.physical
    down, across = 1, 1
    if config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        down = shard.grid.num_cores()
    elif config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED:
        across = shard.grid.num_cores()
    else:
        size = shard.grid.bounding_box().grid_size()
        down, across = (size.y, size.x) if shard.row_wise else (size.x, size.y)
    shape = round_up(div_up(height, down), TILE_SIZE), round_up(div_up(width, across), TILE_SIZE)
    layout = config.memory_layout
    if layout is TensorMemoryLayout.HEIGHT_SHARDED and shape[0] >= height:
        layout = TensorMemoryLayout.WIDTH_SHARDED
    return MemoryConfig(layout, config.buffer_type, ShardSpec(shard.grid, shape, shard.orientation))
