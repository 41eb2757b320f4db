"""The staging buffers of a matmul program (the factories' `matmul_buffers.cpp`)."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.ops.matmul.configs import MCAST_1D, MCAST_2D, REUSE, SIMPLE, Program
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.planning.plan import CircularBuffer, Slot
from tt_cnn.virtual.types.enums import BufferType, DataType, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet
from tt_cnn.virtual.types.tensor_spec import Spec

_BUFFERED = 2
"""Inputs are read while the block before is being multiplied."""


@dataclass(frozen=True)
class Cores:
    """The cores that compute, and those that only hold a part of the left matrix and send it."""

    working: CoreRangeSet
    senders: CoreRangeSet | None = None

    @property
    def all(self) -> CoreRangeSet:
        if self.senders is None:
            return self.working
        return self.working.merge(self.senders)


def accumulates_in_l1(p: Problem, program: Program) -> bool:
    """Partial sums are added up by the packer where it is asked for and there are any."""
    return p.compute.packer_l1 and p.k // program.block_k > 1


def partials_dtype(p: Problem, program: Program) -> DataType:
    """What partial sums are kept in: float32 with float32 registers, else bfloat16 where the packer adds them up in L1,
    else the output's dtype."""
    if p.compute.fp32:
        return DataType.FLOAT32
    return DataType.BFLOAT16 if accumulates_in_l1(p, program) else p.dtype


def buffers_of(
    p: Problem, program: Program, left: Slot, right: Slot, bias: Slot | None, output: Slot, cores: Cores, alignment: int
) -> list[CircularBuffer]:
    """In the order in which the factories name them."""
    if program.kind == SIMPLE:
        return [_staging(_BUFFERED * s.spec.dtype.tile_bytes, cores.working) for s in (left, right, output)]
    batches = (1 if program.fuse_batch else p.batch_a, p.batch_b)
    maker = {MCAST_1D: _line, MCAST_2D: _grid, REUSE: _reuse}[program.kind]
    inputs = maker(p, program, left, right, cores, batches, alignment)
    result = [*inputs, *_results(p, program, output, cores.working)]
    if bias is not None:
        tiles = program.block_w
        if program.kind == REUSE:
            tiles = min(program.per_core_m, p.m) * program.per_core_n
        result.append(_staging(tiles * bias.spec.dtype.tile_bytes, cores.working))
    if p.transpose_a:
        result.append(_staging(inputs[0].bytes, cores.working))
    return result


def _line(
    p: Problem, program: Program, left: Slot, right: Slot, cores: Cores, batches: tuple[int, int], alignment: int
) -> list[CircularBuffer]:
    steps = p.k // program.block_k
    b = program.block_w * program.block_k * (_BUFFERED if batches[1] * steps > 1 else 1)
    if program.mcast_left:
        return _shared_left(p, program, left, right, cores, batches[0] * steps, b, alignment)
    return _shared_right(p, program, left, right, cores, batches, b, alignment)


