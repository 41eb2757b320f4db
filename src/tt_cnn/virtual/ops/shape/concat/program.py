# SPDX-License-Identifier: Apache-2.0
"""The concat device operation: its checks, its output, and which program does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal_moves import IdealMove
from tt_cnn.virtual.cost.network import Way, in_l1_shards, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingProgram
from tt_cnn.virtual.ops.layout.time import PROCESSORS, moving_parts, one_by_one_cycles
from tt_cnn.virtual.ops.shape.concat import programs
from tt_cnn.virtual.ops.shape.concat.shared import Concat, height_concat, width_concat
from tt_cnn.virtual.ops.shape.concat.unaligned import takes_unaligned_tiles, unaligned_tiles
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, BufferType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

MAX_BLOCK_SHARDED_INPUTS = 16


@dataclass(frozen=True, kw_only=True)
class ConcatProgram(MovingProgram):
    op: str = "Concat"
    dim: int
    groups: int
    shared: tuple[int, ...]
    """For each input the first that is the same tensor: programs are cached apart by that."""
    grid: CoreRangeSet | None
    """The cores that the call leaves to the op."""

    fetches: bool = False
    """Cores get their part of the output from others, and do not only join what they hold."""
    turns_tiles: bool = False
    """Tiles are transposed before they are joined, and back after that."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        output = step.outputs[0].spec
        cores = self.cores.num_cores()
        if not in_l1_shards(output):
            source = step.inputs[0].spec
            page = min(source.page_bytes, output.page_bytes)
            return one_by_one_cycles(figures, source, output, output.num_pages * output.page_bytes / page, page, cores)
        way = Way.L1_READ if self.fetches else Way.LOCAL
        copying = 0.0
        for spec in (slot.spec for slot in step.inputs):
            run = spec.shard.shape[1] / spec.page_shape[1] * spec.page_bytes
            copying += spec.shard_pages * spec.page_bytes / run * transaction_cycles(figures, way, run)
        turning = 2 * output.shard_pages * figures.transpose_cycles if self.turns_tiles else 0.0
        return moving_parts(copying / PROCESSORS + figures.l1_latency_cycles, output, turning)

    def ideal_move(self, step: Step) -> IdealMove:
        """Upstream takes the output's shape for the input's too."""
        output = step.outputs[0].spec
        return IdealMove.between(step.inputs[0].spec, output, read=output.padded_shape)


def works_in_shards(inputs: Sequence[Slot], config: MemoryConfig) -> bool:
    """Whether a program that reads and writes shards in place can take it: all of it is sharded in L1."""
    if not inputs[0].spec.is_sharded:
        return False
    if any(x.spec.memory_config.buffer_type is BufferType.DRAM for x in inputs):
        return False
    return not (config.is_sharded() and config.buffer_type is BufferType.DRAM)


def plan_concat_device(
    planner: Planner,
    inputs: Sequence[Slot],
    dim: int,
    groups: int,
    config: MemoryConfig,
    grid: CoreRangeSet | None = None,
) -> Slot:
    first = inputs[0].spec
    shape = list(first.shape)
    shape[dim] = sum(x.spec.shape[dim] for x in inputs)
    output = planner.allocate(Spec(Shape(shape), first.dtype, first.layout, config))
    call = Concat(planner, tuple(inputs), output, dim, groups, grid)
    _validate(call, config)
    factory, buffers_of = _factory(call, config)
    cores, buffers = buffers_of(call)
    program = ConcatProgram(
        factory=factory,
        cores=cores,
        buffers=tuple(buffers),
        dim=dim,
        groups=groups,
        shared=_shared(inputs),
        grid=grid,
        fetches=buffers_of is programs.blocks,
        turns_tiles=buffers_of is programs.two_tiled_shards,
    )
    planner.dispatch(program, inputs, [output])
    return output


def _shared(inputs: Sequence[Slot]) -> tuple[int, ...]:
    first: dict[int, int] = {}
    return tuple(first.setdefault(x.buffer, i) for i, x in enumerate(inputs))


def _factory(call: Concat, config: MemoryConfig) -> tuple[str, Callable[[Concat], CoresAndBuffers]]:
    first = call.inputs[0].spec
    generic = "ConcatProgramFactory", programs.pages
    if not works_in_shards(call.inputs, config):
        if not first.is_sharded and takes_unaligned_tiles(call.planner, call.inputs, call.dim, call.groups, config):
            return "ConcatTiledUnalignedProgramFactory", unaligned_tiles
        return generic
    layout = first.memory_config.memory_layout
    if layout is BLOCK:
        return "ConcatBlockShardedProgramFactory", programs.blocks
    rank = len(first.shape)
    wide = rank >= 2 and width_concat(rank, call.dim)
    if len(call.inputs) == 2 and wide and first.layout is call.inputs[1].spec.layout:
        if first.layout is Layout.ROW_MAJOR and all(x.spec.padded_shape[-1] % call.groups == 0 for x in call.inputs):
            return "ConcatS2SRMProgramFactory", programs.two_row_major_shards
        return "ConcatS2STiledProgramFactory", programs.two_tiled_shards
    if wide or height_concat(rank, call.dim):
        return "ConcatS2SMultiProgramFactory", programs.many_shards
    return generic


