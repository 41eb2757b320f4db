# SPDX-License-Identifier: Apache-2.0
"""ttnn.fill_implicit_tile_padding: a value written into the padding of a tiled tensor, in place."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.layout.moving import PagesProgram
from tt_cnn.virtual.ops.layout.relayout import extent, staging
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import Temporaries, cores_for
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_reshaping_view
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32, DataType.UINT16, DataType.UINT32, DataType.INT32)


@dataclass(frozen=True, kw_only=True)
class FillPadProgram(PagesProgram):
    """Tiles at the edges are read, filled and written back."""

    op: str = "FillPad"
    value: float


def plan_fill_padding(planner: Planner, x: Slot, value: float) -> Slot:
    spec = x.spec
    height, width = extent(spec.shape, 2), extent(spec.shape, 1)
    if height % TILE_SIZE == 0 and width % TILE_SIZE == 0:
        return x
    scope = Temporaries(planner)
    current = scope.add(plan_typecast(planner, x, DataType.BFLOAT16)) if spec.dtype.is_block_float else x
    if len(spec.shape) > 3 and not spec.is_sharded:
        flat = Shape([prod(tuple(spec.shape)[:-2]), height, width])
        _fill(planner, plan_reshaping_view(planner, current, flat, flat), value)
    else:
        _fill(planner, current, value)
    result = plan_typecast(planner, current, spec.dtype) if spec.dtype.is_block_float else current
    scope.leave(result)
    return result


def _fill(planner: Planner, x: Slot, value: float) -> None:
    spec = x.spec
    fatal(spec.layout is Layout.TILE, "FillPad should only be used for tile layout")
    fatal(spec.dtype in _DTYPES, f"Unsupported datatype {spec.dtype.native}")
    in_shards = spec.is_sharded and spec.memory_config.is_l1()
    factory = "FillPadL1ShardedProgramFactory" if in_shards else "FillPadProgramFactory"
    cores = _shard_cores(spec) if in_shards else cores_for(planner.card, _border_tiles(spec))
    right, bottom = extent(spec.shape, 1) % TILE_SIZE, extent(spec.shape, 2) % TILE_SIZE
    masks = {"right mask": 1} if right else {}
    masks |= {"bottom mask": 1} if bottom else {}
    sizes = {"input": 2, **masks, "output": 2}
    buffers = tuple(staging(count * spec.dtype.tile_bytes, cores, name=name) for name, count in sizes.items())
    planner.dispatch(FillPadProgram(factory=factory, cores=cores, buffers=buffers, value=value), [x], [x])


def _border_tiles(spec: Spec) -> int:
    """Tiles along the right and lower edges of all matrices."""
    height, width = extent(spec.shape, 2), extent(spec.shape, 1)
    rows, columns = div_up(height, TILE_SIZE), div_up(width, TILE_SIZE)
    right, bottom = width % TILE_SIZE != 0, height % TILE_SIZE != 0
    one = (rows if right else 0) + (columns if bottom else 0) - (1 if right and bottom else 0)
    return prod(tuple(spec.shape)[:-2]) * one


def _shard_cores(spec: Spec) -> CoreRangeSet:
    """Cores whose shard has valid tiles, one by one in the groups that get kernels of their own."""
    slices = prod(tuple(spec.shape)[:-2])
    fatal(slices == 1, f"FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported (got {slices})")
    return CoreRangeSet([CoreRange(core) for core in spec.cores_with_data.cores(spec.shard.row_wise)])


@op("fill_implicit_tile_padding")
class FillImplicitTilePadding(Operation):
    """The padding of a tiled tensor set to a value."""

    def arguments(self, input_tensor: Tensor, fill_value: float, *, memory_config: MemoryConfig | None = None) -> Call:
        return Call([input_tensor], fill_value=fill_value)

    def plan(self, planner: Planner, x: Slot, fill_value: float) -> list[Slot]:
        return [plan_fill_padding(planner, x, fill_value)]

    def numbers(self, context: Context, x: torch.Tensor, fill_value: float) -> list[torch.Tensor]:
        return [context.store(context.logical(x), fill=fill_value)]
