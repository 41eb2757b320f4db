# SPDX-License-Identifier: Apache-2.0
"""sharded_to_interleaved: collect shards in L1 into an interleaved tensor."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.streams import stream_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.relayout import Relayout, padded_as, staging
from tt_cnn.virtual.ops.layout.time import conversion_cycles, moving_parts
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreRange,
    CoreRangeSet,
    cores_to_ranges,
    div_up,
    first_cores,
    round_up,
)
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class ShardedToInterleavedProgram(MovingProgram):
    """Each core writes the pages of its shard to where they belong."""

    op: str = "ShardedToInterleaved"
    factory: str = "ShardedToInterleavedProgramFactory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        source, output = step.inputs[0].spec, step.outputs[0].spec
        height, width = source.shard.shape
        if source.layout is Layout.TILE:
            pages, size, parts = height * width // TILE_SIZE**2, output.page_bytes, float(output.num_pages)
        else:
            pages, size = height, min(width * output.dtype.element_bytes, output.page_bytes)
            parts = output.num_pages * output.page_bytes / size
        total = stream_cycles(figures, output, pages, size, parts, read=False)
        return moving_parts(total, output, conversion_cycles(step, figures))


def refusal(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType, out: Spec | None) -> str | None:
    """What the op says against a call, if anything; `to_memory_config` then takes another way."""
    if not spec.is_sharded:
        return "Input tensor must be sharded"
    if not spec.memory_config.is_l1():
        return "Input tensor must be in L1"
    if out is not None:
        for differs, message in (
            (out.memory_config != config, "Mismatched output memory config"),
            (out.dtype is not dtype, "Mismatched output dtype"),
            (out.layout is not spec.layout, "Output tensor layout must match input tensor layout"),
        ):
            if differs:
                return message
    if config.is_sharded():
        return "Output memory config must be Interleaved"
    alignment = planner.card.l1_alignment
    if spec.layout is Layout.ROW_MAJOR and spec.shard.shape[1] * spec.dtype.element_bytes % alignment:
        return f"Shard page size must be aligned to {alignment}B for L1 Tensor"
    if spec.dtype is not dtype and spec.layout is not Layout.TILE:
        return "If diff output type, tensor must be TILED"
    return None


def _converted_bytes(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType) -> int:
    """A shard in the output's dtype: the buffer of the conversion."""
    shard = spec.shard
    tiles = shard.shape[0] * shard.shape[1] // (TILE_SIZE * TILE_SIZE)
    alignment = planner.card.dram_alignment if config.is_dram() else planner.card.l1_alignment
    return tiles * round_up(dtype.tile_bytes, alignment)


def fits(planner: Planner, spec: Spec, config: MemoryConfig, dtype: DataType) -> bool:
    """Whether the buffer of a conversion fits what is free now (the output does not count, as in TT-NN)."""
    return spec.dtype is dtype or _converted_bytes(planner, spec, config, dtype) < planner.program_l1()


def _cores(spec: Spec) -> CoreRangeSet:
    """Cores with values; for rows of padded width, shards of nothing but padding are left out."""
    shard = spec.shard
    height, width = spec.physical if spec.layout is Layout.TILE else spec.logical_2d
    rows, columns = div_up(height, shard.shape[0]), div_up(width, shard.shape[1])
    if spec.memory_config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED:
        start = shard.grid.bounding_box().start
        x, y = (columns, rows) if shard.row_wise else (rows, columns)
        return CoreRangeSet([CoreRange(start, (start.x + x - 1, start.y + y - 1))])
    if rows * columns >= shard.num_cores():
        return shard.grid
    cores = first_cores(shard.grid, rows * columns, shard.row_wise)
    return cores if cores.size() == 1 else cores_to_ranges(cores.cores())


def output_spec(spec: Spec, config: MemoryConfig, dtype: DataType) -> Spec:
    if spec.layout is Layout.ROW_MAJOR:
        return Spec(spec.shape, dtype, spec.layout, config)
    return padded_as(spec.shape, dtype, spec.layout, config, spec.padded_shape)


def plan_sharded_to_interleaved(
    planner: Planner, x: Slot, config: MemoryConfig, dtype: DataType | None = None, out: Slot | None = None
) -> Slot:
    spec = x.spec
    dtype = dtype or spec.dtype
    result = out or planner.allocate(output_spec(spec, config, dtype))
    problem = refusal(planner, spec, config, dtype, out.spec if out else None)
    fatal(problem is None, problem or "")
    cores = _cores(spec)
    shard = spec.shard
    if spec.layout is Layout.TILE:
        units, page = shard.shape[0] * shard.shape[1] // (TILE_SIZE * TILE_SIZE), spec.dtype.tile_bytes
    else:
        units, page = shard.shape[0], shard.shape[1] * spec.dtype.element_bytes
    buffers = [staging(units * round_up(page, planner.card.l1_alignment), cores, x, "input")]
    if spec.dtype is not dtype:
        size = _converted_bytes(planner, spec, result.spec.memory_config, dtype)
        buffers.append(staging(size, cores, name="output"))
    planner.dispatch(ShardedToInterleavedProgram(cores=cores, buffers=tuple(buffers)), [x], [result])
    return result


@op("sharded_to_interleaved")
class ShardedToInterleaved(Relayout):
    def arguments(
        self, input_tensor: Tensor, memory_config: MemoryConfig | None = None, output_dtype: DataType | None = None
    ) -> Call:
        return Call([input_tensor], memory_config=memory_config or DRAM_MEMORY_CONFIG, dtype=output_dtype)

    def shortcut(self, call: Call) -> Tensor | None:
        """A tensor that is interleaved already comes back as it is, wherever it was wanted."""
        x = call.tensors[0]
        x.buffer(self.name)
        return None if x.is_sharded() else x

    def plan(self, planner: Planner, x: Slot, *, memory_config: MemoryConfig, dtype: DataType | None) -> list[Slot]:
        return [plan_sharded_to_interleaved(planner, x, memory_config, dtype)]
