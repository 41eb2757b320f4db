# SPDX-License-Identifier: Apache-2.0
"""ttnn.split and ttnn.chunk: a tensor cut along a dimension, by one program where it can, else slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import Temporaries, as_ints, normalized
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_four_dims
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_checked_view, plan_view
from tt_cnn.virtual.ops.shape.shards import derived, lacks_shards, rescaled, tile_sized
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.ops.shape.split.program import plan_split_device
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BufferType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

BATCH = 64
"""More equal parts than this are cut in two rounds."""
PAGES_A_SLICE = 4


def plan_split(
    planner: Planner, x: Slot, sizes: Sequence[int], dim: int, config: MemoryConfig | None = None
) -> list[Slot]:
    spec = x.spec
    dim = normalized(dim, len(spec.shape))
    _check_sizes(sizes, dim, spec.shape[dim])
    target = _output_config(planner, spec, sizes, dim, config)
    if _one_program(planner, spec, sizes, dim):
        return _split_tiles(planner, x, len(sizes), target)
    scope = Temporaries(planner)
    source = x
    leaves_l1 = spec.memory_config.buffer_type is BufferType.L1 and target.buffer_type is BufferType.DRAM
    if leaves_l1 and len(sizes) > 2:
        source = scope.add(plan_to_memory_config(planner, x, DRAM_MEMORY_CONFIG))
    results = _slices(planner, source, sizes, dim, target)
    scope.leave(*results)
    return results


def _listed(sizes: Sequence[int]) -> str:
    return "SmallVector([" + ", ".join(map(str, sizes)) + "])"


def _check_sizes(sizes: Sequence[int], dim: int, extent: int) -> None:
    fatal(len(sizes) > 0, "split_sizes must not be empty")
    fatal(all(s > 0 for s in sizes), f"split_size should be greater than 0, instead got: {_listed(sizes)}")
    begin = f"split_sizes must sum exactly to the size of dimension {dim} ({extent}), but sizes {_listed(sizes)}"
    left = extent - sum(sizes)
    fatal(left >= 0, f"{begin} over-cover it")
    fatal(left == 0, f"{begin} under-cover it by {left}")


def _part_shape(spec: Spec, sizes: Sequence[int], dim: int) -> Shape | None:
    """The padded shape of a part, where all parts are alike."""
    padded = list(spec.padded_shape)
    if any(s != sizes[0] for s in sizes) or padded[dim] % len(sizes):
        return None
    padded[dim] //= len(sizes)
    return Shape(padded)


def _output_config(
    planner: Planner, spec: Spec, sizes: Sequence[int], dim: int, config: MemoryConfig | None
) -> MemoryConfig:
    own = spec.memory_config
    if config is not None:
        if not lacks_shards(config):
            return config
        part = _part_shape(spec, sizes, dim)
        if part is None:
            return DRAM_MEMORY_CONFIG
        shard = None
        if own.shard_spec is not None and own.memory_layout is config.memory_layout:
            shard = rescaled(own.shard_spec, spec.padded_shape, part)
        return config.with_shard_spec(shard or derived(planner.card, spec, part, config.memory_layout))
    fits = _fits_l1(planner, spec, len(sizes))
    if not spec.is_sharded:
        return own if fits else DRAM_MEMORY_CONFIG
    part = _part_shape(spec, sizes, dim)
    shard = None if part is None else rescaled(spec.shard, spec.padded_shape, part)
    if shard is None or (spec.layout is Layout.TILE and not tile_sized(shard)) or not fits:
        return DRAM_MEMORY_CONFIG
    return own.with_shard_spec(shard)


def _fits_l1(planner: Planner, spec: Spec, parts: int) -> bool:
    """Whether the parts of an L1 tensor stay in L1; the library counts them as if one core held them all."""
    if spec.memory_config.buffer_type is not BufferType.L1 or parts <= 2:
        return True
    if spec.layout is Layout.TILE:
        page = spec.dtype.tile_bytes
        part = spec.volume // TILE_SIZE**2 // parts * page
    else:
        element = spec.dtype.element_bytes
        part, page = spec.volume // parts * element, TILE_SIZE**2 * element
    return part * parts + parts * PAGES_A_SLICE * page <= planner.program_l1()


def _one_program(planner: Planner, spec: Spec, sizes: Sequence[int], dim: int) -> bool:
    shape, parts = tuple(spec.shape), len(sizes)
    across, down = planner.card.grid
    rank = len(shape)
    four = (1,) * (4 - rank) + shape if rank <= 4 else (prod(shape[:-3]), *shape[-3:])
    matrices = four[0] * four[1] if parts == 2 else four[1]
    return (
        all(s == sizes[0] for s in sizes)
        and dim == rank - 1
        and spec.layout is Layout.TILE
        and rank >= 2
        and matrices <= across
        and shape[-2] // TILE_SIZE >= 2
        and shape[-1] // TILE_SIZE >= 2
        and spec.padded_shape[-1] // TILE_SIZE % parts == 0
        and (parts == 2 or four[0] == 1)
        and parts <= down
        and shape[-1] % TILE_SIZE == 0
    )


def _split_tiles(planner: Planner, x: Slot, parts: int, target: MemoryConfig) -> list[Slot]:
    shape = tuple(x.spec.shape)
    four = plan_four_dims(planner, x)
    if len(shape) > 4:
        four = plan_view(planner, x, Shape([prod(shape[:-3]), *shape[-3:]]))
    logical, padded = tuple(four.spec.shape), tuple(four.spec.padded_shape)
    if parts == 2 and logical[0] > 1:
        joined = logical[0] * logical[1]
        four = plan_view(planner, four, Shape([1, joined, *logical[2:]]), Shape([1, joined, *padded[2:]]))
    outputs = plan_split_device(planner, four, parts, target)
    final = Shape([*shape[:-1], shape[-1] // parts])
    return [plan_checked_view(planner, out, final) for out in outputs]


def _slices(planner: Planner, x: Slot, sizes: Sequence[int], dim: int, target: MemoryConfig | None) -> list[Slot]:
    shape = list(x.spec.shape)
    results: list[Slot] = []
    if len(sizes) > BATCH and all(s == sizes[0] for s in sizes):
        for first in range(0, len(sizes), BATCH):
            some = sizes[first : first + BATCH]
            scope = Temporaries(planner)
            batch = scope.add(_part(planner, x, shape, dim, first * sizes[0], sum(some), target))
            inner = _slices(planner, batch, some, dim, target)
            scope.leave(*inner)
            results += inner
        return results
    at = 0
    for size in sizes:
        results.append(_part(planner, x, shape, dim, at, size, target))
        at += size
    return results


def _part(
    planner: Planner, x: Slot, shape: list[int], dim: int, at: int, size: int, target: MemoryConfig | None
) -> Slot:
    begins, ends = [0] * len(shape), list(shape)
    begins[dim], ends[dim] = at, at + size
    return plan_slice(planner, x, begins, ends, [1] * len(shape), target)


class _Cutting(Operation):
    single = False

    def numbers(
        self, context: Context, x: torch.Tensor, sizes: tuple[int, ...], dim: int, **_: Any
    ) -> list[torch.Tensor]:
        parts = context.logical(x).split(list(sizes), dim=dim)
        return [context.store(part, i) for i, part in enumerate(parts)]


def _equal_sizes(extent: int, size: int) -> tuple[int, ...]:
    return tuple(min(size, extent - at) for at in range(0, extent, size))


@op("split")
class Split(_Cutting):
    """Parts of a given size, or of given sizes."""

    def arguments(
        self,
        input_tensor: Tensor,
        split_size: int | Sequence[int],
        dim: int = 0,
        *,
        memory_config: MemoryConfig | None = None,
    ) -> Call:
        dim = normalized(int(dim), len(input_tensor.shape))
        if isinstance(split_size, int):
            fatal(split_size > 0, f"split_size must be greater than 0, but got: {split_size}")
            sizes = _equal_sizes(input_tensor.shape[dim], split_size)
        else:
            sizes = as_ints(split_size)
        fatal(len(sizes) > 0, "split_sizes must not be empty")
        return Call([input_tensor], sizes=sizes, dim=dim, memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, sizes: tuple[int, ...], dim: int, memory_config: MemoryConfig | None
    ) -> list[Slot]:
        return plan_split(planner, x, sizes, dim, memory_config)


@op("chunk")
class Chunk(_Cutting):
    """So many parts, the last perhaps smaller."""

    def arguments(self, input_tensor: Tensor, chunks: int, dim: int = 0) -> Call:
        fatal(chunks > 0, "Number of chunks must be greater than zero")
        rank = len(input_tensor.shape)
        at = dim + rank if dim < 0 else dim
        fatal(rank > at, f"... Invalid dimension for chunk operation, {rank} needs to be greater than {at}")
        extent = input_tensor.shape[at]
        fatal(extent > 0, "split_sizes must not be empty")
        return Call([input_tensor], sizes=_equal_sizes(extent, div_up(extent, chunks)), dim=at)

    def plan(self, planner: Planner, x: Slot, sizes: tuple[int, ...], dim: int) -> list[Slot]:
        shape = list(x.spec.shape)
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [_part(planner, x, shape, dim, end - size, size, None) for end, size in zip(ends, sizes, strict=True)]
