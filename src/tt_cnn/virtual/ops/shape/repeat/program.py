# SPDX-License-Identifier: Apache-2.0
"""The programs behind repeat: the generated one (`RepeatCodegen`) and the older one (`Repeat`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingPagesProgram
from tt_cnn.virtual.ops.layout.relayout import scratchpad
from tt_cnn.virtual.ops.shape.programs import aligned_page, cores_for
from tt_cnn.virtual.ops.shape.shards import lacks_shards
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import BLOCK, Arch, BufferType, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRangeSet,
    Shape,
    div_up,
    num_cores_to_corerangeset,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

BATCH = 4
DEPTH = 2 * BATCH
_READ_WORD = 64
_CAPPED_FROM_REPEATS = 4
_BLOCK_CORES, _WIDTH_CORES, _WIDTH_PAGES = 100, 64, 1024


@dataclass(frozen=True, kw_only=True)
class RepeatProgram(MovingPagesProgram):
    op: str = "Repeat"
    dim: int
    times: int


@dataclass(frozen=True, kw_only=True)
class RepeatCodegenProgram(RepeatProgram):
    op: str = "RepeatCodegen"
    factory: str = "RepeatCodegenProgramFactory"


def repeated(shape: Shape, dim: int, times: int) -> Shape:
    dims = list(shape)
    dims[dim] *= times
    return Shape(dims)


def rows_in_flight(slot: int, room: int) -> int | None:
    """Row-major rows that the generated program holds: up to 8, fewer where L1 is short; None where none fits."""
    most = room // slot if slot else 0
    if most <= 1:
        return most or None
    return 2 * min(BATCH, most // 2)


def plan_generated_repeat(planner: Planner, x: Slot, dim: int, times: int, config: MemoryConfig) -> Slot:
    """One dimension of a tensor of four repeated by the generated program."""
    spec = x.spec
    output = planner.allocate(Spec(repeated(spec.shape, dim, times), spec.dtype, spec.layout, config))
    card = planner.card
    n, c, h, w = spec.shape
    if spec.layout is Layout.TILE:
        pages = n * c * div_up(h, TILE_SIZE) * div_up(w, TILE_SIZE)
        tile = spec.dtype.tile_bytes
        direct = dim < 2 and config.buffer_type is BufferType.L1 and config.memory_layout is not BLOCK
        cores = _capped(planner, output.spec, dim, times, pages * times, pages if direct else pages * times)
        size = tile if direct else DEPTH * aligned_page(card, output.spec)
    else:
        sticks = n * c * h
        cores = cores_for(card, sticks if dim == 3 else sticks * times)
        slot = max(aligned_page(card, spec), aligned_page(card, output.spec))
        depth = rows_in_flight(slot, planner.program_l1())
        fatal(depth is not None, f"RepeatCodegen: a {slot}-byte row-major CB slot does not fit in free L1")
        size = (depth or 1) * slot
    buffers = (CircularBuffer(size, cores, name="pages"),)
    planner.dispatch(RepeatCodegenProgram(cores=cores, buffers=buffers, dim=dim, times=times), [x], [output])
    return output


def _capped(planner: Planner, out: Spec, dim: int, times: int, made: int, work: int) -> CoreRangeSet:
    """Blackhole uses fewer cores for some sharded outputs."""
    card = planner.card
    layout = out.memory_config.memory_layout.name
    cap = None
    if card.arch is Arch.BLACKHOLE and dim < 2 and times >= _CAPPED_FROM_REPEATS:
        if layout == "BLOCK_SHARDED":
            cap = _BLOCK_CORES
        elif layout == "WIDTH_SHARDED" and made >= _WIDTH_PAGES:
            cap = _WIDTH_CORES
    if cap is None:
        return cores_for(card, work)
    return num_cores_to_corerangeset(min(cap, work, card.cores), CoreCoord(*card.grid))


def plan_native_repeat(planner: Planner, x: Slot, dim: int, times: int, config: MemoryConfig) -> Slot:
    """One dimension repeated by the older program: whole rows, or whole tiles where the shape is made of them."""
    spec = x.spec
    shape = repeated(spec.shape, dim, times)
    if lacks_shards(config):
        config = config.with_shard_spec(_stretched(spec.shard, dim == len(spec.shape) - 1, times))
    output = planner.allocate(Spec(shape, spec.dtype, spec.layout, config))
    last = dim == len(spec.shape) - 1 and spec.layout is Layout.ROW_MAJOR
    page = spec.dtype.tile_bytes if spec.layout is Layout.TILE else spec.shape[-1] * spec.dtype.element_bytes
    size = 2 * _READ_WORD + (page * _widening(page) if last else page)
    both = spec.layout is Layout.ROW_MAJOR and not spec.is_sharded and not output.spec.is_sharded
    names = ["input", "output"] if both else ["pages"]
    program = RepeatProgram(
        factory="RepeatProgramFactoryLastDim" if last else "RepeatProgramFactoryHigherDim",
        cores=planner.grid,
        buffers=tuple(scratchpad(size, planner.grid, name) for name in names),
        dim=dim,
        times=times,
    )
    planner.dispatch(program, [x], [output])
    return output


def _stretched(shard: ShardSpec, wider: bool, times: int) -> ShardSpec:
    height, width = shard.shape
    return ShardSpec(shard.grid, [height, width * times] if wider else [height * times, width], shard.orientation)


def _widening(page: int) -> int:
    """Rows are doubled until they are whole words of 16 bytes."""
    return next((times for word, times in ((16, 1), (8, 2), (4, 4), (2, 8)) if page % word == 0), 16)


def stays_on_cores(spec: Spec, config: MemoryConfig, dim: int, times: int) -> bool:
    """TT-NN: `is_native_repeat_sharding`."""
    shard = spec.memory_config.shard_spec
    rank = len(spec.shape)
    if shard is None or spec.memory_config.is_dram() or rank < 2:
        return False
    padded = tuple(spec.padded_shape)
    if prod(padded[:-1]) % shard.shape[0] or padded[-1] % shard.shape[1]:
        return False
    if spec.layout is Layout.TILE and (spec.shape[-1] % TILE_SIZE or spec.shape[-2] % TILE_SIZE):
        return False
    scattered = spec.memory_config.memory_layout.name in ("WIDTH_SHARDED", "BLOCK_SHARDED")
    if spec.layout is Layout.ROW_MAJOR and dim == rank - 1 and scattered:
        return False
    if config.is_sharded():
        if config.is_dram() or config.memory_layout is not spec.memory_config.memory_layout:
            return False
        if config.shard_spec is not None and config.shard_spec.grid != shard.grid:
            return False
    if dim == rank - 1 or times <= 1:
        return True
    return shard.shape[0] % (prod(padded[dim:-1])) == 0
