# SPDX-License-Identifier: Apache-2.0
"""`ttnn.experimental.convert_to_hwc`: channels by pixels become pixels by channels, in shards."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.experimental.channels_last import ChannelsLastProgram
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_ROW_BYTES = 16
"""A pixel's channels fill whole transfers of this size."""
_TRANSPOSING = ("tiles", "transposed", "transposed 2")
"""Buffers between the kernels: tiles before, and two halves of them after the transposition."""
_LEAST_BLOCK = 1024
"""Pixels: a block is no smaller where the shard is not."""


@op("experimental.convert_to_hwc")
class ConvertToHWC(Operation):
    """(1, B, C, H * W) in width shards to (1, 1, B * H * W, C) in height shards; channels are padded to 16 bytes."""

    def arguments(
        self, input: Tensor, *, memory_config: MemoryConfig | None = None, dtype: DataType | None = None
    ) -> Call:
        return Call([input], memory_config=memory_config, dtype=dtype or input.dtype)

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, dtype: DataType) -> list[Slot]:
        config = _config(x.spec, memory_config)
        target = _output(x.spec, config, dtype)
        _check(x.spec, config)
        output = planner.allocate(target)
        _check_shards(x.spec, output.spec)
        rows, width = output.spec.shard.shape
        cores = output.spec.shard.grid
        channels, element = x.spec.shape[-2], x.spec.dtype.element_bytes
        in_dram = x.spec.memory_config.is_dram()
        held = (channels if in_dram else x.spec.shard.shape[0]) * x.spec.shard.shape[1] * element
        written = rows * width * element  # counted in the input's dtype
        room = output.spec.shard_pages * round_up(output.spec.page_bytes, planner.card.l1_alignment)
        fatal(
            written <= room,
            f"Cannot set circular buffer size to {written}. This is larger than the associated dynamically allocated "
            f"L1 buffer bank size of {room} B",
        )
        block = block_of(rows)
        tiles = block // TILE_SIZE * DataType.BFLOAT16.tile_bytes
        buffers = (
            CircularBuffer(held, cores, alias=None if in_dram else x, name="input"),
            CircularBuffer(channels * block * element, cores, name="rows"),
            *(CircularBuffer(tiles, cores, name=name) for name in _TRANSPOSING),
            CircularBuffer(written, cores, alias=output, name="output"),
        )
        program = ChannelsLastProgram(
            op="ConvertToHWC", factory="ConvertToHWCProgramFactory", cores=cores, buffers=buffers
        )
        planner.dispatch(program, [x], [output])
        return [output]

    def numbers(self, context: Context, x: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        value = context.logical(x)
        pixels = value.permute(0, 1, 3, 2).reshape(1, 1, -1, value.shape[2])
        return [context.store(F.pad(pixels, (0, context.outputs[0].shape[-1] - pixels.shape[-1])))]


def block_of(rows: int) -> int:
    """Pixels that are gathered and turned at a time: of the divisors of a shard's pixels that are whole tiles, the
    smallest of at least 1024; all pixels where there is none (corpus: hwcscan)."""
    return next((block for block in range(_LEAST_BLOCK, rows, TILE_SIZE) if rows % block == 0), rows)


def _aligned(channels: int, dtype: DataType) -> tuple[int, int]:
    """Channels of the output, and the number that they are a multiple of."""
    fatal(not dtype.is_block_float, "Only TILE layout is supported for BFLOAT8_B dtype!")
    step = _ROW_BYTES // dtype.element_bytes
    return round_up(channels, step), step


def _config(spec: Spec, config: MemoryConfig | None) -> MemoryConfig:
    """The output's memory config: given, or the input's shards turned."""
    config = config or _inferred(spec)
    shard = config.shard_spec
    if shard is not None:
        width, step = _aligned(shard.shape[1], spec.dtype)
        fatal(
            shard.shape[1] == width,
            f"Output shard width must be rounded up to next multiple of {step} to satisfy alignment constraints "
            f"(width was {shard.shape[1]})",
        )
    return config


def _output(spec: Spec, config: MemoryConfig, dtype: DataType) -> Spec:
    _, batch, channels, pixels = (spec.shape[i] for i in range(4))
    shape = Shape((1, 1, batch * pixels, _aligned(channels, spec.dtype)[0]))
    return Spec(shape, dtype, Layout.ROW_MAJOR, config)


def _inferred(spec: Spec) -> MemoryConfig:
    given = spec.memory_config
    fatal(not given.is_dram(), "When input tensor is in DRAM, output memory_config must be explicitly specified")
    fatal(spec.is_sharded, "Input tensor must be sharded to infer output memory config")
    fatal(given.memory_layout is TensorMemoryLayout.WIDTH_SHARDED, "Input tensor must be width sharded")
    rows, width = spec.shape[-3] * spec.shard.shape[1], _aligned(spec.shape[-2], spec.dtype)[0]
    shard = ShardSpec(spec.shard.grid, [rows, width], spec.shard.orientation)
    return MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, given.buffer_type, shard)


def _check(spec: Spec, config: MemoryConfig) -> None:
    shape = spec.shape
    fatal(len(shape) == 4, f"Input shape must be rank 4 (was rank {len(shape)})")
    fatal(shape[0] == 1, f"Expected input tensor to be shape [1, B, C, HW] (shape was {shape})")
    fatal(shape[-2] <= TILE_SIZE, f"C must be less than or equal to 32 (was {shape[-2]})")
    fatal(spec.layout is Layout.ROW_MAJOR, "Input tensor must be in row-major layout")
    fatal(spec.is_sharded, "Input tensor must be sharded")
    layouts = spec.memory_config.memory_layout, config.memory_layout
    fatal(layouts[0] is TensorMemoryLayout.WIDTH_SHARDED, "Input tensor must be width sharded")
    fatal(layouts[1] is TensorMemoryLayout.HEIGHT_SHARDED, "Output tensor must be height sharded")


def _check_shards(spec: Spec, output: Spec) -> None:
    """The program's own checks: whole tiles, and as many blocks on each core."""
    batch, pixels = spec.shape[1], spec.shape[3]
    rows, width = output.shard.shape
    step = _ROW_BYTES // output.dtype.element_bytes
    fatal(width % step == 0, f"Output shard width {width} must be multiple of {step} to satisfy alignment constraints")
    fatal(rows % TILE_SIZE == 0, f"Shard height {rows} must be multiple of tile width (32)")
    held = spec.shard.grid.num_cores() * spec.shard.shape[1]
    fatal(
        pixels >= held or batch == 1,
        f"Uneven sharding (HW={pixels} < total_padded_capacity={held}) is only supported for batch_size=1, got "
        f"batch_size={batch}",
    )
    blocks = div_up(rows, block_of(rows))
    for core in range(output.shard.grid.num_cores()):
        found = div_up(min(rows, max(0, batch * held - core * rows)), block_of(rows))
        fatal(
            found == blocks,
            f"Core {core} has {found} blocks but expected {blocks} blocks per core. All cores must have the same "
            "number of blocks for the compute kernel to work correctly.",
        )
