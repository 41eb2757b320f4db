# SPDX-License-Identifier: Apache-2.0
"""What ttnn.concat does around the device operation: layouts, padding and shards it cannot take are changed before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.clone import plan_clone
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import plan_tilize_with_padding
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.untilize_with_unpadding import plan_untilize_with_unpadding
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.concat.program import fatal_groups_in_dram, plan_concat_device, works_in_shards
from tt_cnn.virtual.ops.shape.concat.shared import height_concat, width_concat
from tt_cnn.virtual.ops.shape.concat.unaligned import takes_unaligned_tiles
from tt_cnn.virtual.ops.shape.programs import Temporaries, alignment, normalized
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_view, tile_padded
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, BufferType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

MAX_INTERLEAVED_INPUTS = 47
MAX_SHARDED_INPUTS = int((256 - 7) // 5 * 0.9)
"""Kernels are built for 256 arguments, of which each input takes 5; a tenth is kept free."""


def plan_concat(
    planner: Planner,
    inputs: Sequence[Slot],
    dim: int,
    config: MemoryConfig | None = None,
    groups: int = 1,
    grid: CoreRangeSet | None = None,
) -> Slot:
    fatal(len(inputs) > 0, "ttnn.concat: expected a non-empty list of Tensors!")
    target = config or DRAM_MEMORY_CONFIG
    if len(inputs) == 1:
        return plan_to_memory_config(planner, inputs[0], target)
    first = inputs[0].spec
    rank = len(first.shape)
    dim = normalized(dim, rank)
    fatal(
        all(_joinable(first, x.spec, dim) for x in inputs),
        "All dimensions must be the same size except for the dimension along which the contenation is taking place.",
        _mismatch([tuple(x.spec.shape) for x in inputs], dim),
    )
    if grid is not None and not first.is_sharded and not target.is_sharded():
        return _plan_formatted(planner, inputs, dim, groups, target, grid)
    if takes_unaligned_tiles(planner, inputs, dim, groups, target, allocated=False):
        return _plan_formatted(planner, inputs, dim, groups, target, grid)
    if rank >= 2 and dim == rank - 1 and _transposed_rows_overflow(planner, inputs, target):
        return _in_chunks(planner, inputs, dim, config, groups, grid)
    return _massaged(planner, inputs, dim, groups, target)


def _mismatch(shapes: Sequence[tuple[int, ...]], dim: int) -> str:
    """The first tensor that cannot be joined to the first, and where it differs."""
    first = shapes[0]
    for place, other in enumerate(shapes):
        if len(other) != len(first):
            return f"  tensor {place} has {len(other)} dimensions, tensor 0 has {len(first)}"
        wrong = [i for i, (a, b) in enumerate(zip(first, other, strict=True)) if i != dim and a != b]
        if wrong:
            at = wrong[0]
            return (
                f"  dimension {at} of tensor {place} is {other[at]}, of tensor 0 {first[at]}; "
                f"along dim={dim} all others must be equal"
            )
    return ""


def _joinable(first: Spec, other: Spec, dim: int) -> bool:
    return len(first.shape) == len(other.shape) and all(
        i == dim or a == b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True))
    )


# --- row-major rows that are not whole memory words -------------------------------------------------------------


def _element(spec: Spec) -> int:
    return 1 if spec.dtype.is_block_float else spec.dtype.element_bytes


def _transposed_rows_overflow(planner: Planner, inputs: Sequence[Slot], target: MemoryConfig) -> bool:
    """Rows that are not whole words are joined transposed; then a column of the tensor must fit into L1."""
    card = planner.card
    first = inputs[0].spec
    out_word = card.dram_alignment if target.is_dram() else card.l1_alignment
    word = max(alignment(card, first), out_word)
    ragged = any(x.spec.shape[-1] * _element(x.spec) % word for x in inputs)
    if first.layout is Layout.TILE:
        ragged = ragged and any(x.spec.shape[-1] != x.spec.padded_shape[-1] for x in inputs)
    return ragged and round_up(_element(first) * first.shape[-2], word) > card.l1_size - card.l1_base


def _in_chunks(
    planner: Planner,
    inputs: Sequence[Slot],
    dim: int,
    config: MemoryConfig | None,
    groups: int,
    grid: CoreRangeSet | None,
) -> Slot:
    first = inputs[0].spec
    rank = len(first.shape)
    room = planner.card.l1_size - planner.card.l1_base
    unit = TILE_SIZE if first.layout is Layout.TILE else 1
    chunk = room // (2 * _element(first)) // unit * unit
    scope = Temporaries(planner)
    parts = []
    for start in range(0, first.shape[-2], chunk):
        end = min(start + chunk, first.shape[-2])
        pieces = []
        inner = Temporaries(planner)
        for x in inputs:
            begins = [0] * rank
            ends = list(x.spec.shape)
            begins[-2], ends[-2] = start, end
            pieces.append(inner.add(plan_slice(planner, x, begins, ends, [1] * rank, config or DRAM_MEMORY_CONFIG)))
        part = scope.add(plan_concat(planner, pieces, dim, config, groups, grid))
        inner.leave(part)
        parts.append(part)
    result = parts[0] if len(parts) == 1 else plan_concat(planner, parts, rank - 2, config, 1, grid)
    scope.leave(result)
    return result


# --- what is done to the inputs, and undone to the output -------------------------------------------------------


def _massaged(planner: Planner, inputs: Sequence[Slot], dim: int, groups: int, target: MemoryConfig) -> Slot:
    """Untilize where tile padding lies along the dimension, then transpose where rows are not whole words."""
    scope = Temporaries(planner)
    undo: list[Callable[[Slot], Slot]] = []
    current = list(inputs)
    if any(_padded_along(x.spec, dim) for x in inputs):
        current = [scope.add(_untilized(planner, x)) for x in inputs]
        undo.append(lambda out: _tilized(planner, out))
    if dim == 0 and any(_ragged_vector(planner, x.spec) for x in current):
        current = [plan_view(planner, x, Shape([1, *x.spec.shape])) for x in current]
        dim = 1
        undo.append(lambda out: plan_view(planner, out, Shape(tuple(out.spec.shape)[1:])))
    if dim == len(current[0].spec.shape) - 1 and not _rows_are_words(planner, current):
        turned = Temporaries(planner)
        current = [turned.add(plan_transpose(planner, x, -2, -1)) for x in current]
        scope.leave()  # the untilized ones are no longer needed, and freed before the concat
        scope = turned
        dim -= 1
        undo.append(lambda out: plan_transpose(planner, out, -2, -1, target))
    later = Temporaries(planner)
    result = _plan_formatted(planner, current, dim, groups, target)
    for step in reversed(undo):
        later.add(result)
        result = step(result)
    scope.leave(result)
    later.leave(result)
    return result


def _padded_along(spec: Spec, dim: int) -> bool:
    return spec.layout is Layout.TILE and (len(spec.shape) == 1 or spec.shape[dim] != spec.padded_shape[dim])


def _ragged_vector(planner: Planner, spec: Spec) -> bool:
    return (
        spec.layout is Layout.ROW_MAJOR
        and len(spec.shape) == 1
        and spec.shape[0] * _element(spec) % alignment(planner.card, spec) != 0
    )


def _rows_are_words(planner: Planner, inputs: Sequence[Slot]) -> bool:
    return all(x.spec.padded_shape[-1] * _element(x.spec) % alignment(planner.card, x.spec) == 0 for x in inputs)


def _untilized(planner: Planner, x: Slot) -> Slot:
    fatal(x.spec.layout is Layout.TILE, "ttnn.concat: expected all input tensors to be in tile layout")
    return plan_untilize_with_unpadding(planner, x, [d - 1 for d in x.spec.shape])


def _tilized(planner: Planner, out: Slot) -> Slot:
    if out.spec.layout is Layout.TILE:
        return out
    padded = tile_padded(out.spec.padded_shape)
    return plan_tilize_with_padding(planner, out, padded, out.spec.memory_config)


# --- one layout and one kind of memory for all inputs -----------------------------------------------------------


def _most_inputs(inputs: Sequence[Slot], target: MemoryConfig) -> int:
    if not works_in_shards(inputs, target):
        return MAX_INTERLEAVED_INPUTS
    return 16 if inputs[0].spec.memory_config.memory_layout is BLOCK else MAX_SHARDED_INPUTS


def _plan_formatted(
    planner: Planner,
    inputs: Sequence[Slot],
    dim: int,
    groups: int,
    target: MemoryConfig,
    grid: CoreRangeSet | None = None,
) -> Slot:
    """TT-NN's `concat_impl`."""
    first = inputs[0].spec
    most = _most_inputs(inputs, target)
    if len(inputs) == 1:
        return inputs[0] if first.memory_config == target else plan_clone(planner, inputs[0], config=target)
    if len(inputs) > most:
        return _in_batches(planner, inputs, most, dim, groups, target, grid)
    if first.is_sharded:
        return _plan_sharded(planner, inputs, dim, groups, target, grid)
    rank = len(first.shape)
    if first.layout is Layout.ROW_MAJOR and dim == rank - 1:
        fatal(
            _rows_are_words(planner, inputs),
            "Current concat implementation requires aligned last dim when concatting on last dim",
        )
    scope = Temporaries(planner)
    layout = _common_layout(inputs)
    current = [scope.add(plan_to_layout(planner, x, layout, None, None)) for x in inputs]
    if target.is_sharded() and layout is Layout.ROW_MAJOR and target.memory_layout is not HEIGHT:
        joined = scope.add(plan_concat_device(planner, current, dim, groups, DRAM_MEMORY_CONFIG, grid))
        result = plan_to_memory_config(planner, joined, target)
    else:
        result = plan_concat_device(planner, current, dim, groups, target, grid)
    scope.leave(result)
    return result


