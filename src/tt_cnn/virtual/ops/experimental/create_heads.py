# SPDX-License-Identifier: Apache-2.0
"""Queries, keys and values of attention taken apart into heads.

`experimental.nlp_create_qkv_heads` of tensors that lie page by page, `experimental.create_qkv_heads` of blocks of
shards, and `transformer.split_query_key_value_and_split_heads`, which calls one or the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.experimental.heads import HeadsProgram
from tt_cnn.virtual.ops.layout.work_split import grid_cores
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, DataType, Layout, ShardOrientation
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    Shape,
    cores_to_ranges,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_FORMATS = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)
_STAGED_TILES = 4
"""The reader is so many tiles ahead of the writer."""


@dataclass(frozen=True)
class Heads:
    """How many there are, and how wide each is."""

    queries: int
    keys: int
    width: int
    transposed: bool
    """Keys lie with their width as rows."""
    tied: bool = False
    """Values are the keys."""

    @property
    def group(self) -> int:
        """Queries that share a key."""
        return self.queries // self.keys

    def shapes(self, batch: int, rows: int) -> tuple[Shape, Shape, Shape]:
        """Of queries, keys and values; heads are padded to whole tiles, and that is their width then."""
        width = round_up(self.width, TILE_SIZE)
        values = Shape((batch, self.keys, rows, width))
        keys = Shape((batch, self.keys, width, rows)) if self.transposed else values
        return Shape((batch, self.queries, rows, width)), keys, values


@dataclass(frozen=True, kw_only=True)
class CreateHeadsProgram(HeadsProgram):
    """Tiles of heads go to where each head lies; keys are turned on the way where that is asked for."""

    heads: Heads
    from_shards: bool


# --- from pages -----------------------------------------------------------------------------------------------------


def plan_nlp_create_heads(
    planner: Planner, inputs: Sequence[Slot], heads: Heads, config: MemoryConfig | None, given: Sequence[Slot] = ()
) -> list[Slot]:
    """`NlpCreateHeads`, of one tensor with all, or of one with the queries and one with the rest."""
    x = inputs[0]
    spec = x.spec
    config = config or spec.memory_config
    shapes = heads.shapes(spec.shape[0], spec.shape[2])
    outputs = list(given) or [
        planner.allocate(Spec(shape, spec.dtype, Layout.TILE, _placed(planner, config, heads, i)))
        for i, shape in enumerate(shapes)
    ]
    _check_nlp([one.spec for one in inputs], heads, config, planner)
    if spec.is_sharded:
        cores = outputs[0].spec.shard.grid
        names = ("queries", "keys", "values")
        made = (_over_shard(name, one) for name, one in zip(names, outputs, strict=True))
        buffers = tuple(buffer._replace(dataflow=True) for buffer in made)
    else:
        blocks = spec.shape[0] * spec.padded_shape[2] // TILE_SIZE
        if not heads.transposed and len(inputs) == 1:  # each head of a row of tiles is work of its own
            blocks *= heads.queries + 2 * heads.keys
        cores = cores_to_ranges(grid_cores(planner.card, None)[:blocks])
        parts = ("tiles", "keys", "turned keys") if heads.transposed else ("tiles",)
        size = _STAGED_TILES * spec.dtype.tile_bytes
        buffers = tuple(CircularBuffer(size, cores, dataflow=True, name=part) for part in parts)
    program = CreateHeadsProgram(
        op="NlpCreateHeads",
        factory="Sharded" if spec.is_sharded else "Interleaved",
        cores=cores,
        buffers=buffers,
        heads=heads,
        from_shards=spec.is_sharded,
    )
    planner.dispatch(program, inputs, outputs)
    return outputs


def _placed(planner: Planner, config: MemoryConfig, heads: Heads, output: int) -> MemoryConfig:
    """In shards each head has a core."""
    if not config.is_sharded():
        return config
    count = heads.keys if output else heads.queries
    cores = num_cores_to_corerangeset(count, CoreCoord(*planner.card.grid), True)
    return config.with_shard_spec(ShardSpec(cores, [TILE_SIZE, heads.width], ShardOrientation.ROW_MAJOR))


def _over_shard(name: str, slot: Slot) -> CircularBuffer:
    height, width = slot.spec.shard.shape
    size = height * width // TILE_SIZE**2 * slot.spec.dtype.tile_bytes
    return CircularBuffer(size, slot.spec.shard.grid, alias=slot, name=name)


def _check_nlp(specs: Sequence[Spec], heads: Heads, config: MemoryConfig, planner: Planner) -> None:
    spec = specs[0]
    fatal(spec.dtype in _FORMATS, "Unsupported data format")
    fatal(spec.layout is Layout.TILE, f"Input tensor layout must be TILE but got {spec.layout.native}")
    fatal(spec.shape[1] == 1, f"Unsupported input sequence length {spec.shape[1]} is not equal to 1")
    if not spec.is_sharded:
        fatal(
            not config.is_sharded(),
            f"Output memory config layout must be INTERLEAVED but got {config.memory_layout.native}",
        )
    else:
        _check_shards(spec, specs[1] if len(specs) > 1 else None, heads, config, planner.card.cores)
    if len(specs) == 1:
        return
    other = specs[1]
    fatal(other.dtype is spec.dtype, "KV tensor dtype must be same as Q tensor dtype!")
    fatal(other.layout is Layout.TILE, f"Input tensor KV layout must be TILE but got {other.layout.native}")
    fatal(other.shape[0] == spec.shape[0], "KV tensor batch dim must be same as Q tensor batch!")
    fatal(other.shape[1] == 1, f"Unsupported input shape {other.shape[1]} is not equal to 1")
    fatal(other.padded_shape[2] == spec.padded_shape[2], "KV tensor seq_len dim must be same as Q tensor seq_len!")


def _check_shards(spec: Spec, other: Spec | None, heads: Heads, config: MemoryConfig, available: int) -> None:
    height, width = spec.shard.shape
    cores = spec.shard.num_cores()
    fatal(
        height == spec.physical[0],
        f"Shard spec shape[0] ({height}) must equal physical volume / padded shape[-1] ({spec.physical[0]})",
    )
    fatal(
        config.is_sharded() and config.memory_layout is not WIDTH,
        "Output memory config must be sharded and not WIDTH_SHARDED but got memory_layout: "
        f"{config.memory_layout.native}",
    )
    fatal(
        spec.shard.orientation is ShardOrientation.ROW_MAJOR,
        f"Input tensor shard orientation must be ROW_MAJOR but got {spec.shard.orientation.native}",
    )
    for name, count in (("Q", heads.queries), ("KV", heads.keys)):
        fatal(count <= available, f"Number of {name} heads ({count}) must be <= number of cores ({available})")
    fatal(
        heads.queries >= heads.keys,
        f"Number of Q heads ({heads.queries}) must be >= number of KV heads ({heads.keys})",
    )
    fatal(
        heads.queries % cores == 0,
        f"Number of Q heads ({heads.queries}) must be divisible by number of cores ({cores})",
    )
    if other is not None:
        fatal(other.is_sharded, "Input tensor KV must be sharded")
        needed, said = heads.group * heads.width, "(num_q_heads / num_kv_heads) * head_dim"
    else:
        fatal(
            heads.keys % cores == 0,
            f"Number of KV heads ({heads.keys}) must be divisible by number of cores ({cores})",
        )
        needed, said = (heads.group + 2) * heads.width, "(num_q_heads / num_kv_heads + 2) * head_dim"
    fatal(width == needed, f"Shard spec shape[1] ({width}) must equal {said} ({needed})")
    fatal(not heads.transposed, "Transpose K heads must be false")


def _heads_of(spec: Spec, other: Spec | None, queries: int, keys: int, transposed: bool, tied: bool) -> Heads:
    """The width of a head follows from the width of the tensors."""
    fatal(queries > 0 and keys > 0, f"There must be heads, but num_heads is {queries} and num_kv_heads {keys}")
    width = spec.padded_shape[3]
    if other is not None:
        fatal(width % queries == 0, "Unsupported input shape")
        head = width // queries
        fatal(
            other.padded_shape[3] % keys == 0,
            f"KV tensor width {other.padded_shape[3]} is not divisible into {keys} heads",
        )
        fatal(other.padded_shape[3] // ((1 if tied else 2) * keys) == head, "Head dims must be the same for Q and K, V")
        return Heads(queries, keys, head, transposed, tied)
    sections = queries + (1 if tied else 2) * keys
    fatal(width % sections == 0, "Unsupported input shape")
    untied = queries + 2 * keys
    fatal(
        not tied or width % untied != 0,
        f"Ambiguous kv_tied fused input shape: width {width} is divisible by both {sections} (tied) and {untied} "
        "(untied) sections",
    )
    return Heads(queries, keys, width // sections, transposed, tied)


def head_values(x: torch.Tensor, heads: Heads, *, grouped: bool) -> list[torch.Tensor]:
    """Queries, keys and values out of (B, S, W); `grouped`: in shards each key follows its queries, its value it."""
    batch, rows, _ = x.shape
    cut = x.reshape(batch, rows, -1, heads.width)
    if grouped:
        groups = cut.reshape(batch, rows, heads.keys, heads.group + 2, heads.width)
        parts = [groups[..., : heads.group, :].flatten(2, 3), groups[..., heads.group, :], groups[..., -1, :]]
    else:
        ends = heads.queries, heads.queries + heads.keys
        keys = cut[:, :, ends[0] : ends[1]]
        parts = [cut[:, :, : ends[0]], keys, keys if heads.tied else cut[:, :, ends[1] :]]
    queries, keys, values = (part.transpose(1, 2) for part in parts)
    return [queries, keys.transpose(2, 3) if heads.transposed else keys, values]


class _CreatesHeads(Operation):
    single = False

    def results(self, outputs: list[Tensor], call: Call) -> tuple[Tensor, ...]:
        return tuple(outputs)

    def numbers(self, context: Context, *values: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        program = context.program(CreateHeadsProgram)
        count = len(context.steps[0].inputs)
        whole = [_rows_and_width(context, value, i) for i, value in enumerate(values[:count])]
        made = head_values(torch.cat(whole, -1), program.heads, grouped=program.from_shards)
        return [context.store(one, i) for i, one in enumerate(made)]


def _rows_and_width(context: Context, value: torch.Tensor, i: int) -> torch.Tensor:
    """(B, S, W) with the padding of the width, which counts as heads'."""
    shape = context.inputs[i].shape
    return value.reshape(shape[0], -1, value.shape[-1])[:, : shape[-2]]


