# SPDX-License-Identifier: Apache-2.0
"""Attention heads: taken apart (`nlp_create_qkv_heads_segformer`) and put side by side again (`concatenate_heads`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import PagesProgram
from tt_cnn.virtual.ops.layout.sharded_to_interleaved import plan_sharded_to_interleaved
from tt_cnn.virtual.ops.layout.work_split import grid_cores
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import cores_for
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, cores_to_ranges
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.shard_spec import ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_DOUBLE_BUFFERED = 2
_SEGFORMER_FORMATS = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.FLOAT32)
_ROW_MAJOR = "Input tensor layout must be TILE but got Layout::ROW_MAJOR"


@dataclass(frozen=True, kw_only=True)
class HeadsProgram(PagesProgram):
    """Tiles of heads, one by one, to or from the places they have side by side."""


def plan_concat_heads(planner: Planner, x: Slot, memory_config: MemoryConfig | None) -> Slot:
    """(B, heads, S, D) as (B, 1, S, heads * D)."""
    spec = x.spec
    fatal(spec.dtype.is_float, "Unsupported data format")
    batch, heads, rows, width = (spec.shape[i] for i in range(4))
    fatal(len(spec.shape) == 4, f"Input tensor must have rank 4. Shape: {spec.shape}")
    config = memory_config or spec.memory_config
    if spec.is_sharded:
        fatal(
            config.is_sharded(),
            "Sharded input requires a sharded output memory config but got TensorMemoryLayout::INTERLEAVED",
        )
        config = _side_by_side(spec, config)
    shape = Shape((batch, 1, rows, heads * width))
    output = planner.allocate(Spec(shape, spec.dtype, Layout.TILE, config))
    fatal(spec.layout is Layout.TILE, _ROW_MAJOR)
    _, _, padded_rows, padded_width = spec.padded_shape
    if spec.is_sharded:
        cores = spec.shard.grid
        buffers = tuple(_over_shard(name, slot) for name, slot in (("input", x), ("output", output)))
    else:
        tiles = heads * (padded_width // TILE_SIZE)
        blocks = batch * heads * (padded_rows // TILE_SIZE)
        cores = cores_to_ranges(grid_cores(planner.card, None)[:blocks])
        size = _DOUBLE_BUFFERED * tiles * spec.dtype.tile_bytes
        buffers = (CircularBuffer(size, cores, dataflow=True, name="tiles"),)
    factory = "NLPConcatHeadsProgramFactory"
    planner.dispatch(HeadsProgram(op="NLPConcatHeads", factory=factory, cores=cores, buffers=buffers), [x], [output])
    return output


def _side_by_side(spec: Spec, config: MemoryConfig) -> MemoryConfig:
    """A core that holds some heads of an image keeps them, side by side: its shard is an image's rows high."""
    (height, width), rows = spec.shard.shape, spec.padded_shape[2]
    fatal(
        height % rows == 0,
        f"A shard of {height} rows does not hold whole heads, which are {rows} rows high.",
        "  TT-NN ends the process here, or puts parts of heads together",
    )
    return config.with_shard_spec(ShardSpec(spec.shard.grid, [rows, height // rows * width], spec.shard.orientation))


def _over_shard(name: str, slot: Slot) -> CircularBuffer:
    height, width = slot.spec.shard.shape
    size = height * width // TILE_SIZE**2 * slot.spec.dtype.tile_bytes
    return CircularBuffer(size, slot.spec.shard.grid, alias=slot, dataflow=True, name=name)


@op("experimental.nlp_concat_heads")
class NlpConcatHeads(Operation):
    """Heads side by side: (B, heads, S, D) to (B, 1, S, heads * D)."""

    def arguments(self, input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Call:
        return Call([input_tensor], memory_config=memory_config)

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None) -> list[Slot]:
        return [plan_concat_heads(planner, x, memory_config)]

    def numbers(self, context: Context, x: torch.Tensor, memory_config: MemoryConfig | None) -> list[torch.Tensor]:
        value = context.logical(x)
        together = value.permute(0, 2, 1, 3).reshape(tuple(context.outputs[0].shape))
        return [context.store(together)]


@op("transformer.concatenate_heads")
class ConcatenateHeads(NlpConcatHeads):
    """Heads side by side: (B, heads, S, D) to (B, S, heads * D)."""

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None) -> list[Slot]:
        shape = x.spec.shape
        fatal(len(shape) == 4, f"Input tensor must have rank 4. Shape: {shape}")
        fatal(
            shape[3] % TILE_SIZE == 0,
            f"Head size must be a multiple of 32 but was found to be {shape[3]}. Update the matmul that uses the "
            "output of this operation to include padding in the weights.",
        )
        if x.spec.is_sharded and memory_config is not None and not memory_config.is_sharded():
            copy = plan_sharded_to_interleaved(planner, x, memory_config)
            together = plan_concat_heads(planner, copy, memory_config)
            planner.free(copy)
        else:
            together = plan_concat_heads(planner, x, memory_config)
        batch, _, rows, width = together.spec.shape
        return [planner.view(together, together.spec.with_(shape=Shape((batch, rows, width))))]


@op("experimental.nlp_create_qkv_heads_segformer")
class NlpCreateQkvHeadsSegformer(Operation):
    """(B, 1, S, heads * 32) as heads (B, heads, S, 32). Query, key and value come from one tensor: all three alike."""

    single = False

    def arguments(
        self,
        input: Tensor,
        *,
        memory_config: MemoryConfig | None = None,
        output_tensors: Sequence[Tensor | None] | None = None,
    ) -> Call:
        if output_tensors is not None and any(tensor is not None for tensor in output_tensors):
            raise TypeError("nlp_create_qkv_heads_segformer makes its outputs itself: output_tensors are not taken")
        return Call([input], memory_config=memory_config)

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None) -> list[Slot]:
        spec = x.spec
        fatal(spec.dtype in _SEGFORMER_FORMATS, "Unsupported data format")
        width, rows, batch = (spec.padded_shape[i] for i in (3, 2, 0))
        fatal(len(spec.shape) == 4, f"Input tensor must have rank 4. Shape: {spec.shape}")
        heads = width // TILE_SIZE
        shape = Shape((batch, heads, rows, TILE_SIZE))
        config = memory_config or spec.memory_config
        fatal(not config.is_sharded(), f"Sharded output memory config is not supported for {self.name.split('.')[1]}")
        outputs = [planner.allocate(Spec(shape, spec.dtype, Layout.TILE, config)) for _ in range(3)]
        fatal(spec.layout is Layout.TILE, _ROW_MAJOR)
        cores = cores_for(planner.card, batch * spec.shape[1] * rows // TILE_SIZE)
        program = HeadsProgram(
            op="NlpCreateHeadsSegformer",
            factory="DirectDescriptorFactory",
            cores=cores,
            buffers=(CircularBuffer(_DOUBLE_BUFFERED * heads * spec.dtype.tile_bytes, cores, name="tiles"),),
        )
        planner.dispatch(program, [x], outputs)
        return outputs

    def results(self, outputs: list[Tensor], call: Call) -> tuple[Tensor, ...]:
        return tuple(outputs)

    def numbers(self, context: Context, x: torch.Tensor, memory_config: MemoryConfig | None) -> list[torch.Tensor]:
        batch, _, rows, width = x.shape
        heads = x[:, 0].reshape(batch, rows, width // TILE_SIZE, TILE_SIZE).permute(0, 2, 1, 3)
        return [context.store(heads, i) for i in range(3)]