def _common_layout(inputs: Sequence[Slot]) -> Layout:
    """The first input's, unless a row-major one is not made of whole tiles."""
    for x in inputs:
        shape = x.spec.padded_shape
        if x.spec.layout is Layout.ROW_MAJOR and (len(shape) < 2 or shape[-2] % TILE_SIZE or shape[-1] % TILE_SIZE):
            return Layout.ROW_MAJOR
    return inputs[0].spec.layout


def _in_batches(
    planner: Planner,
    inputs: Sequence[Slot],
    most: int,
    dim: int,
    groups: int,
    target: MemoryConfig,
    grid: CoreRangeSet | None,
) -> Slot:
    fatal(
        inputs[0].spec.memory_config.memory_layout is not BLOCK,
        f"Block-sharded concat supports at most 16 input tensors (got {len(inputs)}). Batching with intermediate shard "
        "specs is not supported for block-sharded concat.",
    )
    scope = Temporaries(planner)
    parts = [
        scope.add(_plan_formatted(planner, inputs[i : i + most], dim, groups, target, grid))
        for i in range(0, len(inputs), most)
    ]
    result = _plan_formatted(planner, parts, dim, groups, target, grid)
    scope.leave(result)
    return result


def _plan_sharded(
    planner: Planner,
    inputs: Sequence[Slot],
    dim: int,
    groups: int,
    target: MemoryConfig,
    grid: CoreRangeSet | None,
) -> Slot:
    first = inputs[0].spec
    layout = first.memory_config.memory_layout
    generic = not works_in_shards(inputs, target)
    if generic:
        fatal_groups_in_dram(groups)
    scope = Temporaries(planner)
    whole_rows = first.layout is not Layout.ROW_MAJOR or (
        layout is HEIGHT and (not target.is_sharded() or target.memory_layout is HEIGHT)
    )
    if generic and not whole_rows:
        unsharded = [scope.add(plan_to_memory_config(planner, x, DRAM_MEMORY_CONFIG)) for x in inputs]
        result = _plan_formatted(planner, unsharded, dim, groups, target, grid)
    elif target.is_sharded() or generic:
        result = plan_concat_device(planner, inputs, dim, groups, target)
    elif _fits_shards(layout, len(first.shape), dim):
        config = _joined_shards(inputs, 1 if width_concat(len(first.shape), dim) else 0)
        joined = scope.add(plan_concat_device(planner, inputs, dim, groups, config))
        result = plan_to_memory_config(planner, joined, target)
    else:
        unsharded = [scope.add(plan_to_memory_config(planner, x, target)) for x in inputs]
        result = _plan_formatted(planner, unsharded, dim, groups, target, grid)
    scope.leave(result)
    return result