@op("experimental.nlp_create_qkv_heads")
class NlpCreateQkvHeads(_CreatesHeads):
    """(B, 1, S, W) as queries (B, heads, S, D), keys (B, heads, D, S) and values (B, heads, S, D)."""

    def arguments(
        self,
        input: Tensor,
        input_kv: Tensor | None = None,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        transpose_k_heads: bool = True,
        kv_tied: bool = False,
        memory_config: MemoryConfig | None = None,
        output_tensors: Sequence[Tensor | None] | None = None,
    ) -> Call:
        given = [one for one in output_tensors or () if one is not None]
        tensors = [input] if input_kv is None else [input, input_kv]
        return Call(
            [*tensors, *given],
            inputs=len(tensors),
            heads=(num_heads, num_heads if num_kv_heads is None else num_kv_heads, transpose_k_heads, kv_tied),
            memory_config=memory_config,
        )

    def plan(
        self,
        planner: Planner,
        *slots: Slot,
        inputs: int,
        heads: tuple[int, int, bool, bool],
        memory_config: MemoryConfig | None,
    ) -> list[Slot]:
        spec = slots[0].spec
        fatal(len(spec.shape) > 3, f"ShapeBase[] index out of range. 3 not in [-4, {len(spec.shape)})")
        made = _heads_of(spec, slots[1].spec if inputs == 2 else None, *heads)
        return plan_nlp_create_heads(planner, slots[:inputs], made, memory_config, slots[inputs:])


