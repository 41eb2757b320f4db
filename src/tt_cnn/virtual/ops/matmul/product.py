# SPDX-License-Identifier: Apache-2.0
"""One matmul step, planned: the program, its cores, its buffers, its output."""

from __future__ import annotations

from functools import lru_cache

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.buffers import Cores, Staging
from tt_cnn.virtual.ops.matmul.checks import check_matrices, check_program
from tt_cnn.virtual.ops.matmul.choice import Choice
from tt_cnn.virtual.ops.matmul.configs import DRAM_SHARDED, MCAST_1D, MCAST_2D, REUSE, SIMPLE, Activation, ProgramConfig
from tt_cnn.virtual.ops.matmul.dram_sharded import plan_dram_sharded
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.ops.matmul.programs import PROGRAMS
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout, ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    cores_to_ranges,
    div_up,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.unary import UnaryOpType

FUSED_ACTIVATIONS = frozenset(
    {
        UnaryOpType.RELU,
        UnaryOpType.GELU,
        UnaryOpType.GELU_TANH,
        UnaryOpType.TANH,
        UnaryOpType.SILU,
        UnaryOpType.RELU6,
        UnaryOpType.SIGMOID,
        UnaryOpType.HARDSIGMOID,
        UnaryOpType.HARDTANH,
        UnaryOpType.SELU,
        UnaryOpType.SOFTPLUS,
    }
)
"""Activations that a multicast program can apply before it stores."""

_BLOCK = TensorMemoryLayout.BLOCK_SHARDED


def choose_config(
    planner: Planner,
    problem: Problem,
    core_grid: tuple[int, int] | None = None,
    activation: Activation | None = None,
    batched: bool = False,
) -> ProgramConfig:
    """What the library takes when the user gives no program config. It depends on the L1 that is free at this point."""
    return _choose(problem, planner.card.grid, planner.program_l1(), core_grid, activation, batched)


@lru_cache(maxsize=4096)
def _choose(
    problem: Problem,
    grid: tuple[int, int],
    room: int,
    core_grid: tuple[int, int] | None,
    activation: Activation | None,
    batched: bool,
) -> ProgramConfig:
    return Choice(problem, grid, room, core_grid, activation, batched).config()


def plan_product(
    planner: Planner,
    problem: Problem,
    config: ProgramConfig,
    left: Slot,
    right: Slot,
    bias: Slot | None = None,
    output: Slot | None = None,
    channels: int | None = None,
    weights: WeightLayout | None = None,
) -> Slot:
    """Dispatch the product. `problem` describes the same tensors; a given `output` is written to.

    The output is made before anything is checked, so what does not fit is said first. `channels` and `weights` are
    those of a convolution.
    """
    if config.kind == DRAM_SHARDED:
        accumulates = problem.compute.packer_l1 and problem.k // max(1, config.block_k) > 1
        kept = _partials(problem, accumulates)
        return plan_dram_sharded(planner, problem, config, left, right, bias, output, kept, accumulates)
    spec = _output_spec(problem, config)
    out = output or planner.allocate(spec)
    check_matrices(problem)
    if output is not None:
        _check_output(problem, spec, output.spec)
    check_program(problem, config, planner.card.grid)
    if config.activation is not None and config.is_mcast:
        op_type = config.activation[0]
        fatal(op_type in FUSED_ACTIVATIONS, f"Unsupported UnaryOpType for fused activation: {op_type.native}")
    cores = _cores(problem, config, out.spec)
    several = config.kind != SIMPLE and problem.k // config.block_k > 1
    accumulates = problem.compute.packer_l1 and several
    partials = _partials(problem, accumulates)
    staging = Staging(problem, config, partials, left, right, bias, out, cores, planner.card.dram_alignment)
    program = PROGRAMS[config.kind](
        cores=cores.all,
        buffers=staging.buffers(),
        config=config,
        compute=problem.compute,
        inner=problem.k,
        transpose_a=problem.transpose_a,
        transpose_b=problem.transpose_b,
        adds_bias=bias is not None,
        accumulates=accumulates,
        partials=partials,
        channels=problem.a[-1] if channels is None else channels,
        weights=weights,
    )
    planner.dispatch(program, [left, right] + ([] if bias is None else [bias]), [out])
    return out


