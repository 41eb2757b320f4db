# SPDX-License-Identifier: Apache-2.0
"""interleaved_to_sharded: deal an interleaved tensor out to shards, with a dtype change where it is in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.arguments.typed import takes
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.streams import stream_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import Relayout, scratchpad, staging
from tt_cnn.virtual.ops.layout.time import conversion_cycles, latency_cycles, moving_parts
from tt_cnn.virtual.ops.layout.workers import workers_of
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import Arch, BufferType, DataType, Layout, ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRangeSet,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_TRANSACTIONS = 4
"""Reads in flight, each with a page of scratch."""


@dataclass(frozen=True, kw_only=True)
class InterleavedToShardedProgram(Program):
    """Each core reads the pages of its shard; a shard of another format is converted."""

    op: str = "InterleavedToSharded"
    factory: str = "InterleavedToShardedProgramFactory"
    through_scratch: bool = False
    """Rows out of DRAM that do not begin at its words, and all on Blackhole: four under way, each copied once more."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        source, output = step.inputs[0].spec, step.outputs[0].spec
        pages, size = _units(source, output.shard), _unit_bytes(source, output.shard, source.dtype)
        if self.through_scratch:
            way = latency_cycles(source, figures) + figures.local_latency_cycles + figures.barrier_cycles
            return moving_parts(div_up(pages, _TRANSACTIONS) * way, source)
        parts = source.num_pages if source.layout is Layout.TILE else source.num_pages * source.page_bytes / size
        total = stream_cycles(figures, source, pages, size, parts, read=True)
        return moving_parts(total, source, conversion_cycles(step, figures))


def refusal(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType, out: Spec | None) -> str | None:
    """What the op says against a call, if anything; `to_memory_config` then takes another way."""
    if dtype.is_block_float and spec.layout is Layout.ROW_MAJOR:
        return "Output dtype BFLOAT8_B/BFLOAT4_B requires TILE layout, but input tensor layout is ROW_MAJOR"
    if out is not None:
        for differs, message in (
            (out.shape != spec.shape, "Mismatched output shape"),
            (out.memory_config != config, "Mismatched output memory config"),
            (out.dtype is not dtype, "Mismatched output dtype"),
            (out.layout is not spec.layout, "Output tensor layout must match input tensor layout"),
        ):
            if differs:
                return message
    if spec.is_sharded:
        return f"Input tensor memory layout must be INTERLEAVED, but got {spec.memory_config.memory_layout.native}"
    if not config.is_sharded():
        return "Output memory config must be sharded"
    if config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and not config.is_l1():
        return "We don't support DRAM block sharding"
    shard = config.shard_spec
    if shard is None:
        return "bad optional access"
    if spec.layout is Layout.ROW_MAJOR and shard.shape[1] * spec.dtype.element_bytes % planner.card.l1_alignment:
        return "Shard page size must currently have L1 aligned page size"
    if spec.dtype is not dtype and spec.layout is not Layout.TILE:
        return "Input tensor layout must be TILE when dtype conversion is needed"
    return None


