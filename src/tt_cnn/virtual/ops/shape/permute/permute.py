"""ttnn.permute: dimensions in another order, made of transposes where the library does so."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.work_split import SINGLE_CORE
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape import stages
from tt_cnn.virtual.ops.shape.permute.program import PermuteProgram, plan_permute_device
from tt_cnn.virtual.ops.shape.programs import Temporaries, as_ints, normalized
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_fewer_dims, plan_four_dims
from tt_cnn.virtual.ops.shape.shards import L1_INTERLEAVED, derived, lacks_shards
from tt_cnn.virtual.ops.shape.transpose.transpose import plan_transpose, ragged, scattered_rows
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_WH, _HC, _CN = (2, 3), (1, 2), (0, 1)
_TRANSPOSES: dict[tuple[int, ...], list[tuple[int, int]]] = {
    (0, 1, 3, 2): [_WH],
    (0, 2, 1, 3): [_HC],
    (1, 0, 2, 3): [_CN],
}
_SHARDED_TRANSPOSES: dict[tuple[int, ...], list[tuple[int, int]]] = {
    **_TRANSPOSES,
    (0, 2, 3, 1): [_HC, _WH],
    (0, 3, 1, 2): [_WH, _HC],
    (0, 3, 2, 1): [_WH, _HC, _WH],
}
"""Orders that the library makes by transposing; sharded tensors are transposed step by step."""

_BLOCK_FLOAT_ORDERS = ((0, 1, 3, 2), (1, 0, 2, 3), (1, 0, 3, 2))


def changes_nothing(spec: Spec, dims: Sequence[int]) -> bool:
    """Only dimensions of one element move, and they stay outside of what a page holds."""
    rank = len(spec.shape)
    if rank <= 1 or tuple(dims) == tuple(range(rank)):
        return True
    fixed = (rank - 2, rank - 1) if spec.layout is Layout.TILE else (rank - 1,)
    if any(dims[d] != d for d in fixed):
        return False
    return all(spec.shape[d] == spec.shape[i] and (i == d or spec.shape[i] <= 1) for i, d in enumerate(dims))


def plan_permute(
    planner: Planner, x: Slot, dims: Sequence[int], config: MemoryConfig | None = None, pad_value: float = 0.0
) -> Slot:
    spec = x.spec
    rank = len(spec.shape)
    fatal(
        rank == len(dims),
        "The number of dimensions in the tensor input does not match the length of the desired ordering",
    )
    order = [normalized(d, rank) for d in dims]
    fatal(len(set(order)) == rank, f"permute: dims {tuple(dims)} name a dimension twice")
    if 0 in spec.shape and not spec.is_sharded:
        return _nothing(planner, x, tuple(order), config or spec.memory_config)
    if changes_nothing(spec, order):
        return stages.to_memory_config(planner, x, config or spec.memory_config)
    scope = Temporaries(planner)
    current = scope.add(plan_four_dims(planner, x))
    if rank < 4:
        order = [*range(4 - rank), *(d + 4 - rank for d in order)]
    if spec.layout is Layout.ROW_MAJOR and config is not None and config.shard_spec is not None:
        word = planner.card.l1_alignment
        fatal(
            config.shard_spec.shape[1] * spec.dtype.element_bytes % word == 0,
            f"Shard page size must be aligned to {word}B for L1 Tensor",
        )
    output = scope.add(_permuted(planner, current, tuple(order), config, pad_value))
    output = scope.add(stages.to_layout(planner, output, spec.layout))
    result = plan_fewer_dims(planner, output, rank)
    scope.leave(result)
    return result


def _permuted(planner: Planner, x: Slot, order: tuple[int, ...], config: MemoryConfig | None, pad_value: float) -> Slot:
    spec = x.spec
    scope = Temporaries(planner)
    if scattered_rows(spec) and ragged(spec.shape):
        if config is not None and lacks_shards(config):
            padded = [spec.padded_shape[d] for d in order]
            shard = derived(planner.card, spec, padded, config.memory_layout, spec.shard.orientation)
            config = config.with_shard_spec(shard)
        whole = scope.add(stages.to_memory_config(planner, x, L1_INTERLEAVED))
        result = _permuted(planner, whole, order, config, pad_value)
        scope.leave(result)
        return result
    target = config or (
        MemoryConfig(spec.memory_config.memory_layout, spec.memory_config.buffer_type)
        if spec.is_sharded
        else spec.memory_config
    )
    if len(order) > 4:
        return plan_permute_device(planner, x, order, target)
    casts = spec.dtype is DataType.BFLOAT8_B and order not in _BLOCK_FLOAT_ORDERS and not spec.is_sharded
    current = scope.add(stages.typecast(planner, x, DataType.BFLOAT16)) if casts else x
    transposes = (_SHARDED_TRANSPOSES if spec.is_sharded else _TRANSPOSES).get(order)
    if transposes is None:
        output = current if order == (0, 1, 2, 3) else plan_permute_device(planner, current, order, target)
    else:
        output = current
        for i, pair in enumerate(transposes):
            last = i == len(transposes) - 1
            fill = pad_value if pair == _HC else 0.0
            output = scope.add(plan_transpose(planner, output, *pair, config if last else None, fill))
    scope.add(output)
    result = stages.typecast(planner, output, DataType.BFLOAT8_B) if casts else output
    scope.leave(result)
    return result


def _nothing(planner: Planner, x: Slot, order: tuple[int, ...], config: MemoryConfig) -> Slot:
    """The result for a tensor without elements."""
    shape = Shape([x.spec.shape[d] for d in order])
    output = planner.allocate(Spec(shape, x.spec.dtype, x.spec.layout, config))
    planner.dispatch(PermuteProgram(factory="MultiCoreTileInvariant", cores=SINGLE_CORE, dims=order), [x], [output])
    return output


@op("permute")
class Permute(Operation):
    """Dimensions in another order."""

    reads_free_memory = True

    def arguments(
        self,
        input_tensor: Tensor,
        dims: Sequence[int],
        *,
        memory_config: MemoryConfig | None = None,
        pad_value: float = 0.0,
    ) -> Call:
        fatal(
            len(input_tensor.shape) == len(dims),
            "The number of dimensions in the tensor input does not match the length of the desired ordering",
        )
        fatal(input_tensor._buffer is not None, "Tensor must already be on device")
        return Call([input_tensor], dims=as_ints(dims), memory_config=memory_config, pad_value=float(pad_value or 0))

    def plan(
        self, planner: Planner, x: Slot, dims: tuple[int, ...], memory_config: MemoryConfig | None, pad_value: float
    ) -> list[Slot]:
        return [plan_permute(planner, x, dims, memory_config, pad_value)]

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        dims: tuple[int, ...],
        memory_config: MemoryConfig | None,
        pad_value: float,
    ) -> list[torch.Tensor]:
        return [context.store(context.logical(x).permute(dims), fill=pad_value)]
