# SPDX-License-Identifier: Apache-2.0
"""`gather` and `scatter` along a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed, warn_unwritten
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.indexing.indices import checked_indices
from tt_cnn.virtual.ops.layout.moving import MovingPagesProgram
from tt_cnn.virtual.ops.layout.relayout import scratchpad, staging
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import cores_for_work, tiles
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_STAGED = 4


@dataclass(frozen=True, kw_only=True)
class GatherProgram(MovingPagesProgram):
    op: str = "GatherCodegen"
    dim: int


@dataclass(frozen=True, kw_only=True)
class ScatterProgram(GatherProgram):
    op: str = "Scatter"
    factory: str = "ScatterProgramFactory"


def _axis(dim: int, rank: int) -> int:
    fatal(
        -rank <= dim < rank,
        f"dim must follow the condition -input_rank <= dim < input_rank (dim: {dim}, rank: {rank}).",
    )
    return dim % rank


@op("gather")
class Gather(Operation):
    """out[..., i] = input[..., index[..., i]]"""

    def arguments(
        self,
        input: Tensor,
        dim: int,
        index: Tensor,
        *,
        sparse_grad: bool = False,
        memory_config: Any = None,
        out: Tensor | None = None,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        fatal(not sparse_grad, "gather_codegen: sparse gradient is not supported.")
        if out is not None and dim % max(1, len(input.shape)) != len(input.shape) - 1:
            warn_unwritten(self.name, "out", "for another dimension than the last")
        tensors = [input, index] if out is None else [input, index, out]
        return Call(tensors, dim=dim, memory_config=memory_config, cores=sub_core_grids)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        index: Slot,
        *out: Slot,
        dim: int,
        memory_config: MemoryConfig | None,
        cores: CoreRangeSet | None,
    ) -> list[Slot]:
        rank = len(x.spec.shape)
        fatal(
            rank == len(index.spec.shape),
            f"Input and index tensor must have the same number of dimensions. Got input dim: {rank} and index dim: "
            f"{len(index.spec.shape)}",
        )
        axis = _axis(dim, rank)
        fatal(
            index.spec.dtype in (DataType.UINT32, DataType.UINT16),
            f"gather_codegen: index tensor must be of type UINT32 or UINT16. Got: {index.spec.dtype.native}",
        )
        config = memory_config or x.spec.memory_config
        scope, given = Temporaries(planner), list(out)
        if axis != rank - 1:
            index = scope.add(plan_transpose(planner, index, axis, rank - 1, index.spec.memory_config))
        index = scope.add(plan_fill_padding(planner, index, 0.0))
        if axis != rank - 1:
            x, *given = (_turned(planner, scope, slot, axis) for slot in (x, *given))
        result = given[0] if given else planner.allocate(Spec(index.spec.shape, x.spec.dtype, x.spec.layout, config))
        _check_gathered(result.spec, x.spec, index.spec)
        matrices, rows, wide = tiles(index.spec)
        columns = tiles(x.spec)[2]
        tiled = wide > 1 and matrices * rows < (planner.grid if cores is None else cores).num_cores()
        used = cores_for_work(planner, matrices * rows * (wide if tiled else 1), grid=cores)
        tile = x.spec.dtype.tile_bytes
        program = GatherProgram(
            factory=f"GatherCodegenProgramFactory{'Tiled' if tiled else 'Interleaved'}",
            cores=used,
            buffers=(
                CircularBuffer(columns * tile, used, name="input"),
                CircularBuffer(index.spec.dtype.tile_bytes, used, name="indices"),
                CircularBuffer(max(_STAGED, wide) * tile, used, name="output"),
            ),
            dim=axis,
        )
        planner.dispatch(program, [x, index], [result])
        if axis != rank - 1:
            scope.add(result)
            result = scope.add(plan_transpose(planner, result, axis, rank - 1, config))
        scope.leave(result)
        return [result]

    def numbers(
        self, context: Context, x: torch.Tensor, index: torch.Tensor, *_: torch.Tensor, dim: int, **__: Any
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        where = checked_indices(context.logical(index, 1), value.shape[dim], "gather")
        return [context.store(torch.gather(value, dim, where))]


def _turned(planner: Planner, scope: Temporaries, x: Slot, axis: int) -> Slot:
    """The dimension as the last one, with zeros in the padding that it has there."""
    turned = scope.add(plan_transpose(planner, x, axis, len(x.spec.shape) - 1, x.spec.memory_config))
    return scope.add(plan_fill_padding(planner, turned, 0.0))


def _check_gathered(out: Spec, x: Spec, index: Spec) -> None:
    fatal(
        out.shape == index.shape,
        "gather_codegen: output tensor shape must be the same as index tensor shape. Got output tensor shape: "
        f"{out.shape} and index tensor shape: {index.shape}",
    )
    fatal(
        out.dtype is x.dtype and out.layout is x.layout,
        f"gather is planned with an output of the input's dtype and layout ({x.dtype.native}, {x.layout.native}) on "
        f"this card, got {out.dtype.native}, {out.layout.native}.",
    )


@op("scatter")
class Scatter(Operation):
    """A copy of the input with out[..., index[..., i]] = src[..., i]; tiled tensors go through row-major ones."""

    def arguments(
        self,
        input: Tensor,
        dim: int,
        index: Tensor,
        src: Tensor,
        *,
        memory_config: Any = None,
        reduce: str | None = None,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        refuse_unfollowed(self.name, reduce=reduce)
        return Call([input, index, src], dim=dim, memory_config=memory_config, grid=sub_core_grids)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        index: Slot,
        source: Slot,
        dim: int,
        memory_config: MemoryConfig | None,
        grid: CoreRangeSet | None,
    ) -> list[Slot]:
        rank = len(x.spec.shape)
        axis = _axis(dim, rank)
        _check_scatter(x.spec, index.spec, source.spec, axis)
        config = memory_config or x.spec.memory_config
        scope = Temporaries(planner)
        layout = x.spec.layout
        x, index, source = (
            scope.add(plan_to_layout(planner, slot, Layout.ROW_MAJOR, None, None)) for slot in (x, index, source)
        )
        if axis != rank - 1:
            x, index, source = (scope.add(plan_transpose(planner, slot, axis, rank - 1)) for slot in (x, index, source))
        out = planner.allocate(x.spec.with_(memory_config=config))
        cores = cores_for_work(planner, x.spec.physical[0], grid=grid)
        rows = {"input": x, "indices": index, "source": source}
        buffers = (
            staging(x.spec.page_bytes, cores, name="output"),
            *(scratchpad(slot.spec.page_bytes, cores, name) for name, slot in rows.items()),
        )
        planner.dispatch(ScatterProgram(cores=cores, buffers=buffers, dim=axis), list(rows.values()), [out])
        if axis != rank - 1:
            out = scope.add(plan_transpose(planner, scope.add(out), axis, rank - 1))
        if layout is Layout.TILE:
            out = scope.add(plan_to_layout(planner, scope.add(out), Layout.TILE, None, None))
        scope.leave(out)
        return [out]

    def numbers(
        self, context: Context, x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, dim: int, **_: Any
    ) -> list[torch.Tensor]:
        where = checked_indices(context.logical(index, 1), context.inputs[0].shape[dim], "scatter")
        values = context.logical(source, 2)[tuple(slice(0, size) for size in where.shape)]
        return [context.store(_scattered(context.logical(x), dim, where, values))]


def _scattered(x: torch.Tensor, dim: int, where: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Of the values for one place the last one stays: the kernel writes them in their order. A GPU would choose any."""
    shape = [1] * x.dim()
    shape[dim] = -1
    order = torch.arange(where.shape[dim], device=where.device).reshape(shape).expand(where.shape)
    last = torch.full(x.shape, -1, device=where.device).scatter_reduce(dim, where, order, "amax")
    chosen = torch.zeros_like(x)
    part = tuple(slice(0, size) if i != dim % x.dim() else slice(None) for i, size in enumerate(where.shape))
    chosen[part] = values.gather(dim, last[part].clamp(min=0))
    return torch.where(last >= 0, chosen, x)


def _check_scatter(x: Spec, index: Spec, source: Spec, axis: int) -> None:
    rank = len(x.shape)
    for name, spec in (("index", index), ("source", source)):
        found = len(spec.shape)
        fatal(
            found == rank,
            f"input_rank must be equal to {name}_rank (input_rank == {rank}, {name}_rank == {found})",
        )
    for dim in range(rank):
        fatal(
            dim == axis or index.shape[dim] <= x.shape[dim],
            f"index_shape[{dim}] <= input_shape[{dim}] == false (index_shape: {index.shape}, input_shape: {x.shape})",
        )
        fatal(
            index.shape[dim] <= source.shape[dim],
            f"index_shape[{dim}] <= source_shape[{dim}] == false (index_shape: {index.shape}, source_shape: "
            f"{source.shape})",
        )
    fatal(
        x.dtype is source.dtype,
        f"input_dtype differs from src_dtype (input_dtype: {x.dtype.name}, src_dtype: {source.dtype.name}).",
    )
    fatal(not index.dtype.is_float, f"index_dtype is not integer, it is {index.dtype.name}.")
