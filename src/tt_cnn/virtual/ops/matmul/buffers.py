# SPDX-License-Identifier: Apache-2.0
"""The staging buffers of a matmul program (the factories' `matmul_buffers.cpp`)."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.ops.matmul.configs import MCAST_1D, MCAST_2D, REUSE, SIMPLE, ProgramConfig
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.planning.plan import CircularBuffer, Slot
from tt_cnn.virtual.types.enums import DataType, TensorMemoryLayout
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


@dataclass(frozen=True)
class Staging:
    """One step whose buffers are wanted."""

    problem: Problem
    config: ProgramConfig
    partials: DataType
    left: Slot
    right: Slot
    bias: Slot | None
    output: Slot
    cores: Cores
    alignment: int
    """Of DRAM."""

    def buffers(self) -> tuple[CircularBuffer, ...]:
        """In the order in which the factories name them."""
        p, config = self.problem, self.config
        if config.kind == SIMPLE:
            tensors = (("left", self.left), ("right", self.right), ("output", self.output))
            return tuple(self._buffer(name, _BUFFERED * slot.spec.dtype.tile_bytes) for name, slot in tensors)
        inputs = {MCAST_1D: self._line, MCAST_2D: self._grid, REUSE: self._reuse}[config.kind]()
        result = [*inputs, *self._results()]
        if self.bias is not None:
            tiles = config.block_w
            if config.kind == REUSE:
                tiles = min(config.per_core_m, p.m) * config.per_core_n
            result.append(self._buffer("bias", tiles * self.bias.spec.dtype.tile_bytes))
        if p.transpose_a:
            result.append(self._buffer("transposed left", inputs[0].bytes))
        return tuple(result)

    @property
    def _steps(self) -> int:
        return self.problem.k // self.config.block_k

    @property
    def _batches(self) -> tuple[int, int]:
        return (1 if self.config.fuse_batch else self.problem.batch_a), self.problem.batch_b

    def _line(self) -> list[CircularBuffer]:
        config = self.config
        tiles = config.block_w * config.block_k * (_BUFFERED if self._batches[1] * self._steps > 1 else 1)
        return self._shared_left(tiles) if config.mcast_left else self._shared_right(tiles)

    def _shared_left(self, right_tiles: int) -> list[CircularBuffer]:
        """The left matrix is sent from a copy; what is sharded of it is borrowed on all cores that have a shard."""
        config, right = self.config, self.right.spec
        depth = _BUFFERED if self._batches[0] * self._steps > 1 else 1
        size = config.block_h * config.block_k * depth * self._entry(self.left.spec, self.left.spec.is_sharded)
        buffers = [self._buffer("left", size), *self._of_senders(size)]
        if right.is_sharded and not right.memory_config.is_dram():
            tiles = config.per_core_n * (right.shard.shape[0] // TILE_SIZE)
            buffers.append(self._buffer("right", tiles * right.dtype.tile_bytes, self.right))
        else:
            buffers.append(self._buffer("right", right_tiles * self._entry(right, False)))
        if self.left.spec.is_sharded:
            buffers.append(self._left_shard())
        return buffers

    def _of_senders(self, size: int) -> list[CircularBuffer]:
        senders = self.cores.senders
        return [] if senders is None else [CircularBuffer(size, senders, dataflow=True, name="left to send")]

    def _left_shard(self) -> CircularBuffer:
        left = self.left.spec
        size = self.config.per_core_m * (left.shard.shape[1] // TILE_SIZE) * left.dtype.tile_bytes
        return CircularBuffer(size, self.cores.all, self.left, dataflow=True, name="left shard")

    def _shared_right(self, right_tiles: int) -> list[CircularBuffer]:
        """A sharded left matrix is read in place, unless its inner dimension is worked through in several blocks or a
        core has several block rows and columns: then blocks are copied out of the shard."""
        config, left, batches = self.config, self.left.spec, self._batches
        block = config.block_h * config.block_k
        sharded = left.is_sharded
        copied = sharded and (
            left.shard.shape[1] // TILE_SIZE // config.block_k > 1
            or (config.per_core_m > config.block_h and config.per_core_n > config.block_w)
        )
        tiles = block
        if batches[0] == 1 and batches[1] > 1:
            tiles = config.per_core_m * self._steps * config.block_k  # the left stays for all batches of the right
        elif sharded:
            tiles = self._steps * config.per_core_m * config.block_k * batches[0]
        elif batches[0] * self._steps > 1:
            tiles *= _BUFFERED
        size = tiles * self._entry(left, sharded)
        buffers = [self._buffer("left", size, self.left if sharded and not copied else None)]
        if copied:
            buffers.append(self._buffer("left shard", block * left.dtype.tile_bytes, self.left))
        return [*buffers, self._buffer("right", right_tiles * self._entry(self.right.spec, False))]

    def _grid(self) -> list[CircularBuffer]:
        config, left, right = self.config, self.left.spec, self.right.spec
        depth = _BUFFERED if max(self._batches) * self._steps > 1 else 1
        layout = left.memory_config.memory_layout
        block, height = layout is TensorMemoryLayout.BLOCK_SHARDED, layout is TensorMemoryLayout.HEIGHT_SHARDED
        in_place = right.is_sharded and not right.memory_config.is_dram()
        a = config.block_h * config.block_k * depth * self._entry(left, block or height)
        b = config.block_w * config.block_k * depth * self._entry(right, right.is_sharded)
        buffers = [self._buffer("left", a, self.left if height else None), *self._of_senders(a)]
        buffers.append(self._buffer("right", b, self.right if in_place else None))
        return [*buffers, self._left_shard()] if block else buffers

    def _reuse(self) -> list[CircularBuffer]:
        """Sharded operands are read in place, all of them at once."""
        p, config = self.problem, self.config
        matrices = max(1, config.per_core_m // p.m)
        a_shards, b_shards = self.left.spec.is_sharded, self.right.spec.is_sharded
        a = config.per_core_m * p.k if a_shards else min(config.per_core_m, p.m) * config.block_k * _BUFFERED
        b = config.per_core_n * config.block_k * (self._steps * matrices if b_shards else _BUFFERED)
        return [
            self._buffer("left", a * self._entry(self.left.spec, a_shards), self.left if a_shards else None),
            self._buffer("right", b * self._entry(self.right.spec, b_shards), self.right if b_shards else None),
        ]

    def _results(self) -> list[CircularBuffer]:
        """The output's buffer, and one for partial sums where they cannot share it."""
        config, output = self.config, self.output.spec
        sharded, part = output.is_sharded, config.per_core_m * config.per_core_n
        block = part if config.kind == REUSE else config.block_h * config.block_w
        tiles = part if sharded else block
        results = [self._buffer("output", tiles * output.dtype.tile_bytes, self.output if sharded else None)]
        several = (config.per_core_m, config.per_core_n) != (config.block_h, config.block_w)
        untilized = config.untilize_out and config.block_w // config.subblock_w > 1
        if self.partials is not output.dtype or (sharded and several) or untilized:
            results.append(self._buffer("partial sums", block * self.partials.tile_bytes))
        return results

    def _entry(self, spec: Spec, natural: bool) -> int:
        """Bytes of a tile as it is read from DRAM, padded to the DRAM alignment; shards keep the tile's own size."""
        size = spec.dtype.tile_bytes
        return size if natural else -(-size // self.alignment) * self.alignment

    def _buffer(self, name: str, size: int, alias: Slot | None = None) -> CircularBuffer:
        return CircularBuffer(size, self.cores.working, alias, dataflow=True, name=name)
