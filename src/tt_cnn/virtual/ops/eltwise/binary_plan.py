# SPDX-License-Identifier: Apache-2.0
"""The plan of the device op `BinaryNg`: output spec, shards in place or tile by tile, and its circular buffers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import vector_cycles
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.eltwise.activations import Activation
from tt_cnn.virtual.ops.eltwise.binary_time import binary_cycles
from tt_cnn.virtual.ops.eltwise.kinds import DIV, WIDE, Kind
from tt_cnn.virtual.ops.eltwise.sharding import (
    adjust_to_shape,
    broadcast_shape,
    is_uneven,
    scaled_memory_config,
    synthesize_shard_spec,
)
from tt_cnn.virtual.ops.eltwise.unary_plan import STAGED_TILES, tile_buffer
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.unary import UnaryOpType

Activations = tuple[tuple[Activation, ...], tuple[Activation, ...], tuple[Activation, ...]]
"""Of the left operand, of the right one and of the result."""
NO_ACTIVATIONS: Activations = ((), (), ())
_VECTOR_TILES, _MATRIX_TILES, _MATRIX_TILES_FP32 = 2, 8, 4
"""Tiles that a kernel takes at a time when all its tensors are shards."""


_NOTHING_FOR_UNSIGNED = (UnaryOpType.RELU, UnaryOpType.ABS)
_WHOLE_REGISTERS = WIDE | {DataType.FLOAT32}
"""Operands that are copied to registers as they are, since the matrix unit cannot hold them."""


class Subtile(enum.Enum):
    """Which operand is spread inside a tile (`SubtileBroadcastType`)."""

    NONE = 0
    A = 1
    B = 2


@dataclass(frozen=True, kw_only=True)
class BinaryProgram(Program):
    """Two tensors, or a tensor and a scalar, tile by tile, with activations before and after."""

    op: str = "BinaryNg"
    factory: str = "ProgramFactory"
    kind: str
    activations: Activations
    on_vector_unit: bool
    in_shards: bool
    spread: Subtile

    def time(self, step: Step, figures: Figures) -> Cycles:
        used = [op_type.name for group in self.activations for op_type, _ in group]
        vector = sum(vector_cycles(figures, name, False) for name in used if name != "RELU")  # the packer's work
        if step.inputs[0].spec.dtype in _WHOLE_REGISTERS:
            vector += vector_cycles(figures, "recip" if self.kind == DIV.name else "square", False)
            vector += figures.copy_tile_cycles
        return binary_cycles(step, figures, self.in_shards, vector)


def _extent(shape: Shape, back: int) -> int:
    return shape[-back] if len(shape) >= back else 1


def subtile_broadcast(a: Shape, b: Shape) -> tuple[Subtile, bool]:
    """(operand that gets a broadcast buffer, whether the spread is along the width or to a whole tile)."""
    a_h, a_w, b_h, b_w = _extent(a, 2), _extent(a, 1), _extent(b, 2), _extent(b, 1)
    if (a_h, a_w) == (b_h, b_w):
        return Subtile.NONE, False
    if a_h == 1 and a_w == 1:
        return Subtile.A, True
    if b_h == 1 and b_w == 1:
        return Subtile.B, True
    if a_h == 1 and b_w == 1:
        return Subtile.A, False
    if a_w == 1 and b_h == 1:
        return Subtile.B, False
    for operand, height, width in ((Subtile.A, a_h, a_w), (Subtile.B, b_h, b_w)):
        if height == 1:
            return operand, False
        if width == 1:
            return operand, True
    raise CardError("Invalid subtile broadcast type")


def check_broadcast(a: Shape, b: Shape) -> None:
    rank = max(len(a), len(b))
    for back in range(1, rank + 1):
        x, y = _extent(a, back), _extent(b, back)
        fatal(
            x == y or x == 1 or y == 1,
            f"Broadcasting rule violation at dimension index {-back} (output rank {rank}), dim a: {x}, dim b: {y}",
        )


def output_memory_config(a: Spec, b: Spec | None, asked: MemoryConfig | None) -> MemoryConfig:
    """Which operand's placement the result takes, unless one is asked for."""
    if asked is not None:
        if not asked.is_sharded() or asked.shard_spec is not None or b is None:
            return asked
        for one, other in ((a, b), (b, a)):
            if one.is_sharded:
                return scaled_memory_config(one, other.shape)
        return asked
    if b is None:
        return a.memory_config
    if not a.is_sharded:
        from_b = b.is_sharded and a.memory_config.is_dram()
        return scaled_memory_config(b, a.shape) if from_b else a.memory_config
    if b.is_sharded and b.shard.num_cores() > a.shard.num_cores():
        return scaled_memory_config(b, a.shape)
    return scaled_memory_config(a, b.shape)


