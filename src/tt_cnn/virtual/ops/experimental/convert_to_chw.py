# SPDX-License-Identifier: Apache-2.0
"""`ttnn.experimental.convert_to_chw`: pixels by channels become channels by pixels, in shards."""

from __future__ import annotations

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.experimental.channels_last import ChannelsLastProgram
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_TRANSPOSED_TILES = 16
"""Tiles of two bytes an element that the program keeps between its kernels, whatever the dtype."""


@op("experimental.convert_to_chw")
class ConvertToCHW(Operation):
    """(1, 1, H * W, C) in height shards to (1, 1, C, H * W) in width shards on the same cores."""

    def arguments(self, input: Tensor, *, dtype: DataType | None = None) -> Call:
        return Call([input], dtype=dtype or input.dtype)

    def plan(self, planner: Planner, x: Slot, dtype: DataType) -> list[Slot]:
        output = planner.allocate(_output(x.spec, dtype))
        _check(x.spec)
        cores = x.spec.shard.grid
        rows, pixels = output.spec.shard.shape
        buffers = (
            CircularBuffer(x.spec.shard_pages * x.spec.page_bytes, cores, alias=x, name="input"),
            CircularBuffer(rows * pixels * dtype.element_bytes, cores, alias=output, name="output"),
            CircularBuffer(_TRANSPOSED_TILES * DataType.BFLOAT16.tile_bytes, cores, name="transposed"),
        )
        program = ChannelsLastProgram(
            op="ConvertToCHW", factory="ConvertToCHWProgramFactory", cores=cores, buffers=buffers
        )
        planner.dispatch(program, [x], [output])
        return [output]

    def numbers(self, context: Context, x: torch.Tensor, dtype: DataType) -> list[torch.Tensor]:
        return [context.store(context.logical(x).transpose(-2, -1).contiguous())]


def _output(spec: Spec, dtype: DataType) -> Spec:
    fatal(spec.is_sharded, "Input tensor must be sharded to infer output memory config")
    config = spec.memory_config
    fatal(config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED, "Input tensor must be height sharded")
    batch, one, pixels, channels = (spec.shape[i] for i in range(4))
    shard = ShardSpec(spec.shard.grid, [channels, spec.shard.shape[0]], spec.shard.orientation)
    memory = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, config.buffer_type, shard)
    return Spec(Shape((batch, one, channels, pixels)), dtype, Layout.ROW_MAJOR, memory)


def _check(spec: Spec) -> None:
    shape = spec.shape
    fatal(len(shape) == 4, f"Input shape must be rank 4 (was rank {len(shape)})")
    fatal(shape[0] == 1 and shape[1] == 1, "Expected input tensor to be shape [1, 1, HW, C]")
    fatal(shape[-1] <= TILE_SIZE, f"C must be less than or equal to 32 (was {shape[-1]})")
    fatal(shape[-2] % TILE_SIZE == 0, "HW must be divisible by tile size")
    fatal(spec.shard.shape[0] % TILE_SIZE == 0, "Shard height must be divisible by tile size")
