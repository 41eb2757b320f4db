# SPDX-License-Identifier: Apache-2.0
"""ttnn.repeat: dimensions repeated, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.interleaved_to_sharded import plan_interleaved_to_sharded
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.untilize import plan_untilize
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import Temporaries, aligned_page, as_ints
from tt_cnn.virtual.ops.shape.repeat.program import (
    plan_generated_repeat,
    plan_native_repeat,
    repeated,
    rows_in_flight,
    stays_on_cores,
)
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_checked_view
from tt_cnn.virtual.ops.shape.shards import (
    L1_INTERLEAVED,
    for_whole_grid,
    interleaved_in,
    lacks_shards,
    with_aligned_rows,
)
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import HEIGHT, WIDTH, BufferType, DataType, Layout, ShardOrientation
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_repeat(planner: Planner, x: Slot, times: Sequence[int], config: MemoryConfig | None = None) -> Slot:
    rank = max(len(x.spec.shape), len(times))
    reps = (1,) * (rank - len(times)) + tuple(times)
    current = x
    if len(x.spec.shape) < rank:
        current = plan_checked_view(planner, x, x.spec.shape.to_rank(rank))
    own = x.spec.memory_config
    target = config or (MemoryConfig(own.memory_layout, own.buffer_type) if own.is_sharded() else own)
    if 0 in reps:
        where = config or interleaved_in(own.buffer_type)
        shape = Shape([d * r for d, r in zip(current.spec.shape, reps, strict=True)])
        return planner.allocate(Spec(shape, x.spec.dtype, x.spec.layout, where))
    if all(r == 1 for r in reps):
        if lacks_shards(target) and target.memory_layout is own.memory_layout and target.buffer_type is own.buffer_type:
            target = own
        return plan_to_memory_config(planner, current, target)
    resolved = _resolved(planner, current.spec, reps, target)
    if _generated(planner, current.spec, reps, resolved):
        return _through_generated(planner, current, reps, resolved)
    return _through_native(planner, current, reps, target)


def _product_shape(shape: Shape, reps: Sequence[int]) -> Shape:
    return Shape([d * r for d, r in zip(shape, reps, strict=True)])


# --- shards of the output ---------------------------------------------------------------------------------------


def _single(reps: Sequence[int]) -> tuple[int, int] | None:
    """The one dimension that is repeated, and how often."""
    found = [(i, r) for i, r in enumerate(reps) if r != 1]
    return found[0] if len(found) == 1 else None


def _resolved(planner: Planner, spec: Spec, reps: Sequence[int], target: MemoryConfig) -> MemoryConfig:
    """Shards for the repeated tensor where only a layout is known; interleaved where none can be made."""
    if not lacks_shards(target):
        return target
    single = _single(reps)
    shard = spec.memory_config.shard_spec
    if single is not None and shard is not None and stays_on_cores(spec, target, *single):
        height, width = shard.shape
        last = single[0] == len(spec.shape) - 1
        shape = [height, width * single[1]] if last else [height * single[1], width]
        return target.with_shard_spec(ShardSpec(shard.grid, shape, shard.orientation))
    out = Spec(_product_shape(spec.shape, reps), spec.dtype, spec.layout, interleaved_in(target.buffer_type))
    made = _whole_grid_shards(planner, spec, out.padded_shape, target)
    return interleaved_in(target.buffer_type) if made is None else target.with_shard_spec(made)


def _whole_grid_shards(planner: Planner, spec: Spec, padded: Shape, target: MemoryConfig) -> ShardSpec | None:
    shard = spec.memory_config.shard_spec
    orientation = shard.orientation if shard is not None else ShardOrientation.ROW_MAJOR
    rows, columns = prod(tuple(padded)[:-1]), padded[-1]
    card = planner.card

    def make(tiled: bool) -> ShardSpec:
        return for_whole_grid(
            card, rows, columns, target.memory_layout, tiled=tiled, orientation=orientation, caller="Repeat"
        )

    made = make(spec.layout is Layout.TILE)
    if spec.layout is Layout.TILE:
        return made
    element = spec.dtype.element_bytes
    made = with_aligned_rows(card, made, spec, columns, target.memory_layout)
    if made.shape[1] * element % card.l1_alignment == 0 and columns % made.shape[1] == 0:
        return made
    made = make(True)
    return made if made.shape[1] * element % card.l1_alignment == 0 and columns % made.shape[1] == 0 else None


# --- the generated program --------------------------------------------------------------------------------------


def _whole_pages(config: MemoryConfig, shape: Shape, layout: Layout) -> bool:
    """Shards that hold the pages an interleaved tensor would have. TT-NN: `shard_spec_is_page_identical`."""
    if not config.is_sharded():
        return True
    shard = config.shard_spec
    if shard is None or len(shape) < 2 or 0 in shard.shape:
        return False
    tiled = layout is Layout.TILE
    unit = TILE_SIZE if tiled else 1
    height = prod(tuple(shape)[:-2]) * round_up(shape[-2], unit)
    width = round_up(shape[-1], unit)
    if shard.shape[0] % unit or shard.shape[1] % unit or height % shard.shape[0] or width % shard.shape[1]:
        return False
    down, across = height // shard.shape[0], width // shard.shape[1]
    if not tiled and across != 1:
        return False
    if config.memory_layout is HEIGHT:
        return across == 1 and down <= shard.num_cores()
    if config.memory_layout is WIDTH:
        return down == 1 and across <= shard.num_cores()
    size = shard.grid.bounding_box().grid_size()
    have = (size.y, size.x) if shard.row_wise else (size.x, size.y)
    return size.x * size.y == shard.num_cores() and have == (down, across)


def _round_trip(spec: Spec, reps: Sequence[int]) -> bool:
    """Tiles that are not full cannot be repeated in place: the tensor is untilized and tilized again."""
    ragged = spec.layout is Layout.TILE and (spec.shape[-1] % TILE_SIZE or spec.shape[-2] % TILE_SIZE)
    again = bool(ragged) and (reps[-1] > 1 or reps[-2] > 1)
    fatal(not again or spec.dtype is not DataType.BFLOAT4_B, "Only TILE layout is supported for BFLOAT8_B dtype!")
    return again


class _Legs:
    """One repeat after another: of which dimensions, in what order, through which memories."""

    def __init__(self, spec: Spec, reps: Sequence[int], target: MemoryConfig) -> None:
        rank = len(spec.shape)
        own = spec.memory_config
        self.round_trip = _round_trip(spec, reps)
        self.unshards = own.is_sharded() and (self.round_trip or not _whole_pages(own, spec.shape, spec.layout))
        self.between = interleaved_in(BufferType.DRAM if self.unshards else own.buffer_type)
        tiles = spec.layout is Layout.TILE and not self.round_trip
        self.reps = list(reps)
        for d in range(rank - (3 if tiles else 2)):
            if spec.shape[d] == 1 and self.reps[d] > 1 and self.reps[d + 1] > 1:
                self.reps[d + 1] *= self.reps[d]
                self.reps[d] = 1
        order = range(rank) if tiles else range(rank - 1, -1, -1)
        self.dims = [d for d in order if self.reps[d] > 1]
        self.row_major = not tiles
        out = _product_shape(spec.shape, reps)
        in_place = not self.round_trip and _whole_pages(target, out, spec.layout)
        self.final = target if in_place else interleaved_in(target.buffer_type)


def _bank_bytes(planner: Planner, spec: Spec) -> int:
    """Bytes per core that an L1 tensor takes."""
    if not spec.memory_config.is_l1():
        return 0
    page = aligned_page(planner.card, spec)
    return page * (spec.shard_pages if spec.is_sharded else div_up(spec.num_pages, planner.card.cores))


def _generated(planner: Planner, spec: Spec, reps: Sequence[int], target: MemoryConfig) -> bool:
    rank = len(spec.shape)
    if not 2 <= rank <= 4 or lacks_shards(target) or _demoted(spec, reps, target):
        return False
    round_trip = _round_trip(spec, reps)
    if spec.layout is Layout.TILE and not round_trip:
        return True
    if spec.dtype is DataType.BFLOAT8_B:
        return False
    limit = planner.card.l1_size - planner.card.l1_base
    if spec.memory_config.is_dram() and target.is_dram():
        slot = round_up(spec.shape[-1] * reps[-1] * spec.dtype.element_bytes, planner.card.dram_alignment)
        fits = 2 * slot <= limit
    else:
        taken = _bank_bytes(planner, spec)
        fits = _legs_fit(
            planner, spec, reps, target, taken, lambda slot, used: used < limit and 2 * slot <= limit - used
        )
    room = planner.program_l1()
    return fits and _legs_fit(
        planner,
        spec,
        reps,
        target,
        0,
        lambda slot, used: used < room and rows_in_flight(slot, room - used) is not None,
    )


def _legs_fit(planner: Planner, spec: Spec, reps: Sequence[int], target: MemoryConfig, taken: int, fits: Any) -> bool:
    legs = _Legs(spec, reps, target)
    if not legs.row_major:
        return True
    source = Spec(spec.shape, spec.dtype, Layout.ROW_MAJOR, spec.memory_config) if not legs.unshards else None
    if source is None or legs.round_trip:
        config = legs.between if legs.round_trip else DRAM_MEMORY_CONFIG
        source = Spec(spec.shape, spec.dtype, Layout.ROW_MAJOR, config)
        if legs.round_trip:
            taken += _bank_bytes(planner, source)
    for i, d in enumerate(legs.dims):
        config = legs.final if i + 1 == len(legs.dims) else legs.between
        made = Spec(repeated(source.shape, d, legs.reps[d]), spec.dtype, Layout.ROW_MAJOR, config)
        taken += _bank_bytes(planner, made)
        if not fits(max(aligned_page(planner.card, source), aligned_page(planner.card, made)), taken):
            return False
        source = made
    return True


def _demoted(spec: Spec, reps: Sequence[int], target: MemoryConfig) -> bool:
    """Cases that the library found to be quicker with the older program."""
    own = spec.memory_config
    if not own.is_sharded() or own.shard_spec is None:
        return False
    size = own.shard_spec.grid.bounding_box().grid_size()
    row_major = spec.layout is Layout.ROW_MAJOR
    whole = _whole_pages(own, spec.shape, spec.layout)
    high_in_l1 = own.memory_layout is HEIGHT and own.is_l1()
    last_alone = all(r == 1 for r in reps[:-1]) and reps[-1] != 1
    if row_major and high_in_l1 and target.memory_layout is HEIGHT and whole and last_alone and size.x > size.y:
        return True
    single = _single(reps)
    if row_major and not whole and single is not None and stays_on_cores(spec, target, *single):
        return True
    if not high_in_l1 or len(spec.shape) < 3 or (row_major and target != L1_INTERLEAVED):
        return False
    legs = _Legs(spec, reps, target)
    if legs.unshards or legs.round_trip or not legs.dims or legs.dims[0] + 2 >= len(spec.shape):
        return False
    return size.y == 1 and size.x >= 8


def _through_generated(planner: Planner, x: Slot, reps: Sequence[int], target: MemoryConfig) -> Slot:
    spec = x.spec
    legs = _Legs(spec, reps, target)
    scope = Temporaries(planner)
    current = x
    if legs.unshards:
        current = scope.replace(current, plan_to_memory_config(planner, current, DRAM_MEMORY_CONFIG))
    if legs.round_trip:
        current = scope.replace(current, plan_untilize(planner, current, None))
    for i, d in enumerate(legs.dims):
        config = legs.final if i + 1 == len(legs.dims) else legs.between
        extra = 4 - len(spec.shape)
        shape = current.spec.shape
        four = plan_checked_view(planner, current, shape.to_rank(4)) if extra else current
        made = plan_generated_repeat(planner, four, d + extra, legs.reps[d], config)
        after = plan_checked_view(planner, made, repeated(shape, d, legs.reps[d])) if extra else made
        current = scope.replace(current, after)
    out = _product_shape(spec.shape, reps)
    if current.spec.shape != out:
        current = plan_checked_view(planner, current, out)
    if legs.round_trip:
        current = scope.replace(current, plan_to_layout(planner, current, Layout.TILE, None, None))
    if current.spec.memory_config != target:
        current = scope.replace(current, plan_to_memory_config(planner, current, target))
    scope.leave(current)
    return current


# --- the older program ------------------------------------------------------------------------------------------


def _full_tiles(spec: Spec) -> bool:
    return (
        spec.layout is Layout.TILE
        and len(spec.shape) >= 2
        and spec.shape[-1] % TILE_SIZE == 0
        and spec.shape[-2] % TILE_SIZE == 0
    )


def _through_native(planner: Planner, x: Slot, reps: Sequence[int], target: MemoryConfig) -> Slot:
    spec = x.spec
    scope = Temporaries(planner)
    single = _single(reps)
    on_cores = spec.is_sharded and single is not None and stays_on_cores(spec, target, *single)
    current, config = x, target
    if not on_cores:
        if spec.is_sharded:
            current = scope.replace(current, plan_to_memory_config(planner, current, L1_INTERLEAVED))
        if config.is_sharded():
            config = interleaved_in(config.buffer_type)
    if not _full_tiles(current.spec) and spec.layout is Layout.TILE:
        current = scope.replace(current, plan_to_layout(planner, current, Layout.ROW_MAJOR, None, None))
    for d in range(len(reps) - 1, -1, -1):
        if reps[d] == 1:
            continue
        shape = current.spec.shape
        if current.spec.layout is Layout.TILE:
            made = plan_native_repeat(planner, current, d, reps[d], config)
        else:
            made = _native_rows(planner, current, d, reps[d], config)
        current = scope.replace(current, plan_checked_view(planner, made, repeated(shape, d, reps[d])))
    if current.spec.layout is not spec.layout:
        current = scope.replace(current, plan_to_layout(planner, current, spec.layout, spec.dtype, None))
    if not on_cores and target.is_sharded():
        final = target
        if lacks_shards(final):
            made_shards = _whole_grid_shards(planner, current.spec, current.spec.padded_shape, final)
            if made_shards is None:
                scope.leave(current)
                return current
            final = final.with_shard_spec(made_shards)
        current = scope.replace(current, plan_interleaved_to_sharded(planner, current, final))
    scope.leave(current)
    return current


def _native_rows(planner: Planner, x: Slot, dim: int, times: int, config: MemoryConfig) -> Slot:
    """Row-major tensors are seen as [rows, columns], or as what is above and below the dimension."""
    shape = tuple(x.spec.shape)
    if dim == len(shape) - 1:
        flat = Shape([prod(shape[:-1]), shape[-1]])
        return plan_native_repeat(planner, plan_checked_view(planner, x, flat), 1, times, config)
    flat = Shape([prod(shape[:dim]), shape[dim], prod(shape[dim + 1 : -1]), shape[-1]])
    return plan_native_repeat(planner, plan_checked_view(planner, x, flat), 1, times, config)


@op("repeat")
class Repeat(Operation):
    """The tensor so many times along each dimension."""

    def arguments(
        self,
        input_tensor: Tensor,
        repeat_dims: Sequence[int],
        *,
        memory_config: MemoryConfig | None = None,
    ) -> Call:
        return Call([input_tensor], times=as_ints(repeat_dims), memory_config=memory_config)

    def plan(self, planner: Planner, x: Slot, times: tuple[int, ...], memory_config: MemoryConfig | None) -> list[Slot]:
        return [plan_repeat(planner, x, times, memory_config)]

    def numbers(self, context: Context, x: torch.Tensor, times: tuple[int, ...], **_: Any) -> list[torch.Tensor]:
        value = context.logical(x)
        return [context.store(value.repeat((1,) * (value.dim() - len(times)) + times))]