def output_spec(
    planner: Planner, a: Spec, b: Spec | None, dtype: DataType, layout: Layout, asked: MemoryConfig | None
) -> Spec:
    shape = a.shape if b is None else broadcast_shape(a.shape, b.shape)
    config = output_memory_config(a, b, asked)
    if config.is_sharded() and config.shard_spec is None:
        plain = Spec(shape, dtype, layout)
        if a.is_sharded:
            shard = adjust_to_shape(a.shard, a.padded_shape, plain.padded_shape)
        else:
            tile = layout is Layout.TILE
            shard = synthesize_shard_spec(planner.card.grid, plain.padded_shape, config.memory_layout, tile)
        config = config.with_shard_spec(shard)
    return Spec(shape, dtype, layout, config)


def works_on_shards(a: Spec, b: Spec | None, out: Spec) -> bool:
    """The program borrows the memory of shards (`is_native_L1_sharding` and `get_shard_specs`)."""
    if not out.is_sharded or not _native(a, b, out.memory_config):
        return False
    if not is_uneven(out):
        return True
    return b is not None and a.is_sharded and b.is_sharded and a.shard == b.shard == out.shard


def _native(a: Spec, b: Spec | None, out: MemoryConfig) -> bool:
    if b is None:
        same = a.memory_config.shard_spec == out.shard_spec and a.memory_config.memory_layout is out.memory_layout
        return a.is_sharded and same and a.memory_config.is_l1() and out.is_l1() and not is_uneven(a)
    same_shape = broadcast_shape(a.shape, b.shape) == a.shape
    if a.is_sharded and same_shape and not b.is_sharded and not is_uneven(a):
        operand, wide = subtile_broadcast(a.shape, b.shape)
        if operand is not Subtile.NONE and wide:
            height = a.memory_config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED
            return height and a.shard == out.shard_spec
    if a.shape != b.shape or a.memory_config != b.memory_config:
        return False
    if is_uneven(a) or is_uneven(b):
        in_l1 = all(config.is_l1() for config in (a.memory_config, b.memory_config, out))
        return in_l1 and out.shard_spec == a.memory_config.shard_spec
    if BufferType.DRAM in (a.memory_config.buffer_type, b.memory_config.buffer_type, out.buffer_type):
        return False
    grids = {spec.shard.grid for spec in (a, b) if spec.is_sharded}
    return not grids or out.shard_spec is None or grids == {out.shard_spec.grid}


