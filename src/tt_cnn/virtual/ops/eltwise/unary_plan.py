# SPDX-License-Identifier: Apache-2.0
"""The plan of the device op `Unary`: one step on all cores, two tiles of staging for each side, or the shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.eltwise.sharding import adjust_to_shape, is_uneven, synthesize_shard_spec
from tt_cnn.virtual.ops.eltwise.time import TILE_ELEMENTS, chain_cycles, paged_cycles
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

STAGED_TILES = 2
"""Readers and writers work one tile ahead of the vector unit."""


@dataclass(frozen=True, kw_only=True)
class UnaryProgram(Program):
    """A chain of vector-unit kernels on every tile, the register handed from one to the next."""

    op: str = "Unary"
    factory: str = "ProgramFactory"
    chain: tuple[Kernel, ...]
    in_shards: bool

    def time(self, step: Step, figures: Figures) -> Cycles:
        vector = chain_cycles(figures, self.chain, step.inputs[0].spec.dtype)
        return paged_cycles(step, figures, self.in_shards, figures.unary_cycles + vector, vector)


def output_spec(planner: Planner, x: Spec, dtype: DataType, memory_config: MemoryConfig) -> Spec:
    """Shape, layout and padding of the input; shards as asked for, from the input's, or made up."""
    if not memory_config.is_sharded():
        plain = Spec(x.shape, dtype, x.layout, memory_config)
        if plain.padded_shape == x.padded_shape:
            return plain
        return Spec(x.shape, dtype, x.layout, memory_config, alignment=tuple(x.padded_shape)[-2:])
    shard = memory_config.shard_spec
    if shard is None and x.memory_config.shard_spec is not None:
        shard = adjust_to_shape(x.memory_config.shard_spec, x.padded_shape, x.padded_shape)
    elif shard is None:
        tile = x.layout is Layout.TILE
        shard = synthesize_shard_spec(
            planner.card.grid, x.padded_shape, memory_config.memory_layout, tile, pad_row_major_width=True, op="Unary"
        )
    return Spec(x.shape, dtype, x.layout, memory_config.with_shard_spec(shard))


def works_on_shards(x: Spec, out: Spec, l1_alignment: int) -> bool:
    """Both sides have the same even shards of whole tiles in L1, so the program borrows their memory."""
    if not (x.is_sharded and out.is_sharded) or is_uneven(x) or is_uneven(out):
        return False
    if BufferType.DRAM in (x.memory_config.buffer_type, out.memory_config.buffer_type):
        return False
    if x.shard != out.shard or x.memory_config.memory_layout is not out.memory_config.memory_layout:
        return False
    if x.layout is Layout.TILE:
        return True
    whole = x.shard.shape[0] * x.shard.shape[1] % TILE_ELEMENTS == 0
    return whole and x.page_bytes % l1_alignment == 0 and out.page_bytes % l1_alignment == 0


def plan_unary(
    planner: Planner,
    x: Slot,
    *chain: Kernel,
    dtype: DataType,
    memory_config: MemoryConfig | None = None,
    output: Slot | None = None,
    cores: CoreRangeSet | None = None,
    scratch: bool = False,
    check: Callable[[], None] | None = None,
) -> Slot:
    """One `Unary` step. `scratch` adds the intermediate buffer that some kernels use; `check` may refuse the input.

    As in the real library, a new output is allocated before anything is checked: memory runs out first.
    """
    if output is not None:
        if check is not None:
            check()
        _check_output(x.spec, output.spec)
        out = output
    else:
        out = planner.allocate(output_spec(planner, x.spec, dtype, memory_config or x.spec.memory_config))
        if check is not None:
            check()
    cores = cores or planner.grid
    shards = works_on_shards(x.spec, out.spec, planner.card.l1_alignment)
    buffers = [tile_buffer("input", x, cores, shards, dataflow=True)]
    if scratch:
        buffers.append(tile_buffer("scratch", x, cores, False, dataflow=True))
    buffers.append(tile_buffer("output", out, cores, shards, dataflow=True))
    program = UnaryProgram(cores=cores, buffers=tuple(buffers), chain=chain, in_shards=shards)
    planner.dispatch(program, [x], [out])
    return out


def tile_buffer(name: str, slot: Slot, cores: CoreRangeSet, in_shards: bool, dataflow: bool = False) -> CircularBuffer:
    """Over the tensor's shard, or two tiles of staging."""
    tile = slot.spec.dtype.tile_bytes
    if not in_shards:
        return CircularBuffer(STAGED_TILES * tile, cores, dataflow=dataflow, name=name)
    height, width = slot.spec.shard.shape
    return CircularBuffer(height * width // TILE_ELEMENTS * tile, cores, alias=slot, dataflow=dataflow, name=name)


_INTERCHANGEABLE = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B)


def check_output_dtype(x: DataType, output: DataType) -> None:
    fatal(
        x is output or (x in _INTERCHANGEABLE and output in _INTERCHANGEABLE),
        f"Preallocated output dtype {output.native} is not compatible with input dtype {x.native}. Integer and float "
        "dtypes cannot be mixed; mixed floating-point output is limited to BFLOAT16, FLOAT32, and BFLOAT8_B.",
    )


def _check_output(x: Spec, output: Spec) -> None:
    fatal(
        output.shape == x.shape,
        f"Unary: Preallocated output shape must match computed shape. Computed: {x.shape}, "
        f"Preallocated: {output.shape}",
    )
    fatal(
        output.layout is x.layout,
        "Unary: Output format (tile/row-major) must match input when preallocated. "
        f"Output: {output.layout.value}, Input: {x.layout.value}",
    )
