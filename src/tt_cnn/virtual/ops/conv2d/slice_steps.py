# SPDX-License-Identifier: Apache-2.0
"""The steps that bring a part of a DRAM tensor into shards and back: `padded_slice` and `slice_write`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.conv2d.slice_time import LARGEST_READ, padded_slice_cycles, slice_write_cycles
from tt_cnn.virtual.ops.conv2d.slices import Part
from tt_cnn.virtual.ops.sliding_window.parallel import HEIGHT, WIDTH, ParallelConfig
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_ROWS_OF_TILES = 4
"""Rows of tiles that the tiled program has in flight."""
_UNALIGNED_ROWS = 2
"""Rows under way that are no whole memory words."""


@dataclass(frozen=True, kw_only=True)
class PaddedSliceProgram(Program):
    op: str = "PaddedSlice"
    part: Part

    def time(self, step: Step, figures: Figures) -> Cycles:
        scratch = any(buffer.name == "unaligned rows" for buffer in self.buffers)
        return padded_slice_cycles(step, figures, _UNALIGNED_ROWS if scratch else 0)

    def dram_bytes(self, step: Step) -> int:
        """Of the shards alone: the input is the whole image."""
        return super().dram_bytes(replace(step, inputs=step.outputs))


@dataclass(frozen=True, kw_only=True)
class SliceWriteProgram(Program):
    op: str = "SliceWrite"
    part: Part

    def time(self, step: Step, figures: Figures) -> Cycles:
        return slice_write_cycles(step, figures)

    def dram_bytes(self, step: Step) -> int:
        """Of the part alone: the output is the whole image."""
        return super().dram_bytes(replace(step, outputs=step.inputs))


def plan_padded_slice(planner: Planner, source: Slot, part: Part, config: MemoryConfig) -> Slot:
    """A part of the image in row-major shards, its channels padded to them."""
    spec = source.spec
    rows = part.in_rows[1] - part.in_rows[0]
    columns = part.in_columns[1] - part.in_columns[0]
    assert config.shard_spec is not None
    height, width = config.shard_spec.shape
    pixels, channels = spec.shape[0] * rows * columns, spec.shape[3]
    if config.memory_layout is HEIGHT:
        channels = width
    elif config.memory_layout is WIDTH:
        pixels = height
    dtype = DataType.BFLOAT16 if spec.dtype is DataType.BFLOAT8_B else spec.dtype
    output = planner.allocate(Spec(Shape((1, 1, pixels, channels)), dtype, Layout.ROW_MAJOR, config))
    tiled = spec.layout is Layout.TILE
    program = PaddedSliceProgram(
        factory="PaddedSliceTileProgramFactory" if tiled else "PaddedSliceRMProgramFactory",
        cores=config.shard_spec.grid,
        buffers=tuple(_tiled_buffers(spec, output) if tiled else _row_buffers(planner, spec, output)),
        part=part,
    )
    planner.dispatch(program, [source], [output])
    return output


def _tiled_buffers(source: Spec, output: Slot) -> list[CircularBuffer]:
    shard, cores = output.spec.shard, output.spec.shard.grid
    width = shard.shape[1]
    parts = ParallelConfig.of(output.spec.memory_config).cores_c
    tiles = max(div_up((i + 1) * width, TILE_SIZE) - i * width // TILE_SIZE for i in range(parts))
    stick = width * output.spec.dtype.element_bytes
    return [
        CircularBuffer(_ROWS_OF_TILES * tiles * source.dtype.tile_bytes, cores, name="input"),
        CircularBuffer(_ROWS_OF_TILES * tiles * output.spec.dtype.tile_bytes, cores, name="rows"),
        CircularBuffer(shard.shape[0] * stick, cores, output, name="output"),
        CircularBuffer(stick, cores, name="padding"),
    ]


def _row_buffers(planner: Planner, source: Spec, output: Slot) -> list[CircularBuffer]:
    shard, cores = output.spec.shard, output.spec.shard.grid
    element = output.spec.dtype.element_bytes
    stick = shard.shape[1] * element
    row = source.shape[3] * element
    buffers = [CircularBuffer(shard.shape[0] * stick, cores, output, name="output")]
    if stick > row // ParallelConfig.of(output.spec.memory_config).cores_c:
        buffers.append(CircularBuffer(stick, cores, name="padding"))
    alignment = planner.card.dram_alignment
    if stick % alignment:
        buffers.append(
            CircularBuffer(_UNALIGNED_ROWS * (round_up(row, alignment) + alignment), cores, name="unaligned rows")
        )
    return buffers


def plan_slice_write(planner: Planner, result: Slot, output: Slot, part: Part) -> None:
    """A finished part written to its place in the DRAM output."""
    spec = result.spec
    grid = planner.card.grid
    cores = spec.shard.grid if spec.is_sharded else CoreRangeSet([CoreRange((0, 0), (grid[0] - 1, grid[1] - 1))])
    if not spec.is_sharded:
        factory, buffers = "SliceWriteRMInterleavedProgramFactory", _interleaved_buffers(planner, spec, cores)
    elif spec.layout is Layout.TILE:
        factory, buffers = "SliceWriteTiledShardedInputProgramFactory", _borrowed(result, cores)
    else:
        factory, buffers = "SliceWriteRMShardedInputProgramFactory", _borrowed(result, cores)
    program = SliceWriteProgram(factory=factory, cores=cores, buffers=tuple(buffers), part=part)
    planner.dispatch(program, [result], [output])


def _borrowed(result: Slot, cores: CoreRangeSet) -> list[CircularBuffer]:
    return [CircularBuffer(result.spec.shard_pages * result.spec.page_bytes, cores, result, name="input")]


def _interleaved_buffers(planner: Planner, spec: Spec, cores: CoreRangeSet) -> list[CircularBuffer]:
    row = spec.physical[1] * spec.dtype.element_bytes
    page = round_up(row, planner.card.dram_alignment)
    most = div_up(spec.physical[0], min(spec.physical[0], planner.card.cores))
    sticks = round_up(most, TILE_SIZE)
    at_once = max((n for n in range(1, LARGEST_READ // page + 1) if sticks % n == 0), default=1)
    return [CircularBuffer(2 * at_once * page, cores, name="rows")]
