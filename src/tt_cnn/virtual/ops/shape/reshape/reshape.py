# SPDX-License-Identifier: Apache-2.0
"""ttnn.reshape: another shape of the same elements, a view where that is possible and a copy where it is not."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.layout.interleaved_to_sharded import plan_interleaved_to_sharded
from tt_cnn.virtual.ops.layout.relayout import extent
from tt_cnn.virtual.ops.layout.sharded_to_interleaved import plan_sharded_to_interleaved
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.program import plan_reshape_device
from tt_cnn.virtual.ops.shape.reshape.viewing import host_view, inferred, plan_reshaping_view, plan_view, tile_padded
from tt_cnn.virtual.ops.shape.shards import Dims, interleaved_in, lacks_shards
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, DataType, Layout, TileReshapeMapMode
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

ROW_BYTES = 64
"""Rows of row-major block shards are multiples of this (TT-NN's recommended shard alignment)."""


def plan_reshape(
    planner: Planner,
    x: Slot,
    logical: Shape,
    padded: Shape | None = None,
    config: MemoryConfig | None = None,
    pad_value: float | None = None,
) -> Slot:
    spec = x.spec
    padded = logical if padded is None else padded
    target = config or spec.memory_config
    same_shape = spec.shape == logical and spec.padded_shape == padded
    if same_shape and target == spec.memory_config:
        return x
    if spec.shape.volume() == 0:
        fatal(logical.volume() == 0, "Tensor volume is 0, but shape's volume is not")
        return plan_view(planner, x, logical, padded)
    fatal(logical.volume() != 0, "Tensor volume is not 0, but shape volume is 0")
    if same_shape and not lacks_shards(target):
        return plan_to_memory_config(planner, x, target)
    if _is_view(spec, logical, target):
        return plan_reshaping_view(planner, x, logical, padded)
    if logical.volume() != spec.shape.volume():
        fatal(
            spec.layout is Layout.TILE
            and len(padded) >= 2
            and padded[-2] % TILE_SIZE == 0
            and padded[-1] % TILE_SIZE == 0
            and spec.padded_shape[-1] == padded[-1],
            "Attempting to reshape between two shapes with different volumes",
        )
        return plan_view(planner, x, logical, padded)
    if spec.layout is Layout.ROW_MAJOR:
        return _row_major(planner, x, logical, padded, target)
    return _tiled(planner, x, logical, target, config is not None, pad_value)


def _is_view(spec: Spec, logical: Shape, target: MemoryConfig) -> bool:
    """The last dimension stays, and so does the memory; tiled tensors keep their rows in the same tiles."""
    before, after = extent(spec.shape, 2), extent(logical, 2)
    return (
        extent(spec.shape, 1) == extent(logical, 1)
        and target.is_sharded() == spec.is_sharded
        and target.is_l1() == spec.memory_config.is_l1()
        and (spec.layout is Layout.ROW_MAJOR or before == after or (before % TILE_SIZE == 0 and after % TILE_SIZE == 0))
    )


def _flat(shape: Shape) -> Shape:
    return Shape([prod(tuple(shape)[:-1]), shape[-1]])


def _row_major(planner: Planner, x: Slot, logical: Shape, padded: Shape, target: MemoryConfig) -> Slot:
    spec = x.spec
    scope = Temporaries(planner)
    current = plan_reshaping_view(planner, x, _flat(spec.shape), _flat(spec.padded_shape))
    if spec.is_sharded:
        config = interleaved_in(spec.memory_config.buffer_type)
        current = scope.add(plan_sharded_to_interleaved(planner, current, config))
    between = interleaved_in(target.buffer_type) if target.is_sharded() else target
    result = scope.add(plan_reshape_device(planner, current, _flat(logical), _flat(padded), between))
    if target.is_sharded():
        sharded = resharded(target, result.spec, False, spec.memory_config.shard_spec)
        if sharded.is_sharded():
            result = scope.add(plan_interleaved_to_sharded(planner, result, sharded))
    scope.leave(result)
    return plan_reshaping_view(planner, result, logical, padded)


def _three_dims(shape: Shape) -> Shape:
    dims = tuple(shape)
    return Shape((prod(dims[:-2]), *dims[-2:])) if len(dims) > 3 else shape.to_rank(3)


def _tiled(
    planner: Planner,
    x: Slot,
    logical: Shape,
    target: MemoryConfig,
    explicit: bool,
    pad_value: float | None,
) -> Slot:
    spec = x.spec
    scope = Temporaries(planner)
    before, after = _three_dims(spec.shape), _three_dims(logical)
    current = plan_reshaping_view(planner, x, before, tile_padded(before))
    block_float = spec.dtype.is_block_float
    made = target
    if target.is_sharded() and not block_float:
        whole = Spec(after, spec.dtype, spec.layout, interleaved_in(target.buffer_type))
        made = resharded(target, whole, explicit, spec.memory_config.shard_spec)
    if spec.is_sharded and target.is_sharded() and (block_float or not made.is_sharded()):
        config = interleaved_in(spec.memory_config.buffer_type)
        current = scope.add(plan_sharded_to_interleaved(planner, current, config))
    if block_float:
        current = scope.replace(current, plan_typecast(planner, current, DataType.BFLOAT16))
        made = interleaved_in(target.buffer_type) if target.is_sharded() else target
    output = scope.add(plan_reshape_device(planner, current, after, tile_padded(after), made))
    if (block_float or pad_value is not None) and (after[-1] % TILE_SIZE or after[-2] % TILE_SIZE):
        output = scope.replace(output, _filled(planner, output, pad_value or 0.0))
    if block_float:
        output = scope.replace(output, plan_typecast(planner, output, spec.dtype))
        if target.is_sharded():
            sharded = resharded(target, output.spec, explicit, spec.memory_config.shard_spec)
            if sharded.is_sharded():
                output = scope.replace(output, plan_interleaved_to_sharded(planner, output, sharded))
    scope.leave(output)
    return plan_reshaping_view(planner, output, logical, tile_padded(logical))


def _filled(planner: Planner, x: Slot, value: float) -> Slot:
    if not x.spec.is_sharded:
        return plan_fill_padding(planner, x, value)
    config = x.spec.memory_config
    scope = Temporaries(planner)
    whole = scope.add(plan_sharded_to_interleaved(planner, x, interleaved_in(config.buffer_type)))
    filled = scope.add(plan_fill_padding(planner, whole, value))
    result = plan_interleaved_to_sharded(planner, filled, config)
    scope.leave(result)
    return result


def resharded(target: MemoryConfig, spec: Spec, explicit: bool, source: ShardSpec | None) -> MemoryConfig:
    """Shards of the given layout on the same cores for the reshaped tensor; interleaved where none fit.

    TT-NN: `recompute_shard_spec_for_output`.
    """
    if target.shard_spec is None and source is not None:
        return resharded(target.with_shard_spec(source), spec, False, None)
    shard = target.shard_spec
    fatal(
        shard is not None,
        f"ttnn.reshape: sharded output memory_config (layout={target.memory_layout.native}) was supplied without a "
        "shard_spec, and no input_shard_spec is available (input is likely interleaved). Either provide a shard_spec "
        "on memory_config or omit memory_config to inherit it from the input tensor.",
    )
    assert shard is not None
    box = shard.grid.bounding_box()
    if box.size() != shard.num_cores():
        return interleaved_in(target.buffer_type)
    unit = TILE_SIZE if spec.layout is Layout.TILE else 1
    rows, columns = spec.physical
    if target.memory_layout is BLOCK:
        wide = unit if spec.layout is Layout.TILE else ROW_BYTES // spec.dtype.element_bytes
        return _reblocked(target, shard, box, rows, columns, unit, wide, explicit)
    cores = shard.num_cores()
    if target.memory_layout is HEIGHT:
        shape = [round_up(div_up(rows, cores), unit), round_up(columns, unit)]
        if shape[0] == rows:  # one shard holds it all, which TT-NN then calls width-sharded
            target = MemoryConfig(WIDTH, target.buffer_type)
    else:
        shape = [round_up(rows, unit), round_up(div_up(columns, cores), unit)]
    return target.with_shard_spec(ShardSpec(shard.grid, shape, shard.orientation))


def _reblocked(
    target: MemoryConfig,
    shard: ShardSpec,
    box: CoreRange,
    rows: int,
    columns: int,
    unit: int,
    wide: int,
    explicit: bool,
) -> MemoryConfig:
    size = box.grid_size()
    down, across = (size.y, size.x) if shard.row_wise else (size.x, size.y)
    height, width = shard.shape
    whole_units = height % unit == 0 and width % wide == 0
    if explicit and whole_units and down * height >= rows and across * width >= columns:
        return target
    ny, nx = _equal_parts(rows, down, unit), _equal_parts(columns, across, wide)
    if not ny or not nx:
        return interleaved_in(target.buffer_type)
    across, down = (nx, ny) if shard.row_wise else (ny, nx)
    grid = CoreRangeSet([CoreRange(box.start, (box.start.x + across - 1, box.start.y + down - 1))])
    return target.with_shard_spec(ShardSpec(grid, [rows // ny, columns // nx], shard.orientation))


def _equal_parts(extent_: int, most: int, unit: int) -> int:
    """The largest number of equal parts made of whole units, or 0."""
    return next((n for n in range(most, 0, -1) if extent_ % n == 0 and extent_ // n % unit == 0), 0)


@op("reshape")
class Reshape(Operation):
    """Another shape; one dimension may be -1. With two shapes, the logical and the padded one."""

    def arguments(
        self,
        input_tensor: Tensor,
        shape: Dims | None = None,
        padded_shape: Dims | None = None,
        *,
        logical_shape: Dims | None = None,
        memory_config: MemoryConfig | None = None,
        pad_value: float | None = None,
        reshape_tile_mode: TileReshapeMapMode = TileReshapeMapMode.CACHE,
        sub_core_grids: CoreRangeSet | None = None,
        skip_padding_fill: bool = False,
    ) -> Call:
        wanted = shape if shape is not None else logical_shape
        if wanted is None:
            raise TypeError("reshape needs a shape")
        logical = wanted if isinstance(wanted, Shape) else inferred(input_tensor.logical_volume(), wanted)
        return Call(
            [input_tensor],
            shape=logical,
            padded_shape=None if padded_shape is None else Shape(padded_shape),
            memory_config=memory_config,
            pad_value=None if skip_padding_fill else pad_value,
            cores=sub_core_grids,
        )

    def shortcut(self, call: Call) -> Any:
        (x,) = call.tensors
        return None if x._buffer is not None else host_view(x, call.attributes["shape"])

    def plan(
        self,
        planner: Planner,
        x: Slot,
        shape: Shape,
        padded_shape: Shape | None,
        memory_config: MemoryConfig | None,
        pad_value: float | None,
        cores: CoreRangeSet | None,
    ) -> list[Slot]:
        planner.workers = cores
        return [plan_reshape(planner, x, shape, padded_shape, memory_config, pad_value)]

    def numbers(
        self, context: Context, x: torch.Tensor, shape: Shape, pad_value: float | None, **_: Any
    ) -> list[torch.Tensor]:
        return [context.store(context.logical(x).reshape(tuple(shape)), fill=pad_value or 0.0)]