def _fits_shards(layout: Any, rank: int, dim: int) -> bool:
    """Whether whole rows (or columns) of both tensors lie on the same cores."""
    return (width_concat(rank, dim) and layout in (HEIGHT, BLOCK)) or (
        height_concat(rank, dim) and layout in (WIDTH, BLOCK)
    )


def _joined_shards(inputs: Sequence[Slot], axis: int) -> MemoryConfig:
    first = inputs[0].spec
    shape = list(first.shard.shape)
    shape[axis] = sum(x.spec.shard.shape[axis] for x in inputs)
    shard = ShardSpec(first.shard.grid, shape, first.shard.orientation)
    return MemoryConfig(first.memory_config.memory_layout, BufferType.L1, shard)


# --- the op ---------------------------------------------------------------------------------------------------


@op("concat")
class ConcatOp(Operation):
    """Tensors joined along a dimension; with `groups`, group by group."""

    def arguments(
        self,
        tensors: Sequence[Tensor],
        dim: int = 0,
        *,
        memory_config: MemoryConfig | None = None,
        output_tensor: Tensor | None = None,
        groups: int = 1,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        fatal(len(tensors) > 0, "ttnn.concat: expected a non-empty list of Tensors!")
        fatal(output_tensor is None, "optional output tensor currently unsupported!")
        fatal(groups > 0, f"ttnn.concat: groups is {groups}; it must be at least 1", "  TT-NN ends the process here")
        return Call(
            tensors, dim=int(dim), memory_config=memory_config, groups=int(groups), sub_core_grids=sub_core_grids
        )

    def plan(
        self,
        planner: Planner,
        *inputs: Slot,
        memory_config: MemoryConfig | None,
        sub_core_grids: CoreRangeSet | None,
        **options: Any,
    ) -> list[Slot]:
        return [plan_concat(planner, inputs, config=memory_config, grid=sub_core_grids, **options)]

    def numbers(self, context: Context, *values: torch.Tensor, dim: int, groups: int, **_: Any) -> list[torch.Tensor]:
        logical = [context.logical(v, i) for i, v in enumerate(values)]
        if len(logical) == 1:
            return [context.store(logical[0])]
        if groups > 1 and context.inputs[0].is_sharded:
            split = [v.reshape(*v.shape[:-1], groups, v.shape[-1] // groups) for v in logical]
            joined = torch.cat(split, dim=-1)
            return [context.store(joined.reshape(*joined.shape[:-2], prod(joined.shape[-2:])))]
        return [context.store(torch.cat(logical, dim=dim))]
