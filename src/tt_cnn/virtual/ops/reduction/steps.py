# SPDX-License-Identifier: Apache-2.0
"""The device steps that reductions are made of: `Reduce`, `WelfordReduce`, `FastReduceNC`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.reduction.reduce_program import FACTORIES, ReduceProgram, place_reduce
from tt_cnn.virtual.ops.reduction.time import FoldingProgram
from tt_cnn.virtual.ops.reduction.units import cores_for_work, staged, tiles, usable_l1
from tt_cnn.virtual.ops.reduction.values import reduction_compute
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_MANY = 8
_LONG = 24
"""Tiles from which on a row or column is kept in L1 for a variance, also where a core has one only (measured)."""


@dataclass(frozen=True)
class Options:
    """What a caller of a reduction may ask for beside dimensions and placement."""

    kind: str
    compute: Compute | None
    scalar: float
    cores: CoreRangeSet | None
    fast: bool = False
    layout: Layout | None = None
    """Of the result, where another one than the tensor's was asked for."""

    def settings(self, planner: Planner) -> Compute:
        return self.compute or reduction_compute(planner.card.arch)


@dataclass(frozen=True, kw_only=True)
class WelfordProgram(FoldingProgram, ComputeProgram):
    """Mean and variance of rows, columns or matrices, brought forward from element to element.

    The element and the count's inverse are loaded; mean and sum of squares take a difference and a product each. Rows
    are turned to columns first, since the vector unit goes from row to row.
    """

    op: str = "WelfordReduce"
    factory: str = "WelfordReduceProgramFactory"
    kind: str
    along: str
    scalar: float
    correction: bool
    vector_instructions = 8

    def a_tile(self, figures: Figures) -> float:
        return figures.copy_tile_cycles if self.along == "H" else figures.transpose_cycles


@dataclass(frozen=True, kw_only=True)
class FastReduceProgram(FoldingProgram):
    """A sum over a leading dimension: tiles are added up, none is looked into."""

    op: str = "FastReduceNC"
    factory: str = "FastReduceNCProgramFactory"
    dim: int


def plan_reduce(
    planner: Planner,
    x: Slot,
    along: str,
    config: MemoryConfig,
    dtype: DataType,
    options: Options,
    negated: bool = False,
    layout: Layout | None = None,
) -> Slot:
    """One `Reduce` step along W or H, or along both within a single tile."""
    made = _reduced(x.spec, along, config, dtype).with_(layout=layout or x.spec.layout)
    return _dispatch_reduce(planner, x, made, along, options, negated)


def plan_tall_reduce(
    planner: Planner,
    x: Slot,
    config: MemoryConfig,
    dtype: DataType,
    options: Options,
    slices: int,
    adds: bool,
    layout: Layout | None = None,
) -> Slot:
    """The height in slices, then the slices. Sums of slices are float32, and only the second step scales."""
    given = x.spec
    partial = DataType.FLOAT32 if adds else given.dtype
    shape = (*tuple(given.shape)[:-2], slices, given.shape[-1])
    between = Spec(Shape(shape), partial, Layout.ROW_MAJOR, MemoryConfig(buffer_type=config.buffer_type))
    parts = _dispatch_reduce(planner, x, between, "H", replace(options, scalar=1.0), slices=slices)
    made = _reduced(given, "H", config, dtype).with_(layout=layout or given.layout)
    result = _dispatch_reduce(planner, parts, made, "H", options)
    planner.free(parts)
    return result


def _dispatch_reduce(
    planner: Planner, x: Slot, made: Spec, along: str, options: Options, negated: bool = False, slices: int = 1
) -> Slot:
    out = planner.allocate(made)
    registers = options.settings(planner).registers
    cores, buffers = place_reduce(planner, x, out, along, registers, negated, options.cores, slices)
    program = ReduceProgram(
        factory=FACTORIES[along],
        cores=cores,
        buffers=buffers,
        compute=options.compute,
        along=along,
        kind=options.kind,
        scalar=options.scalar,
        fast=options.fast,
        negated=negated,
        slices=slices,
    )
    planner.dispatch(program, [x], [out])
    return out


def plan_welford(
    planner: Planner,
    x: Slot,
    along: str,
    config: MemoryConfig,
    options: Options,
    correction: bool,
    extra: int = 0,
) -> Slot:
    """Variance or standard deviation in one pass over W, H or both; over `extra` dimensions before those too."""
    spec, grid = x.spec, options.cores
    matrices, rows, columns = tiles(spec)
    everything = matrices * rows * columns
    shape = list(spec.shape)
    for dim in range(len(shape) - 2 - extra, len(shape) - 2):
        matrices //= shape[dim]
        shape[dim] = 1
    units = matrices * {"W": rows, "H": columns, "HW": 1}[along]
    cores = cores_for_work(planner, units, grid=grid)
    tile = spec.dtype.tile_bytes
    several = units > (planner.card.cores if grid is None else grid.num_cores()) or (along == "HW" and columns > 1)
    length = columns if along == "W" else rows
    out = planner.allocate(_reduced(spec, along, config, spec.dtype, shape))
    sizes = {"input": _MANY * tile, "output": 2 * tile}
    if along == "HW":
        sizes |= {"statistics": 4 * DataType.FLOAT32.tile_bytes, "combined": DataType.FLOAT32.tile_bytes}
    kept = sizes | {"input": max(_MANY, length) * tile}
    if (several or length >= _LONG) and sum(kept.values()) <= usable_l1(planner):
        sizes = kept
    program = WelfordProgram(
        cores=cores,
        buffers=staged(cores, sizes),
        compute=options.compute,
        kind=options.kind,
        along=along,
        scalar=options.scalar,
        correction=correction,
        results_per_core=div_up(units, max(1, cores.num_cores())),
        tiles_per_result=everything // max(1, units),
    )
    planner.dispatch(program, [x], [out])
    return out


def plan_fast_reduce(
    planner: Planner,
    x: Slot,
    dim: int,
    config: MemoryConfig,
    dtype: DataType,
    grid: CoreRangeSet | None = None,
) -> Slot:
    spec = x.spec
    shape = list(spec.padded_shape)
    length = shape[dim]
    shape[dim] = 1
    out = planner.allocate(Spec(Shape(shape), dtype, spec.layout, config))
    cores = cores_for_work(planner, out.spec.num_pages, True, grid)
    together = next(n for n in range(min(8, length), 0, -1) if length % n == 0)
    sizes = {
        "input": 2 * together * spec.dtype.tile_bytes,
        "zeros": DataType.BFLOAT16.tile_bytes,
        "output": 2 * dtype.tile_bytes,
    }
    program = FastReduceProgram(
        cores=cores,
        buffers=staged(cores, sizes),
        dim=dim,
        results_per_core=div_up(out.spec.num_pages, max(1, cores.num_cores())),
        tiles_per_result=length,
        tiles_at_once=together,
    )
    planner.dispatch(program, [x], [out])
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
