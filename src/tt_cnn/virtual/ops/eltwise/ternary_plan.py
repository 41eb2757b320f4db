# SPDX-License-Identifier: Apache-2.0
"""The plan of the device op `Ternary`: broadcasting, output spec, shards in place or tile by tile, circular buffers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.sharding import adjust_to_shape, is_uneven, padded
from tt_cnn.virtual.ops.eltwise.time import streamed_cycles
from tt_cnn.virtual.ops.eltwise.unary_plan import tile_buffer
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import HEIGHT, WIDTH, DataType, Layout, ShardOrientation, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_INSTRUCTIONS = {"WHERE": 0, "LERP": 6, "MAC": 5, "ADDCMUL": 6, "ADDCDIV": 16}
"""Of the vector unit for 32 elements: loads, arithmetic, rounding, a store. Unpacking takes longer than a `where`."""


class Broadcast(enum.Enum):
    """How the last two dimensions of the operands differ (`TernaryBroadcastType`)."""

    NONE = "none"
    OUTER = "outer"
    ROW = "row"
    COLUMN = "column"
    SCALAR = "scalar"
    """Of three tensors: each is whole or a single element."""
    SCALAR_OF_TWO = "scalar of two"
    """Of two tensors: one of them is a single element."""
    ROW_AND_COLUMN = "row and column"
    INVALID = "invalid"

    @property
    def in_rows_or_columns(self) -> bool:
        """What block formats have no kernels for; mixed rows and columns, strangely, they have."""
        return self in (Broadcast.ROW, Broadcast.COLUMN, Broadcast.SCALAR)


@dataclass(frozen=True, kw_only=True)
class TernaryProgram(Program):
    """Three tensors, or two and a scalar, tile by tile."""

    op: str = "Ternary"
    factory: str = "TernaryProgramFactory"
    kind: str
    """`TernaryOpType`."""
    broadcast: Broadcast
    in_shards: bool

    def time(self, step: Step, figures: Figures) -> Cycles:
        return streamed_cycles(step, figures, figures.vector_rows * _INSTRUCTIONS[self.kind])


def broadcast_of(*shapes: Shape) -> Broadcast:
    """Of two or three tensors, by their last two dimensions (`get_broadcast_type`)."""
    if all(shape == shapes[0] for shape in shapes):
        return Broadcast.NONE
    sizes = [(shape[-2] if len(shape) > 1 else 1, shape[-1] if len(shape) else 1) for shape in shapes]
    tallest, widest = max(h for h, _ in sizes), max(w for _, w in sizes)
    same_height, same_width = len({h for h, _ in sizes}) == 1, len({w for _, w in sizes}) == 1
    if same_height and same_width:
        return Broadcast.OUTER
    if same_width:
        return Broadcast.ROW if any(h == 1 for h, _ in sizes) else Broadcast.INVALID
    if same_height:
        return Broadcast.COLUMN if any(w == 1 for _, w in sizes) else Broadcast.INVALID
    if len(shapes) == 2 and (1, 1) in sizes:
        return Broadcast.SCALAR_OF_TWO
    if all(size in ((1, 1), (tallest, widest)) for size in sizes):
        return Broadcast.SCALAR
    if all(h in (1, tallest) and w in (1, widest) for h, w in sizes):
        return Broadcast.ROW_AND_COLUMN
    return Broadcast.INVALID


def plan_ternary(
    planner: Planner,
    kind: str,
    operands: Sequence[Slot],
    *,
    names: Sequence[str],
    dtype: DataType,
    memory_config: MemoryConfig | None = None,
    output: Slot | None = None,
    cores: CoreRangeSet | None = None,
) -> Slot:
    """One `Ternary` step. Without a memory config the output lies as the operand with most shards does."""
    specs = [slot.spec for slot in operands]
    broadcast = broadcast_of(*(spec.shape for spec in specs))
    shape = _common_shape([spec.shape for spec in specs])
    if output is None:
        config = _placed(planner, specs, shape, memory_config)
        layout = specs[0].layout if config.is_sharded() else Layout.TILE
        out = planner.allocate(Spec(shape, dtype, layout, config))
    else:
        out = output
    first = specs[0]
    fatal(
        first.layout is Layout.TILE or first.is_sharded,
        "Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor. Input "
        f"tensor layout: {first.layout.value}",
    )
    fatal(
        out.spec.shape == shape,
        "When preallocted output tensor is used, Ternary operation requires its shape to match the computed shape. "
        f"Computed shape: {shape}, Shape in preallocated output tensor: {out.spec.shape}",
    )
    fatal(
        out.spec.layout is Layout.TILE or first.is_sharded,
        "Ternary operation requires output tensor to be in Tile layout when working with non-sharded tensor.",
    )
    cores = cores or planner.grid
    shards = _works_on_shards(specs, out.spec)
    buffers = [
        tile_buffer(name, slot, cores, shards and slot.spec.is_sharded)
        for name, slot in zip(names, operands, strict=True)
    ]
    if broadcast is Broadcast.ROW and len(operands) == 3:  # rows are spread over tiles of their own first
        spread = zip(names, operands, strict=True)
        buffers += [tile_buffer(f"{name} spread", slot, cores, False) for name, slot in spread]
    buffers.append(tile_buffer("output", out, cores, shards and out.spec.is_sharded))
    program = TernaryProgram(cores=cores, buffers=tuple(buffers), kind=kind, broadcast=broadcast, in_shards=shards)
    planner.dispatch(program, operands, [out])
    return out


def _common_shape(shapes: Sequence[Shape]) -> Shape:
    rank = max(len(shape) for shape in shapes)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    sizes = []
    for back in range(1, rank + 1):
        given = [shape[-back] for shape in aligned]
        largest = max((size for size in given if size != 1), default=1)
        dims = ", ".join(f"dim {letter}: {size}" for letter, size in zip("abc", given, strict=False))
        fatal(
            all(size in (1, largest) for size in given),
            f"Broadcasting rule violation at dimension index {-back} (output rank {rank}), {dims}",
        )
        sizes.append(largest)
    return Shape(reversed(sizes))


def _placed(planner: Planner, specs: Sequence[Spec], shape: Shape, asked: MemoryConfig | None) -> MemoryConfig:
    """`resolve_mem_config_actual`"""
    sharded = [spec for spec in specs if spec.is_sharded]
    if asked is None:
        if not sharded:
            return specs[0].memory_config
        best = max(sharded, key=lambda spec: spec.shard.num_cores())  # the first of those that have as many
        return best.memory_config.with_shard_spec(_scaled(best, best, shape))
    if not asked.is_sharded() or asked.shard_spec is not None:
        return asked
    if sharded:
        return asked.with_shard_spec(_scaled(sharded[0], specs[0], shape))
    return asked.with_shard_spec(_over_all_cores(planner, padded(specs[0], shape), asked.memory_layout))


def _scaled(spec: Spec, like: Spec, shape: Shape) -> ShardSpec:
    return adjust_to_shape(spec.shard, spec.padded_shape, padded(like, shape))


def _over_all_cores(planner: Planner, shape: Shape, layout: TensorMemoryLayout) -> ShardSpec:
    """Shards for a config without them, whether or not there is something for every core
    (`generate_shard_spec_all_cores`)."""
    x, y = planner.card.grid
    height, width = prod(tuple(shape)[:-1]), shape[-1]
    if layout is HEIGHT:
        size = [round_up(div_up(height, x * y), TILE_SIZE), width]
    elif layout is WIDTH:
        size = [height, round_up(div_up(width, x * y), TILE_SIZE)]
    else:
        size = [round_up(div_up(height, y), TILE_SIZE), round_up(div_up(width, x), TILE_SIZE)]
    return ShardSpec(planner.grid, size, ShardOrientation.ROW_MAJOR)


def _works_on_shards(specs: Sequence[Spec], out: Spec) -> bool:
    """The program borrows the memory of shards (`is_native_L1_sharding` and `get_shard_specs`)."""
    first = specs[0]
    if not out.is_sharded or is_uneven(out) or (len(specs) == 2 and not first.is_sharded):
        return False
    if any(spec.shape != first.shape or spec.memory_config != first.memory_config for spec in specs[1:]):
        return False
    if is_uneven(first) or not (first.memory_config.is_l1() and out.memory_config.is_l1()):
        return False
    return not first.is_sharded or first.shard.grid == out.shard.grid
