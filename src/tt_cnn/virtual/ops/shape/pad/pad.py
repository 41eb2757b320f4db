# SPDX-License-Identifier: Apache-2.0
"""ttnn.pad: elements of a value before and after a tensor, dimension by dimension."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.arguments.typed import is_whole, type_name
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.calls import is_number
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.layout.interleaved_to_sharded import plan_interleaved_to_sharded
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.pad.program import plan_pad_device
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_four_dims, plan_squeeze
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_view, tile_padded
from tt_cnn.virtual.ops.shape.shards import INTERLEAVED, height_sharded_over, interleaved_in
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.conversion import host_tensor, unpad
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig

Pairs = tuple[tuple[int, int], ...]
_NOTHING = (0, 0)


def plan_pad(
    planner: Planner,
    x: Slot,
    padding: Sequence[tuple[int, int]],
    value: float,
    config: MemoryConfig | None = None,
    multicore: bool = True,
) -> Slot:
    rank = len(x.spec.shape)
    fatal(len(padding) <= rank, "ttnn.pad: padding len can't be larger than input tensor rank")
    pairs = [_NOTHING] * (rank - len(padding)) + [(a, b) for a, b in padding]
    if not any(a or b for a, b in pairs):
        return x
    scope = Temporaries(planner)
    current = x
    if rank > 4:
        current = scope.add(_pad_leading(planner, x, pairs, value, multicore))
        if not any(a or b for a, b in pairs):
            result = current if config is None else plan_to_memory_config(planner, current, config)
            scope.leave(result)
            return result
    if x.spec.layout is Layout.TILE:
        result = _pad_tiled(planner, current, pairs, value, config, multicore)
    else:
        result = _pad_rows(planner, current, pairs, value, config, multicore)
    scope.leave(result)
    return result


# --- more than four dimensions --------------------------------------------------------------------------------


def _pad_leading(planner: Planner, x: Slot, pairs: list[tuple[int, int]], value: float, multicore: bool) -> Slot:
    """Leading dimensions are padded one by one, each as the second of four; `pairs` keeps what is left to do."""
    result = x
    scope = Temporaries(planner)
    rank = len(pairs)
    for dim in range(rank - 3):
        if pairs[dim] == _NOTHING:
            continue
        shape = tuple(result.spec.shape)
        if dim == rank - 4 and prod(shape[: rank - 3]) == shape[dim]:
            continue
        result = scope.replace(result, _pad_one_leading(planner, result, dim, pairs[dim], value, multicore))
        pairs[dim] = _NOTHING
    scope.leave(result)
    return result


def _pad_one_leading(planner: Planner, x: Slot, dim: int, pair: tuple[int, int], value: float, multicore: bool) -> Slot:
    shape = tuple(x.spec.shape)
    inner = prod(shape[dim + 1 : -2])
    scope = Temporaries(planner)
    flat = Shape([prod(shape[:dim]), prod(shape[dim:-2]), *shape[-2:]])
    joined = scope.add(plan_reshape(planner, x, flat))
    pairs = [(pair[0] * inner, pair[1] * inner), _NOTHING, _NOTHING]
    padded = scope.add(plan_pad(planner, joined, pairs, value, None, multicore))
    result = plan_reshape(planner, padded, Shape([*shape[:dim], shape[dim] + sum(pair), *shape[dim + 1 :]]))
    scope.leave(result)
    return result


def _plan_four(planner: Planner, x: Slot) -> Slot:
    """Leading dimensions of one element are squeezed out, the others joined."""
    shape = tuple(x.spec.shape)
    if len(shape) <= 4:
        return plan_four_dims(planner, x)
    while len(x.spec.shape) > 4 and x.spec.shape[0] == 1:
        x = plan_squeeze(planner, x, [0])
    dims = tuple(x.spec.shape)
    if len(dims) <= 4:
        return x
    return plan_reshape(planner, x, Shape([prod(shape[:-3]), *shape[-3:]]))


# --- row-major --------------------------------------------------------------------------------------------------


def _pad_rows(
    planner: Planner, x: Slot, pairs: list[tuple[int, int]], value: float, config: MemoryConfig | None, multicore: bool
) -> Slot:
    rank = len(pairs)
    scope = Temporaries(planner)
    output = scope.add(_pad_four(planner, x, pairs, value, config, multicore))
    if rank > 4:
        logical = Shape([d + a + b for d, (a, b) in zip(x.spec.shape, pairs, strict=True)])
        result = plan_reshape(planner, output, logical, logical)
    elif rank < 4:
        shape = Shape(tuple(output.spec.padded_shape)[4 - rank :])
        result = plan_reshape(planner, output, shape, shape)
    else:
        result = output
    scope.leave(result)
    return result


def _pad_four(
    planner: Planner, x: Slot, pairs: list[tuple[int, int]], value: float, config: MemoryConfig | None, multicore: bool
) -> Slot:
    """TT-NN's `pad_impl` of paddings: block formats through bfloat16, then four dimensions."""
    if x.spec.dtype is DataType.BFLOAT8_B and x.spec.layout is Layout.TILE:
        scope = Temporaries(planner)
        wide = scope.add(plan_typecast(planner, x, DataType.BFLOAT16))
        padded = scope.add(_pad_four(planner, wide, pairs, value, config, multicore))
        result = plan_typecast(planner, padded, DataType.BFLOAT8_B)
        scope.leave(result)
        return result
    scope = Temporaries(planner)
    four = scope.add(_plan_four(planner, x))
    four_pairs = ([_NOTHING] * (4 - len(pairs)) + pairs)[-4:]
    base = four.spec.padded_shape if four.spec.layout is Layout.TILE else four.spec.shape
    shape = Shape([d + a + b for d, (a, b) in zip(base, four_pairs, strict=True)])
    if x.spec.layout is Layout.TILE:
        fatal(
            shape[-2] % TILE_SIZE == 0 and shape[-1] % TILE_SIZE == 0,
            "ttnn.pad: for tiled tensors padding end must be a multiple of the tile size on height and width for a "
            "tensor in tile layout",
        )
    result = _pad_shape(planner, four, shape, tuple(a for a, _ in four_pairs), value, config, multicore)
    scope.leave(result)
    return result


