# SPDX-License-Identifier: Apache-2.0
"""A product of one row of tiles with a matrix whose columns are distributed over the banks of DRAM.

A core beside each bank reads its columns; the left matrix, in shards of its width, is sent to all of them, and the
result is written to the cores where it shall stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.matmul.checks import check_matrices
from tt_cnn.virtual.ops.matmul.configs import ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.ops.matmul.program import MatmulProgram, Route
from tt_cnn.virtual.ops.matmul.time import bank_by_bank
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import WIDTH, Arch, DataType, Layout, ShardOrientation
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_LEFT_BUFFERED, _RIGHT_BUFFERED = 2, 3
_SUBBLOCK = 8
"""Tiles of a sub-block at most; columns are padded so that sub-blocks have the same size."""
_LAST_READER = {Arch.WORMHOLE_B0: (7, 7), Arch.BLACKHOLE: (6, 9)}
"""The lower right corner of the cores beside the banks: recorded on an n150 and a p150."""


@dataclass(frozen=True, kw_only=True)
class MatmulDramShardedProgram(MatmulProgram):
    """Columns of the right matrix are read by a core for each bank that has some."""

    factory: str = "MatmulMultiCoreReuseMultiCastDRAMShardedProgramFactory"
    banks: int

    @property
    def routes(self) -> tuple[Route, Route]:
        return Route(0, self.banks - 1), Route(self.banks)

    def time(self, step: Step, figures: Figures) -> Cycles:
        return bank_by_bank(self, step, figures)


def plan_dram_sharded(
    planner: Planner,
    p: Problem,
    config: ProgramConfig,
    left: Slot,
    right: Slot,
    bias: Slot | None,
    output: Slot | None,
    partials: DataType,
    accumulates: bool,
) -> Slot:
    fatal(p.left.is_sharded, "bad optional access")
    out = output or planner.allocate(Spec(p.output_shape, p.dtype, Layout.TILE, _placed(planner, p, config)))
    check_matrices(p)
    _check(p, config, planner.card.arch)
    banks = p.right.shard.num_cores() * config.workers
    columns = div_up(p.n, banks)
    padded = round_up(columns, div_up(columns, min(p.compute.registers, _SUBBLOCK)))
    cores = _cores(planner, p, config.workers)
    program = MatmulDramShardedProgram(
        cores=cores,
        buffers=_buffers(cores, p, config, columns, padded, partials, bias),
        config=replace(config, block_h=1, block_w=columns, per_core_n=columns, subblock_w=_subblock(p, columns)),
        compute=p.compute,
        inner=p.k,
        transpose_a=p.transpose_a,
        transpose_b=p.transpose_b,
        adds_bias=bias is not None,
        accumulates=accumulates,
        partials=partials,
        channels=p.a[-1],
        banks=banks,
    )
    planner.dispatch(program, [left, right] + ([] if bias is None else [bias]), [out])
    return out


def _placed(planner: Planner, p: Problem, config: ProgramConfig) -> MemoryConfig:
    """Shards of so many columns as the config says, on the first cores, row after row."""
    if not p.output.is_sharded():
        return p.output
    cores = num_cores_to_corerangeset(div_up(p.n, config.per_core_n), CoreCoord(*planner.card.grid), True)
    size = [config.per_core_m * TILE_SIZE, config.per_core_n * TILE_SIZE]
    return p.output.with_shard_spec(ShardSpec(cores, size, ShardOrientation.ROW_MAJOR))


def _cores(planner: Planner, p: Problem, workers: int) -> CoreRangeSet:
    """The rectangle from the first core around those that read and those of the left matrix."""
    x, y = _LAST_READER.get(planner.card.arch, planner.card.grid)
    if workers > 1:
        return planner.grid
    end = p.left.shard.grid.bounding_box().end
    return CoreRangeSet([CoreRange((0, 0), (max(x, end.x), max(y, end.y)))])


def _subblock(p: Problem, columns: int) -> int:
    return next(n for n in range(min(columns, p.compute.registers), 0, -1) if columns % n == 0)


def _buffers(
    cores: CoreRangeSet,
    p: Problem,
    config: ProgramConfig,
    columns: int,
    padded: int,
    partials: DataType,
    bias: Slot | None,
) -> tuple[CircularBuffer, ...]:
    several = p.k > config.block_k
    sizes = {
        "left": (_LEFT_BUFFERED if several else 1) * config.per_core_m * config.block_k * p.left.dtype.tile_bytes,
        "right": (_RIGHT_BUFFERED if several else 1) * config.block_k * columns * p.right.dtype.tile_bytes,
        "output": config.per_core_m * padded * p.dtype.tile_bytes,
    }
    if partials is not p.dtype:
        sizes["partial sums"] = config.per_core_m * padded * partials.tile_bytes
    if bias is not None:
        sizes["bias"] = padded * bias.spec.dtype.tile_bytes
    buffers = [CircularBuffer(size, cores, dataflow=True, name=name) for name, size in sizes.items()]
    block = config.block_k * p.left.dtype.tile_bytes
    if config.block_k > p.left.shard.shape[1] // TILE_SIZE:  # a block is put together from several shards
        buffers.append(CircularBuffer(block, cores, dataflow=True, scratch=True, name="gathered left"))
    return tuple(buffers)


def _check(p: Problem, config: ProgramConfig, arch: Arch) -> None:
    name = config.kind
    fatal(
        config.workers == 1 or arch is Arch.BLACKHOLE,
        f"{name}: num_workers_per_dram_bank > 1 is currently supported only on Blackhole",
    )
    fatal(p.output.is_sharded(), f"{name}: Output memory config must be sharded for DRAM sharded program config")
    for side, spec in (("A", p.left), ("B", p.right)):
        layout = spec.memory_config.memory_layout
        fatal(layout is WIDTH, f"{name}: Input {side} memory layout must be WIDTH_SHARDED, got: {layout.native}")
    fatal(p.m == config.per_core_m, f"{name}: M ({p.m}) must equal per_core_M ({config.per_core_m})")
    fatal(p.m == 1, f"{name}: currently only support in0 tensor height of tile height")
    fatal(
        p.k % config.block_k == 0,
        f"{name}: K ({p.k}) must be divisible by in0_block_w ({config.block_k})",
    )