# --- from shards ----------------------------------------------------------------------------------------------------


def plan_create_heads(planner: Planner, x: Slot, heads: Heads, config: MemoryConfig) -> list[Slot]:
    """`CreateQKVHeads`: each core of a block of shards has heads of one image, and keeps them."""
    spec = x.spec
    grid, orientation = spec.shard.grid, spec.shard.orientation
    outputs = []
    for shape in heads.shapes(spec.shape[0], spec.shape[2]):
        size = [shape[0] * shape[1] * shape[2] // grid.num_cores(), shape[3]]
        placed = config.with_shard_spec(ShardSpec(grid, size, orientation)) if config.is_sharded() else config
        outputs.append(planner.allocate(Spec(shape, spec.dtype, Layout.TILE, placed)))
    fatal(
        spec.memory_config.memory_layout is BLOCK,
        f"Input tensor memory layout must be BLOCK_SHARDED but got {spec.memory_config.memory_layout.native}",
    )
    fatal(
        config.memory_layout is HEIGHT,
        f"Output memory config layout must be HEIGHT_SHARDED but got {config.memory_layout.native}",
    )
    names = ("queries", "keys", "values")
    buffers = [_over_shard("input", x), *(_over_shard(n, one) for n, one in zip(names, outputs, strict=True))]
    if heads.transposed:
        buffers.append(CircularBuffer(buffers[2].bytes, grid, name="turned keys"))
    program = CreateHeadsProgram(
        op="CreateQKVHeads",
        factory="CreateQKVHeadsProgramFactory",
        cores=grid,
        buffers=tuple(buffers),
        heads=heads,
        from_shards=True,
    )
    planner.dispatch(program, [x], outputs)
    return outputs


@op("experimental.create_qkv_heads")
class CreateQkvHeads(_CreatesHeads):
    """The same of a tensor in blocks of shards, whose heads are interleaved: q1 k1 v1 q2 k2 v2 ..."""

    def arguments(
        self,
        input: Tensor,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        transpose_k_heads: bool = True,
        memory_config: MemoryConfig | None = None,
        output_tensors: Sequence[Tensor] | None = None,
    ) -> Call:
        refuse_unfollowed(self.name, output_tensors=output_tensors)
        heads = (num_heads, num_heads if num_kv_heads is None else num_kv_heads, transpose_k_heads)
        return Call([input], heads=heads, memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, heads: tuple[int, int, bool], memory_config: MemoryConfig | None
    ) -> list[Slot]:
        fatal(x.spec.is_sharded, "Operands to TM must be sharded")
        made = _heads_of(x.spec, None, *heads, tied=False)
        return plan_create_heads(planner, x, made, memory_config or x.spec.memory_config)


# --- either ---------------------------------------------------------------------------------------------------------


@op("transformer.split_query_key_value_and_split_heads")
class SplitQueryKeyValueAndSplitHeads(_CreatesHeads):
    """(B, S, W) as queries, keys and values of heads."""

    def arguments(
        self,
        input_tensor: Tensor,
        kv_input_tensor: Tensor | None = None,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        transpose_key: bool = True,
        memory_config: MemoryConfig | None = None,
        use_falcon7b_backend: bool = False,
    ) -> Call:
        refuse_unfollowed(self.name, use_falcon7b_backend=use_falcon7b_backend)
        tensors = [input_tensor] if kv_input_tensor is None else [input_tensor, kv_input_tensor]
        keys = num_heads if num_kv_heads is None else num_kv_heads
        return Call(tensors, heads=(num_heads, keys, transpose_key), memory_config=memory_config)

    def plan(
        self, planner: Planner, *slots: Slot, heads: tuple[int, int, bool], memory_config: MemoryConfig | None
    ) -> list[Slot]:
        spec = slots[0].spec
        _check_split([slot.spec for slot in slots], *heads[:2])
        views = [planner.view(slot, slot.spec.with_(shape=_with_one_head(slot.spec))) for slot in slots]
        made = _heads_of(views[0].spec, views[1].spec if len(views) == 2 else None, *heads, tied=False)
        if spec.is_sharded:
            fatal(
                len(slots) == 1,
                "Invalid operation: KV tensor should not be provided when the input tensor is sharded. Please ensure "
                "that the KV tensor is only used in non-sharded configurations.",
            )
            return plan_create_heads(planner, views[0], made, memory_config or spec.memory_config)
        outputs = plan_nlp_create_heads(planner, views, made, memory_config)
        shapes = made.shapes(spec.shape[0], spec.shape[1])
        return [
            planner.view(one, one.spec.with_(shape=shape)) if one.spec.shape != shape else one
            for one, shape in zip(outputs, shapes, strict=True)
        ]


def _with_one_head(spec: Spec) -> Shape:
    """Of pages with the padding of their rows, which the outputs are seen without."""
    batch, rows, width = spec.shape
    return Shape((batch, 1, rows if spec.is_sharded else spec.padded_shape[1], width))


def _check_split(specs: Sequence[Spec], queries: int, keys: int) -> None:
    spec = specs[0]
    rank = len(spec.shape)
    fatal(rank == 3, f"Invalid input tensor: expected 3 dimensions, but found {rank}.")
    fatal(
        spec.layout is Layout.TILE,
        f"Invalid layout: input tensor must use TILE_LAYOUT, but found {spec.layout.value}.",
    )
    sections = queries + 2 * keys
    if len(specs) == 2:
        other, sections = specs[1].shape, queries
        names = ("batch dimension", "sequence length")
        for at, name in enumerate(names):
            fatal(
                other[at] == spec.shape[at],
                f"Dimension mismatch: KV tensor {name} ({other[at]}) must match Q tensor {name} ({spec.shape[at]}).",
            )
    head, padded = spec.shape[2] // sections, spec.padded_shape[2] // sections
    fatal(
        head % TILE_SIZE == 0,
        f"Invalid head size: {head}. The head size must be a multiple of the tile width ({TILE_SIZE}). Please adjust "
        "the dimensions accordingly.",
    )
    fatal(
        padded == head,
        f"Padding error: Head size {head} should not include additional tile padding, but padded head size was found "
        f"to be {padded}. Ensure that no extra padding is applied.",
    )