def _validate(call: Concat, config: MemoryConfig) -> None:
    first = call.inputs[0].spec
    shape = [*first.shape]
    shape[call.dim] = 0
    for x in call.inputs:
        spec = x.spec
        fatal(spec.layout is first.layout, "All Tensors should have same layouts.")
        fatal(spec.dtype is first.dtype, "All Tensors should have same dtypes.")
        fatal(len(spec.shape) == len(first.shape), "Input tensor ranks must be equal")
        other = [*spec.shape]
        other[call.dim] = 0
        fatal(other == shape, "concat tensors differ in shape across non-concat dimensions.")
        fatal(
            spec.is_sharded == first.is_sharded,
            "All tensors must be sharded or all must be interleaved",
        )
        if first.is_sharded:
            fatal(spec.shard.grid == first.shard.grid, "Sharded tensors must have the same grid.")
            fatal(
                spec.memory_config.memory_layout is first.memory_config.memory_layout,
                "Sharded tensors must have the same memory layout.",
            )
            fatal(
                spec.shard.orientation is first.shard.orientation,
                "Sharded tensors must have the same shard orientation.",
            )
    if works_in_shards(call.inputs, config):
        _validate_shards(call, config)
    elif first.is_sharded:
        fatal_groups_in_dram(call.groups)


def fatal_groups_in_dram(groups: int) -> None:
    fatal(
        groups == 1,
        f"Groups > 1 is not supported for DRAM-sharded concat (groups={groups} was provided). Move the inputs and "
        "output to L1 sharding, or unshard them first.",
    )


def _validate_shards(call: Concat, config: MemoryConfig) -> None:
    first = call.inputs[0].spec
    layout = first.memory_config.memory_layout
    fatal(config.memory_layout is layout, "Sharded output and inputs must have the same memory layout.")
    shard = config.shard_spec
    assert shard is not None
    fatal(shard.grid == first.shard.grid, "Sharded output and inputs must have the same grid.")
    fatal(
        shard.orientation is first.shard.orientation,
        "Sharded output and inputs must have the same shard orientation.",
    )
    rank = len(first.shape)
    if width_concat(rank, call.dim):
        fatal(
            layout in (HEIGHT, BLOCK),
            "Only support width concat on height-sharded or block-sharded tensors.",
        )
    elif height_concat(rank, call.dim):
        fatal(
            layout in (WIDTH, BLOCK),
            "Only support height concat on width-sharded or block-sharded tensors.",
        )
    else:
        fatal(False, "Only width or height concat on sharded tensors")
    fatal(
        call.groups == 1 or layout is HEIGHT,
        f"Groups > 1 is only supported on height-sharded tensors (groups={call.groups} and "
        f"memory_layout={layout.native} was provided)",
    )
    if layout is BLOCK:
        _validate_blocks(call)


def _validate_blocks(call: Concat) -> None:
    first = call.inputs[0].spec
    fatal(
        len(call.inputs) <= MAX_BLOCK_SHARDED_INPUTS,
        f"Block-sharded concat supports a maximum of {MAX_BLOCK_SHARDED_INPUTS} input tensors (got "
        f"{len(call.inputs)}). "
        "Batching is not supported for block-sharded concat.",
    )
    fatal(
        first.shard.grid.size() == 1,
        "Block-sharded concat requires a single contiguous rectangular CoreRange.",
    )
    if not width_concat(len(first.shape), call.dim):
        return
    word = call.planner.card.l1_alignment
    element = shard_element_bytes(first)
    column = 0
    for i, x in enumerate(call.inputs[:-1]):
        column += x.spec.shape[-1]
        fatal(
            column * element % word == 0,
            f"Width concat: input {i + 1} starts at column {column} ({column * element} bytes), not L1-aligned ({word} "
            "bytes). A ragged width puts the boundary inside a shard and the NOC cannot write at an unaligned offset. "
            f"Pad each width to a multiple of {word // element} elements, or concat before sharding.",
        )


def shard_element_bytes(spec: Spec) -> int:
    """Block formats count as one byte an element here."""
    return 1 if spec.dtype.is_block_float else spec.dtype.element_bytes