def plan_binary(
    planner: Planner,
    kind: Kind,
    a: Slot,
    b: Slot | None,
    *,
    dtype: DataType,
    memory_config: MemoryConfig | None = None,
    output: Slot | None = None,
    fast: bool | None = None,
    activations: Activations = NO_ACTIVATIONS,
    cores: CoreRangeSet | None = None,
) -> Slot:
    """One `BinaryNg` step."""
    a_spec, b_spec = a.spec, None if b is None else b.spec
    spread, _ = (Subtile.NONE, False) if b_spec is None else subtile_broadcast(a_spec.shape, b_spec.shape)
    kind.check_fast_mode(fast, dtype)
    if output is None:
        layout = a_spec.layout if b_spec is None or a_spec.layout is b_spec.layout else Layout.TILE
        out = planner.allocate(output_spec(planner, a_spec, b_spec, dtype, layout, memory_config))
    else:
        _check_output(a_spec, b_spec, output.spec)
        out = output
    kind.check_dtypes(a_spec.dtype, None if b_spec is None else b_spec.dtype)
    if b_spec is not None:
        check_broadcast(a_spec.shape, b_spec.shape)
    cores = cores or planner.grid
    vector = kind.on_vector_unit(a_spec.dtype, a_spec.dtype if b_spec is None else b_spec.dtype, fast)
    shards = works_on_shards(a_spec, b_spec, out.spec)
    program = BinaryProgram(
        cores=cores,
        buffers=_buffers(kind, a, b, out, spread, vector, shards, activations, cores),
        kind=kind.name,
        activations=activations,
        on_vector_unit=vector,
        in_shards=shards,
        spread=spread,
    )
    planner.dispatch(program, [a] if b is None else [a, b], [out])
    return out


def _check_output(a: Spec, b: Spec | None, out: Spec) -> None:
    expected = a.shape if b is None else broadcast_shape(a.shape, b.shape)
    rank = max(len(expected), len(out.shape))
    same = all(_extent(expected, i) == _extent(out.shape, i) for i in range(1, rank + 1))
    fatal(same, f"Shape of Output tensor {out.shape} provided does not match the broadcasted output shape {expected}")


def _active(activations: Sequence[Activation], dtype: DataType) -> bool:
    """Whether any activation does something: unsigned numbers are their own absolute values."""
    unsigned = dtype in (DataType.UINT32, DataType.UINT16, DataType.UINT8)
    return any(not (unsigned and op_type in _NOTHING_FOR_UNSIGNED) for op_type, _ in activations)


def _buffers(
    kind: Kind,
    a: Slot,
    b: Slot | None,
    out: Slot,
    spread: Subtile,
    vector: bool,
    shards: bool,
    activations: Activations,
    cores: CoreRangeSet,
) -> tuple[CircularBuffer, ...]:
    a_dtype = a.spec.dtype
    scalar_dtype = DataType.BFLOAT16 if a_dtype.is_block_float else a_dtype
    b_dtype = scalar_dtype if b is None else b.spec.dtype
    lhs, rhs, _ = kind.surroundings(vector)
    at_once = 1
    if shards and a.spec.is_sharded and (b is None or b.spec.is_sharded) and spread is Subtile.NONE:
        fp32 = DataType.FLOAT32 in (a_dtype, b_dtype, out.spec.dtype)
        at_once = _VECTOR_TILES if vector else _MATRIX_TILES_FP32 if fp32 else _MATRIX_TILES
    exponential = kind.kernel == "ldexp" and not vector

    def tensor(name: str, slot: Slot) -> CircularBuffer:
        return tile_buffer(name, slot, cores, shards and slot.spec.is_sharded)

    def intermediate(name: str, dtype: DataType) -> CircularBuffer:
        # what an exponential makes does not fit a shared exponent
        held = DataType.BFLOAT16 if exponential else dtype
        return CircularBuffer(at_once * held.tile_bytes, cores, name=name)

    buffers = [tensor("left", a)]
    if _active(activations[0], a_dtype) or lhs or (exponential and a_dtype.is_block_float):
        buffers.append(intermediate("left activated", a_dtype))
    buffers.append(CircularBuffer(b_dtype.tile_bytes, cores, name="scalar") if b is None else tensor("right", b))
    if _active(activations[1], b_dtype) or rhs:
        buffers.append(intermediate("right activated", b_dtype))
    if spread is not Subtile.NONE:
        spread_dtype = a_dtype if spread is Subtile.A else b_dtype
        buffers.append(CircularBuffer(STAGED_TILES * spread_dtype.tile_bytes, cores, name="spread"))
    buffers.append(tensor("output", out))
    return tuple(buffers)