def _units(spec: Spec, shard: ShardSpec) -> int:
    """Pages of a shard: tiles, or rows."""
    if spec.layout is Layout.TILE:
        return (shard.shape[0] // TILE_SIZE) * (shard.shape[1] // TILE_SIZE)
    return shard.shape[0]


def _unit_bytes(spec: Spec, shard: ShardSpec, dtype: DataType) -> int:
    return dtype.tile_bytes if spec.layout is Layout.TILE else shard.shape[1] * dtype.element_bytes


def _alignment(planner: Planner, config: MemoryConfig) -> int:
    return planner.card.dram_alignment if config.is_dram() else planner.card.l1_alignment


def fits(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType) -> bool:
    """Whether the program's buffers fit what is free now: scratch, the conversion's input and, always, the output."""
    shard = config.shard_spec
    assert shard is not None
    units = _units(spec, shard)
    source = _unit_bytes(spec, shard, spec.dtype)
    total = _TRANSACTIONS * round_up(source + planner.card.dram_alignment, planner.card.dram_alignment)
    if spec.dtype is not dtype:
        total += units * round_up(source, _alignment(planner, spec.memory_config))
    total += units * round_up(_unit_bytes(spec, shard, dtype), _alignment(planner, config))
    return total < planner.program_l1()


def plan_interleaved_to_sharded(
    planner: Planner, x: Slot, memory_config: MemoryConfig, dtype: DataType | None = None, out: Slot | None = None
) -> Slot:
    spec = x.spec
    dtype = dtype or spec.dtype
    result = out or planner.allocate(Spec(spec.shape, dtype, spec.layout, memory_config))
    problem = refusal(planner, spec, memory_config, dtype, out.spec if out else None)
    fatal(problem is None, problem or "")
    cores = workers_of(planner.card, result.spec)
    program = InterleavedToShardedProgram(
        cores=cores,
        buffers=_buffers(planner, x, result, cores),
        through_scratch=_through_scratch(planner, spec, memory_config),
    )
    planner.dispatch(program, [x], [result])
    return result


def _through_scratch(planner: Planner, spec: Spec, config: MemoryConfig) -> bool:
    if spec.layout is not Layout.ROW_MAJOR:
        return False
    assert config.shard_spec is not None
    word = config.shard_spec.shape[1] * spec.dtype.element_bytes % planner.card.dram_alignment
    return planner.card.arch is Arch.BLACKHOLE or (spec.memory_config.is_dram() and word != 0)


def _buffers(planner: Planner, x: Slot, out: Slot, cores: CoreRangeSet) -> tuple[CircularBuffer, ...]:
    spec, shard = x.spec, out.spec.shard
    units, config = _units(spec, shard), out.spec.memory_config
    page = round_up(_unit_bytes(spec, shard, out.spec.dtype), _alignment(planner, config))
    buffers = [staging(units * page, cores, None if config.is_dram() else out, "output")]
    source = _unit_bytes(spec, shard, spec.dtype)
    if spec.dtype is not out.spec.dtype:
        buffers.append(staging(units * round_up(source, _alignment(planner, spec.memory_config)), cores, name="input"))
    if spec.layout is Layout.ROW_MAJOR:
        page = round_up(source + planner.card.dram_alignment, planner.card.dram_alignment)
        buffers.append(scratchpad(page * _TRANSACTIONS, cores))
    return tuple(buffers)


def config_of(
    spec: Spec,
    grid: CoreCoord | CoreRangeSet,
    shard_shape: Sequence[int],
    shard_scheme: TensorMemoryLayout,
    shard_orientation: ShardOrientation,
) -> MemoryConfig:
    """The memory config of the long form; a corner of a grid stands for as many of its cores as there are shards."""
    fatal(
        len(shard_shape) == 2 and min(shard_shape) > 0,
        f"Shard shape {tuple(shard_shape)} must have a height and a width above 0",
    )
    if isinstance(grid, CoreCoord):
        height, width = spec.physical
        rows, columns = div_up(height, shard_shape[0]), div_up(width, shard_shape[1])
        counts = {
            TensorMemoryLayout.HEIGHT_SHARDED: rows,
            TensorMemoryLayout.WIDTH_SHARDED: columns,
            TensorMemoryLayout.BLOCK_SHARDED: rows * columns,
        }
        fatal(shard_scheme in counts, "Unsupported sharding scheme")
        grid = num_cores_to_corerangeset(counts[shard_scheme], grid, shard_orientation is ShardOrientation.ROW_MAJOR)
    return MemoryConfig(shard_scheme, BufferType.L1, ShardSpec(grid, shard_shape, shard_orientation))


@op("interleaved_to_sharded")
class InterleavedToSharded(Relayout):
    """`(x, memory_config, dtype)`, or the long form `(x, grid, shard_shape, scheme, orientation, dtype)`."""

    def arguments(self, input_tensor: Tensor, *args: Any, **kwargs: Any) -> Call:
        long = ("grid", "shard_shape", "shard_scheme", "shard_orientation", "output_dtype")
        short = ("sharded_memory_config", "output_dtype")
        is_short = isinstance(args[0], MemoryConfig) if args else "sharded_memory_config" in kwargs
        names = short if is_short else long
        given = dict(zip(names, args, strict=False)) | kwargs
        given.pop("keep_l1_aligned", None)
        out = given.pop("preallocated_output", None) if is_short else None
        missing = [name for name in names[:-1] if name not in given]
        extra = [name for name in given if name not in names]
        if missing or extra or len(args) > len(names):
            raise TypeError(
                f"\nttnn.interleaved_to_sharded(): incompatible function arguments: {', '.join(missing + extra)}"
            )
        dtype = given.pop("output_dtype", None)
        types_fit = is_short or takes(config_of, (input_tensor.spec,), given)
        if not types_fit or not isinstance(dtype, (DataType, type(None))):
            raise TypeError("\nttnn.interleaved_to_sharded(): incompatible function arguments.")
        config = given["sharded_memory_config"] if is_short else config_of(input_tensor.spec, **given)
        return Call([input_tensor] + ([out] if out is not None else []), memory_config=config, dtype=dtype)

    def plan(self, planner: Planner, x: Slot, out: Slot | None = None, **options: Any) -> list[Slot]:
        return [plan_interleaved_to_sharded(planner, x, out=out, **options)]