def _shared_left(
    p: Problem,
    program: Program,
    left: Slot,
    right: Slot,
    cores: Cores,
    times: int,
    right_tiles: int,
    alignment: int,
) -> list[CircularBuffer]:
    """The left matrix is sent from a copy; what is sharded of it is borrowed on all cores that have a shard."""
    sharded = left.spec.is_sharded
    a = program.block_h * program.block_k * (_BUFFERED if times > 1 else 1) * _entry(left.spec, sharded, alignment)
    buffers = [_staging(a, cores.working)]
    if cores.senders is not None:
        buffers.append(_staging(a, cores.senders))
    if right.spec.is_sharded and not right.spec.memory_config.is_dram():
        tiles = program.per_core_n * (right.spec.shard.shape[0] // TILE_SIZE)
        buffers.append(_staging(tiles * right.spec.dtype.tile_bytes, cores.working, right))
    else:
        buffers.append(_staging(right_tiles * _entry(right.spec, False, alignment), cores.working))
    if sharded:
        tiles = program.per_core_m * (left.spec.shard.shape[1] // TILE_SIZE)
        buffers.append(_staging(tiles * left.spec.dtype.tile_bytes, cores.all, left))
    return buffers


def _shared_right(
    p: Problem,
    program: Program,
    left: Slot,
    right: Slot,
    cores: Cores,
    batches: tuple[int, int],
    right_tiles: int,
    alignment: int,
) -> list[CircularBuffer]:
    """A sharded left matrix is read in place, unless its inner dimension is worked through in several blocks or a core
    has several block rows and columns: then blocks are copied out of the shard."""
    steps = p.k // program.block_k
    block = program.block_h * program.block_k
    sharded = left.spec.is_sharded
    copied = sharded and (
        left.spec.shard.shape[1] // TILE_SIZE // program.block_k > 1
        or (program.per_core_m > program.block_h and program.per_core_n > program.block_w)
    )
    tiles = block
    if batches[0] == 1 and batches[1] > 1:
        tiles = program.per_core_m * steps * program.block_k  # the left matrix stays for all batches of the right
    elif sharded:
        tiles = steps * program.per_core_m * program.block_k * batches[0]
    elif batches[0] * steps > 1:
        tiles *= _BUFFERED
    entry = _entry(left.spec, sharded, alignment)
    buffers = [_staging(tiles * entry, cores.working, left if sharded and not copied else None)]
    buffers.append(_staging(right_tiles * _entry(right.spec, False, alignment), cores.working))
    if copied:
        buffers.insert(1, _staging(block * left.spec.dtype.tile_bytes, cores.working, left))
    return buffers


def _grid(
    p: Problem, program: Program, left: Slot, right: Slot, cores: Cores, batches: tuple[int, int], alignment: int
) -> list[CircularBuffer]:
    steps = p.k // program.block_k
    depth = _BUFFERED if max(batches) * steps > 1 else 1
    layout = left.spec.memory_config.memory_layout
    block, height = layout is TensorMemoryLayout.BLOCK_SHARDED, layout is TensorMemoryLayout.HEIGHT_SHARDED
    in_place = right.spec.is_sharded and right.spec.memory_config.buffer_type is not BufferType.DRAM
    a = program.block_h * program.block_k * depth * _entry(left.spec, block or height, alignment)
    b = program.block_w * program.block_k * depth * _entry(right.spec, right.spec.is_sharded, alignment)
    buffers = [_staging(a, cores.working, left if height else None)]
    if cores.senders is not None:
        buffers.append(_staging(a, cores.senders))
    buffers.append(_staging(b, cores.working, right if in_place else None))
    if block:
        tiles = program.per_core_m * (left.spec.shard.shape[1] // TILE_SIZE)
        buffers.append(_staging(tiles * left.spec.dtype.tile_bytes, cores.all, left))
    return buffers


def _reuse(
    p: Problem, program: Program, left: Slot, right: Slot, cores: Cores, batches: tuple[int, int], alignment: int
) -> list[CircularBuffer]:
    """Sharded operands are read in place, all of them at once."""
    steps = p.k // program.block_k
    matrices = max(1, program.per_core_m // p.m)
    a_shards, b_shards = left.spec.is_sharded, right.spec.is_sharded
    a = program.per_core_m * p.k if a_shards else min(program.per_core_m, p.m) * program.block_k * _BUFFERED
    b = program.per_core_n * program.block_k * (steps * matrices if b_shards else _BUFFERED)
    return [
        _staging(a * _entry(left.spec, a_shards, alignment), cores.working, left if a_shards else None),
        _staging(b * _entry(right.spec, b_shards, alignment), cores.working, right if b_shards else None),
    ]


def _results(p: Problem, program: Program, output: Slot, cores: CoreRangeSet) -> list[CircularBuffer]:
    """The output's buffer, and one for partial sums where they cannot share it."""
    sharded = output.spec.is_sharded
    block = program.block_h * program.block_w
    if program.kind == REUSE:
        block = program.per_core_m * program.per_core_n
    tiles = program.per_core_m * program.per_core_n if sharded else block
    results = [_staging(tiles * output.spec.dtype.tile_bytes, cores, output if sharded else None)]
    kept = partials_dtype(p, program)
    several = (program.per_core_m, program.per_core_n) != (program.block_h, program.block_w)
    untilized = program.untilize_out and program.block_w // program.subblock_w > 1
    if kept is not output.spec.dtype or (sharded and several) or untilized:
        results.append(_staging(block * kept.tile_bytes, cores))
    return results


def _entry(spec: Spec, natural: bool, alignment: int) -> int:
    """Bytes of a tile as it is read from DRAM, padded to the DRAM alignment; shards keep the tile's own size."""
    size = spec.dtype.tile_bytes
    return size if natural else -(-size // alignment) * alignment


def _staging(size: int, cores: CoreRangeSet, alias: Slot | None = None) -> CircularBuffer:
    return CircularBuffer(size, cores, alias, dataflow=True)
