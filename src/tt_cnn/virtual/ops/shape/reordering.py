# SPDX-License-Identifier: Apache-2.0
"""Dimensions in another order. Permutes are made of transposes and transposes of permutes, as in the real library."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.layout.clone import plan_clone
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.work_split import SINGLE_CORE
from tt_cnn.virtual.ops.shape.permute.program import PermuteProgram, plan_permute_device
from tt_cnn.virtual.ops.shape.programs import Temporaries, normalized
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_fewer_dims, plan_four_dims
from tt_cnn.virtual.ops.shape.shards import L1_INTERLEAVED, derived, lacks_shards, rescaled, tile_sized
from tt_cnn.virtual.ops.shape.transpose.program import plan_transpose_device, stays_on_cores
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import BLOCK, WIDTH, DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
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
_KINDS = {(0, 1): "CN", (1, 2): "HC", (2, 3): "WH"}
_INTERLEAVED_ORDERS = {"CN": (1, 0, 2, 3), "HC": (0, 2, 1, 3), "WH": (0, 1, 3, 2)}
_PERMUTED = {(0, 2): (2, 1, 0, 3), (0, 3): (3, 1, 2, 0), (1, 3): (0, 3, 2, 1)}


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
        return plan_to_memory_config(planner, x, config or spec.memory_config)
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
    output = scope.add(plan_to_layout(planner, output, spec.layout, None, None))
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
        whole = scope.add(plan_to_memory_config(planner, x, L1_INTERLEAVED))
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
    current = scope.add(plan_typecast(planner, x, DataType.BFLOAT16)) if casts else x
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
    result = plan_typecast(planner, output, DataType.BFLOAT8_B) if casts else output
    scope.leave(result)
    return result


def _nothing(planner: Planner, x: Slot, order: tuple[int, ...], config: MemoryConfig) -> Slot:
    """The result for a tensor without elements."""
    shape = Shape([x.spec.shape[d] for d in order])
    output = planner.allocate(Spec(shape, x.spec.dtype, x.spec.layout, config))
    planner.dispatch(PermuteProgram(factory="MultiCoreTileInvariant", cores=SINGLE_CORE, dims=order), [x], [output])
    return output


def ragged(shape: Shape) -> bool:
    """Its last two dimensions are not whole tiles."""
    return len(shape) >= 2 and (shape[-1] % TILE_SIZE != 0 or shape[-2] % TILE_SIZE != 0)


def scattered_rows(spec: Spec) -> bool:
    """Row-major rows lie on several cores: such tensors are unsharded first where they are ragged."""
    return spec.layout is Layout.ROW_MAJOR and spec.memory_config.memory_layout in (BLOCK, WIDTH)


def plan_transpose(
    planner: Planner, x: Slot, dim1: int, dim2: int, config: MemoryConfig | None = None, pad_value: float = 0.0
) -> Slot:
    spec = x.spec
    rank = len(spec.shape)
    if scattered_rows(spec) and ragged(spec.shape):
        if config is not None and lacks_shards(config):
            padded = list(spec.padded_shape)
            a, b = normalized(dim1, rank), normalized(dim2, rank)
            padded[a], padded[b] = padded[b], padded[a]
            shard = derived(planner.card, spec, padded, config.memory_layout, spec.shard.orientation, row_major=True)
            config = config.with_shard_spec(shard)
        scope = Temporaries(planner)
        whole = scope.add(plan_to_memory_config(planner, x, L1_INTERLEAVED))
        result = plan_transpose(planner, whole, dim1, dim2, config, pad_value)
        scope.leave(result)
        return result
    a, b = sorted((normalized(dim1, rank), normalized(dim2, rank)))
    if rank > 4:
        order = list(range(rank))
        order[a], order[b] = order[b], order[a]
        return plan_permute(planner, x, order, config, pad_value)
    a, b = a + 4 - rank, b + 4 - rank
    return _four_dims(planner, x, a, b, config, pad_value)


def _four_dims(planner: Planner, x: Slot, a: int, b: int, config: MemoryConfig | None, pad_value: float) -> Slot:
    rank = len(x.spec.shape)
    scope = Temporaries(planner)
    current = plan_four_dims(planner, x)
    scope.add(current)
    casts = x.spec.dtype is DataType.BFLOAT8_B and (a, b) not in ((2, 3), (0, 1))
    if casts:
        current = scope.add(plan_typecast(planner, current, DataType.BFLOAT16))
    padded = current.spec.padded_shape
    if a == b or padded[a] == padded[b] == 1:
        moved = config is not None and current.spec.memory_config != config
        output = plan_clone(planner, current, config=config) if moved and config is not None else current
    else:
        output = _exchanged(planner, current, a, b, config, pad_value)
    scope.add(output)
    output = plan_fewer_dims(planner, output, rank)
    result = plan_typecast(planner, output, DataType.BFLOAT8_B) if casts else output
    scope.leave(result)
    return result


def _exchanged(planner: Planner, x: Slot, a: int, b: int, config: MemoryConfig | None, pad_value: float) -> Slot:
    if (a, b) in _PERMUTED:
        return plan_permute(planner, x, _PERMUTED[a, b], config, pad_value)
    kind = _KINDS[a, b]
    made = _output_config(x.spec, kind, config)
    row_major = x.spec.layout is Layout.ROW_MAJOR
    if row_major and not x.spec.is_sharded:
        return plan_permute_device(planner, x, _INTERLEAVED_ORDERS[kind], made)
    if row_major and kind == "WH" and _matrix_bytes(x.spec) > planner.program_l1():
        return plan_permute_device(planner, x, _INTERLEAVED_ORDERS[kind], made)
    return plan_transpose_device(planner, x, kind, made, pad_value)


def _matrix_bytes(spec: Spec) -> int:
    """What the row-major WH program needs: a matrix in tiles, and rows of it twice."""
    high, wide = round_up(spec.shape[-2], TILE_SIZE), round_up(spec.shape[-1], TILE_SIZE)
    return (2 * wide + 2 * high + high * wide) * spec.dtype.element_bytes


def _output_config(spec: Spec, kind: str, config: MemoryConfig | None) -> MemoryConfig:
    """The given one, or the input's with shards that fit the new shape."""
    if config is not None and not lacks_shards(config):
        return config
    if not spec.is_sharded or not stays_on_cores(spec):
        if config is not None:
            return config
        if spec.is_sharded:
            return MemoryConfig(spec.memory_config.memory_layout, spec.memory_config.buffer_type)
        return spec.memory_config
    base = config if config is not None else spec.memory_config
    fallback = MemoryConfig(config.memory_layout, config.buffer_type) if config is not None else L1_INTERLEAVED
    shard, padded = spec.shard, tuple(spec.padded_shape)
    tiled = spec.layout is Layout.TILE
    if kind == "WH" and config is None and padded[0] == padded[1] == 1 and shard.shape[1] == padded[3]:
        turned = ShardSpec(shard.grid, [shard.shape[1], shard.shape[0]], shard.orientation)
        return fallback if tiled and not tile_sized(turned) else MemoryConfig(WIDTH, base.buffer_type, turned)
    if kind == "WH":
        after = (*padded[:2], padded[3], padded[2])
    elif kind == "HC" and tiled:
        after = (padded[0], spec.shape[2], round_up(spec.shape[1], TILE_SIZE), padded[3])
    else:
        return base
    scaled = rescaled(shard, padded, after)
    same = config is None or config.memory_layout is spec.memory_config.memory_layout
    if scaled is None or not same or (tiled and not tile_sized(scaled)):
        return fallback
    return MemoryConfig(base.memory_layout, base.buffer_type, scaled)