def _pad_shape(
    planner: Planner,
    x: Slot,
    shape: Shape,
    start: tuple[int, ...],
    value: float,
    config: MemoryConfig | None,
    multicore: bool,
) -> Slot:
    spec = x.spec
    if spec.shape == shape:
        return x
    target = config or spec.memory_config
    if spec.memory_config.memory_layout in (BLOCK, WIDTH) and not spec.memory_config.is_l1():
        return _through_interleaved(planner, x, shape, start, value, target, multicore)
    in_shards = spec.memory_config.memory_layout is HEIGHT and target.memory_layout is not INTERLEAVED
    if in_shards and spec.shape[-1] != shape[-1]:
        widened = Shape([*tuple(spec.shape)[:-1], shape[-1]])
        target = height_sharded_over(spec.shard.grid, widened)
        if prod(tuple(spec.shape)[:-1]) != prod(tuple(shape)[:-1]):
            scope = Temporaries(planner)
            wide = scope.add(_pad_shape(planner, x, widened, (0, 0, 0, start[-1]), value, target, multicore))
            after = config or height_sharded_over(spec.shard.grid, shape)
            result = _pad_shape(planner, wide, shape, start, value, after, multicore)
            scope.leave(result)
            return result
    return plan_pad_device(planner, x, shape, start, value, target, multicore)


def _through_interleaved(
    planner: Planner,
    x: Slot,
    shape: Shape,
    start: tuple[int, ...],
    value: float,
    target: MemoryConfig,
    multicore: bool,
) -> Slot:
    scope = Temporaries(planner)
    whole = scope.add(plan_to_memory_config(planner, x, interleaved_in(x.spec.memory_config.buffer_type)))
    between = interleaved_in(target.buffer_type) if target.is_sharded() else target
    result = scope.add(plan_pad_device(planner, whole, shape, start, value, between, multicore))
    if target.is_sharded() and target.is_l1():
        result = plan_interleaved_to_sharded(planner, result, target)
    elif target.is_sharded():
        result = plan_to_memory_config(planner, result, target)
    scope.leave(result)
    return result


# --- tiled ------------------------------------------------------------------------------------------------------


