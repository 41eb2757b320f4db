# SPDX-License-Identifier: Apache-2.0
"""ttnn.roll: elements shifted along dimensions, those that fall off the end coming back at the front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.moving import MovingPagesProgram
from tt_cnn.virtual.ops.layout.tilize import plan_tilize
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.layout.untilize import plan_untilize
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.concat import plan_concat
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class RollProgram(MovingPagesProgram):
    """Cores fetch their new rows and columns from each other."""

    op: str = "Roll"
    factory: str = "RollShardedProgramFactory"
    shift: int
    dim: int


def plan_roll(
    planner: Planner, x: Slot, shifts: Sequence[int], dims: Sequence[int], config: MemoryConfig | None = None
) -> Slot:
    """`shifts` are within the dimensions, `dims` counted from the front."""
    spec = x.spec
    target = config or spec.memory_config
    scope = Temporaries(planner)
    if not spec.is_sharded:
        current = x
        for shift, dim in zip(shifts, dims, strict=True):
            if shift:
                current = scope.replace(current, _rolled(planner, current, shift, dim))
        result = plan_to_memory_config(planner, current, target)
    elif any(shifts) and _has_padding(spec):
        whole = scope.add(plan_to_memory_config(planner, x, DRAM_MEMORY_CONFIG))
        result = plan_to_memory_config(planner, scope.add(plan_roll(planner, whole, shifts, dims)), target)
    elif spec.layout is Layout.TILE and _cuts_tiles(spec, shifts, dims):
        rows = scope.add(plan_untilize(planner, x, spec.memory_config))
        rolled = scope.add(plan_roll(planner, rows, shifts, dims))
        tiled = scope.add(plan_tilize(planner, rolled, spec.memory_config, spec.dtype))
        result = plan_to_memory_config(planner, tiled, target)
    else:
        current = x
        for shift, dim in zip(shifts, dims, strict=True):
            if shift:
                current = scope.replace(current, _rolled_shards(planner, current, shift, dim))
        result = plan_to_memory_config(planner, current, target)
    scope.add(result)
    scope.leave(result)
    return result


def _rolled(planner: Planner, x: Slot, shift: int, dim: int) -> Slot:
    """The two parts on either side of the cut, joined the other way round."""
    shape = list(x.spec.shape)
    begins, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    cut = shape[dim] - shift
    scope = Temporaries(planner)
    begins[dim] = cut
    last = scope.add(plan_slice(planner, x, begins, shape, steps))
    ends[dim] = cut
    first = scope.add(plan_slice(planner, x, [0] * len(shape), ends, steps))
    result = plan_concat(planner, [last, first], dim)
    scope.leave(result)
    return result


def _has_padding(spec: Spec) -> bool:
    rows, columns = spec.physical
    height, width = spec.shard.shape
    return spec.shape != spec.padded_shape or rows % height != 0 or columns % width != 0


def _cuts_tiles(spec: Spec, shifts: Sequence[int], dims: Sequence[int]) -> bool:
    rank = len(spec.shape)
    return any(dim >= rank - 2 and shift % TILE_SIZE for shift, dim in zip(shifts, dims, strict=True))


def _rolled_shards(planner: Planner, x: Slot, shift: int, dim: int) -> Slot:
    """For shards in L1; those in DRAM are staged otherwise."""
    spec = x.spec
    output = planner.allocate(Spec(spec.shape, spec.dtype, spec.layout, spec.memory_config))
    shard = spec.shard
    fatal(
        shard.grid.size() == 1,
        "Native sharded roll requires a single contiguous rectangular CoreRange",
    )
    word = planner.card.l1_alignment
    if spec.layout is Layout.TILE:
        row = shard.shape[1] // TILE_SIZE * spec.dtype.tile_bytes
        held = prod(shard.shape) // TILE_SIZE**2 * spec.dtype.tile_bytes
    else:
        row = round_up(shard.shape[1] * spec.dtype.element_bytes, word)
        held = shard.shape[0] * row
    buffers = (
        CircularBuffer(held, shard.grid, alias=x, name="input"),
        CircularBuffer(held, shard.grid, alias=output, name="output"),
        CircularBuffer(2 * (row + 2 * word), shard.grid, name="rows"),
    )
    planner.dispatch(RollProgram(cores=shard.grid, buffers=buffers, shift=shift, dim=dim), [x], [output])
    return output


@op("roll")
class Roll(Operation):
    """Shifted along the given dimensions; without any, as one long vector."""

    def arguments(
        self,
        input_tensor: Tensor,
        shifts: int | Sequence[int],
        dim: int | Sequence[int] | None = None,
        *,
        memory_config: MemoryConfig | None = None,
    ) -> Call:
        fatal(
            0 not in input_tensor.shape,
            f"ttnn.roll was given a tensor without elements, of shape {input_tensor.shape}",
            "  TT-NN ends the process here",
        )
        if dim is None:
            fatal(
                not input_tensor.is_sharded(),
                "ttnn::roll without dims does not support sharded inputs. Convert to interleaved first.",
            )
            moved = [shifts] if isinstance(shifts, int) else list(shifts)
            fatal(len(moved) == 1, f"Roll expects shifts {len(moved)} and dims 1 to have the same length")
            return Call([input_tensor], shifts=(int(moved[0]),), dims=None, memory_config=memory_config)
        moved = [shifts] if isinstance(shifts, int) else list(shifts)
        along = [dim] if isinstance(dim, int) else list(dim)
        fatal(
            len(moved) > 0 and len(moved) == len(along),
            f"Roll expects shifts {len(moved)} and dims {len(along)} to have the same length",
        )
        rank = len(input_tensor.shape)
        for one in along:
            fatal(
                -rank <= one < rank,
                f"Invalid dimension index {one}. The dimension must be within the range [{-rank}, {rank - 1}].",
            )
        inside = tuple(s % input_tensor.shape[d] for s, d in zip(moved, along, strict=True))
        return Call([input_tensor], shifts=inside, dims=tuple(d % rank for d in along), memory_config=memory_config)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        shifts: tuple[int, ...],
        dims: tuple[int, ...] | None,
        memory_config: MemoryConfig | None,
    ) -> list[Slot]:
        if dims is not None:
            return [plan_roll(planner, x, shifts, dims, memory_config)]
        scope = Temporaries(planner)
        length = x.spec.shape.volume()
        flat = scope.add(plan_reshape(planner, x, Shape([1, length])))
        rolled = scope.add(plan_roll(planner, flat, (shifts[0] % length,), (1,), memory_config))
        result = plan_reshape(planner, rolled, x.spec.shape)
        scope.leave(result)
        return [result]

    def numbers(
        self, context: Context, x: torch.Tensor, shifts: tuple[int, ...], dims: tuple[int, ...] | None, **_: Any
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        return [context.store(torch.roll(value, shifts[0]) if dims is None else torch.roll(value, shifts, dims))]