def _partials(p: Problem, accumulates: bool) -> DataType:
    """What partial sums are kept in: float32 with float32 registers, else bfloat16 where the packer adds them up in L1,
    else the output's dtype."""
    if p.compute.fp32:
        return DataType.FLOAT32
    return DataType.BFLOAT16 if accumulates else p.dtype


# --- output ---------------------------------------------------------------------------------------------------------


def _output_spec(p: Problem, config: ProgramConfig) -> Spec:
    layout = Layout.ROW_MAJOR if config.untilize_out else Layout.TILE
    memory = p.output if not p.output.is_sharded() else _output_shards(p, config)
    return Spec(p.output_shape, p.dtype, layout, memory)


def _output_shards(p: Problem, config: ProgramConfig) -> MemoryConfig:
    """A sharded output stands on the cores that compute something; on the user's only where the factories say so."""
    fatal(config.kind != SIMPLE, "Unsupported op for output sharding")
    m, n = config.per_core_m, config.per_core_n
    shape = (m * TILE_SIZE, n * TILE_SIZE)
    tall = p.left.shape.volume() // max(1, p.left.shape[-1] * p.left.shape[-2]) * div_up(p.left.shape[-2], TILE_SIZE)
    fatal(m > 0, f"Number of shards along height {tall} must not exceed number of cores 0")  # of rows less than a tile
    rows = div_up(p.rows(config.fuse_batch if config.kind == MCAST_1D else True), m)
    columns = div_up(p.n, n)
    asked = p.output.shard_spec
    if config.kind == MCAST_1D:
        if p.output.memory_layout is _BLOCK and asked is not None:
            size = asked.grid.bounding_box().grid_size()
            if size.x == 1 or size.y == 1:
                line = TensorMemoryLayout.HEIGHT_SHARDED if size.x == 1 else TensorMemoryLayout.WIDTH_SHARDED
                return MemoryConfig(line, p.output.buffer_type, asked)
        grid = num_cores_to_corerangeset(rows * columns, CoreCoord(*config.grid), True)
        return p.output.with_shard_spec(ShardSpec(grid, shape, ShardOrientation.ROW_MAJOR))
    if config.kind == MCAST_2D:
        batches = 1 if config.fuse_batch else p.batch_a
        fatal(
            batches == 1,
            f"Block-sharded output is incompatible with batch > 1 (B={batches}). The output CB is backed by the shard "
            f"buffer which only holds per_core_M * per_core_N = {m * n} tiles, but the kernel would produce B * "
            f"per_core_M * per_core_N = {batches * m * n} tiles without draining. Use fuse_batch=True.",
        )
        x, y = (rows, columns) if config.transpose_mcast else (columns, rows)
        grid = CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])
        orientation = ShardOrientation.COL_MAJOR if config.transpose_mcast else ShardOrientation.ROW_MAJOR
        return p.output.with_shard_spec(ShardSpec(grid, shape, orientation))
    source = next((s for s in (p.left, p.right) if s.is_sharded), None)
    orientation = ShardOrientation.COL_MAJOR if source is None else source.shard.orientation
    if asked is not None:
        grid = asked.grid
    else:
        row_wise = orientation is ShardOrientation.ROW_MAJOR
        grid = num_cores_to_corerangeset(rows * columns, CoreCoord(*config.grid), row_wise)
    return p.output.with_shard_spec(ShardSpec(grid, shape, orientation))