def _pad_tiled(
    planner: Planner, x: Slot, pairs: list[tuple[int, int]], value: float, config: MemoryConfig | None, multicore: bool
) -> Slot:
    """The tiles' own padding is filled in place first; then whole tiles are added."""
    fatal(
        all(a == 0 for a, _ in pairs),
        "ttnn.pad: on device tile padding does not support front padding",
    )
    spec = x.spec
    logical = Shape([d + b for d, (_, b) in zip(spec.shape, pairs, strict=True)])
    padded = tile_padded(logical)
    scope = Temporaries(planner)
    output = scope.add(plan_fill_padding(planner, x, value))
    leading_grow = tuple(logical)[:-2] != tuple(spec.shape)[:-2]
    before = tuple(spec.padded_shape)
    if len(logical) == 1 or (not leading_grow and tuple(padded)[-2:] == before[-2:]):
        output = plan_view(planner, output, logical, padded)
    else:
        tiles = [(0, a - b) for a, b in zip(padded, before, strict=True)]
        output = scope.replace(output, _pad_four(planner, output, tiles, value, config, multicore))
        output = plan_view(planner, output, logical, padded)
    wanted = config or spec.memory_config
    if (output.spec.memory_config.shard_spec is None) != (wanted.shard_spec is None):
        target = config or height_sharded_over(spec.shard.grid, logical)
        output = scope.replace(output, plan_to_memory_config(planner, output, target))
    scope.leave(output)
    return output


@op("pad")
class Pad(Operation):
    """A tensor in a larger one: `pad(x, [(before, after), ...], value)` or `pad(x, shape, start, value)`."""

    def arguments(
        self,
        input_tensor: Tensor,
        padding: Sequence[Any] | None = None,
        *values: Any,
        output_padded_shape: Sequence[int] | None = None,
        input_tensor_start: Sequence[int] | None = None,
        value: float | None = None,
        use_multicore: bool = True,
        memory_config: MemoryConfig | None = None,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        given = list(values)
        shape = output_padded_shape
        start = input_tensor_start
        if padding is not None and (start is not None or (padding and isinstance(padding[0], int))):
            shape = padding
            start = given.pop(0) if start is None and given else start
        if not isinstance(start, (Sequence, Shape, type(None))) or len(given) > 1:
            raise TypeError("ttnn.pad(): incompatible function arguments: it takes pairs, or a shape and a start")
        if given:
            value = given.pop(0)
        if not is_number(value):
            raise TypeError(f"pad needs a number to pad with; it was given {type_name(value)}")
        rank = len(input_tensor.shape)
        if shape is not None and start is not None:
            fatal(
                len(shape) == len(start) == rank,
                f"ttnn.pad: the shape {tuple(shape)} and the start {tuple(start)} must have the tensor's rank, {rank}",
            )
            pairs = tuple(
                (int(a), int(s) - int(d) - int(a)) for s, a, d in zip(shape, start, input_tensor.shape, strict=True)
            )
        else:
            pairs = tuple((int(a), int(b)) for a, b in map(_pair, padding or ()))
        return Call(
            [input_tensor],
            padding=pairs,
            value=float(value),  # type: ignore[arg-type]  # a number, by the check above
            use_multicore=use_multicore,
            memory_config=memory_config,
            cores=sub_core_grids,
        )

    def shortcut(self, call: Call) -> Any:
        (x,) = call.tensors
        if x._buffer is not None:
            return None
        values = [
            padded_values(unpad(v, tuple(x.shape)), call.attributes["padding"], call.attributes["value"])
            for v in x.host_values("pad")
        ]
        return host_tensor(values, x.dtype, x.layout, x.memory_config())

    def plan(
        self,
        planner: Planner,
        x: Slot,
        padding: Pairs,
        value: float,
        use_multicore: bool,
        memory_config: MemoryConfig | None,
        cores: CoreRangeSet | None,
    ) -> list[Slot]:
        planner.workers = cores
        return [plan_pad(planner, x, padding, value, memory_config, use_multicore)]

    def numbers(self, context: Context, x: torch.Tensor, padding: Pairs, value: float, **_: Any) -> list[torch.Tensor]:
        return [context.store(padded_values(context.logical(x), padding, value), fill=value)]


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, (list, tuple)) or len(given) != 2 or not all(map(is_whole, given)):
        raise TypeError(f"ttnn.pad(): incompatible function arguments: a padding is {given!r}, not (before, after)")
    return given[0], given[1]


def padded_values(x: torch.Tensor, padding: Pairs, value: float) -> torch.Tensor:
    amounts = [amount for pair in reversed(padding) for amount in pair]
    return torch.nn.functional.pad(x, amounts, value=value if x.is_floating_point() else int(value))