def _check_output(p: Problem, computed: Spec, given: Spec) -> None:
    fatal(
        given.shape == computed.shape,
        f"Shape of Optional Output Tensor {given.shape} doesn't match Output Tensor {computed.shape}",
    )
    fatal(
        given.dtype is p.dtype,
        f"Type mismatch between optional output tensor {given.dtype.native} & output tensor {p.dtype.native}",
    )


# --- cores ----------------------------------------------------------------------------------------------------------


def _cores(p: Problem, config: ProgramConfig, output: Spec) -> Cores:
    grid = CoreCoord(*config.grid)
    if config.kind == SIMPLE:
        return Cores(_first_cores(output.num_pages, grid))
    if config.kind == REUSE:
        sharded = next((s for s in (p.left, p.right, output) if s.is_sharded), None)
        if sharded is not None:
            return Cores(sharded.shard.grid)
        blocks = (p.batch_a * p.m // config.per_core_m) * (p.n // config.per_core_n)
        return Cores(_first_cores(blocks, grid))
    rows = div_up(p.rows(config.fuse_batch), config.per_core_m)
    columns = div_up(p.n, config.per_core_n)
    if config.kind == MCAST_1D:
        return _line_cores(p, config, rows * columns, grid)
    return _grid_cores(p, config, rows, columns)


def _first_cores(units: int, grid: CoreCoord) -> CoreRangeSet:
    """A unit per core, column after column, written as the fewest ranges."""
    return cores_to_ranges(num_cores_to_corerangeset(min(units, grid.x * grid.y), grid).cores())


def _line_cores(p: Problem, config: ProgramConfig, blocks: int, grid: CoreCoord) -> Cores:
    working = num_cores_to_corerangeset(blocks, grid, True)
    if not p.left.is_sharded:
        return Cores(working)
    start = p.left.shard.grid.bounding_box().start  # the line begins where the left matrix does (recorded)
    total = p.left.shard.num_cores()
    beyond = _following(blocks, total, grid) if config.mcast_left and total > blocks else None
    return Cores(_beginning_at(start, working), None if beyond is None else _beginning_at(start, beyond))


def _beginning_at(start: CoreCoord, cores: CoreRangeSet) -> CoreRangeSet:
    """Cores counted from the origin, counted from another one."""
    if start == (0, 0):
        return cores
    x, y = start.x, start.y
    return CoreRangeSet([CoreRange((r.start.x + x, r.start.y + y), (r.end.x + x, r.end.y + y)) for r in cores.ranges()])


def _following(first: int, end: int, grid: CoreCoord) -> CoreRangeSet:
    """Cores number `first` to `end`, row after row: the rest of a row, whole rows, the beginning of one."""
    x, y = first % grid.x, first // grid.x
    ranges = []
    if x:
        stop = min(grid.x, x + end - first)
        ranges.append(CoreRange((x, y), (stop - 1, y)))
        first, y = first + stop - x, y + 1
    whole, rest = divmod(end - first, grid.x)
    if whole:
        ranges.append(CoreRange((0, y), (grid.x - 1, y + whole - 1)))
    if rest:
        ranges.append(CoreRange((0, y + whole), (rest - 1, y + whole)))
    return CoreRangeSet(ranges)


def _grid_cores(p: Problem, config: ProgramConfig, rows: int, columns: int) -> Cores:
    """Cores of a block-sharded left matrix beyond the output's columns only send what they hold."""
    x, y = (rows, columns) if config.transpose_mcast else (columns, rows)
    working = CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])
    if p.left.memory_config.memory_layout is not _BLOCK:
        return Cores(working)
    size = p.left.shard.grid.bounding_box().grid_size()
    if config.transpose_mcast and size.y > y:
        return Cores(working, CoreRangeSet([CoreRange((0, y), (x - 1, size.y - 1))]))
    if not config.transpose_mcast and size.x > x:
        return Cores(working, CoreRangeSet([CoreRange((x, 0), (size.x - 1, y - 1))]))
    return Cores(working)
