"""`gather` and `scatter` along a dimension, and `embedding`."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.errors import ValuesError, fatal
from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import dealt, staging, tiles
from tt_cnn.virtual.ops.shape.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.transpose import plan_transpose
from tt_cnn.virtual.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_STAGED = 4


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
        sub_core_grids: Any = None,
    ) -> Call:
        return Call([input, index], dim=dim, memory_config=memory_config)

    def plan(self, planner: Planner, x: Slot, index: Slot, dim: int, memory_config: MemoryConfig | None) -> list[Slot]:
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
        scope = Temporaries(planner)
        if axis != rank - 1:
            index = scope.add(plan_transpose(planner, index, axis, rank - 1, index.spec.memory_config))
        index = scope.add(plan_fill_padding(planner, index, 0.0))
        if axis != rank - 1:
            x = scope.add(plan_transpose(planner, x, axis, rank - 1, x.spec.memory_config))
        out = planner.allocate(Spec(index.spec.shape, x.spec.dtype, x.spec.layout, config))
        matrices, rows, _ = tiles(index.spec)
        columns = tiles(x.spec)[2]
        cores = dealt(planner, matrices * rows)
        tile = x.spec.dtype.tile_bytes
        sizes = (columns * tile, index.spec.dtype.tile_bytes, _STAGED * tile)
        planner.step(
            "GatherCodegen",
            "GatherCodegenProgramFactoryInterleaved",
            cores,
            [x, index],
            [out],
            [CircularBuffer(size, cores) for size in sizes],
            {"dim": axis},
            traffic([x.spec, index.spec], [out.spec], 0),
        )
        if axis != rank - 1:
            scope.add(out)
            out = scope.add(plan_transpose(planner, out, axis, rank - 1, config))
        scope.leave(out)
        return [out]

    def numbers(self, context: Context, x: torch.Tensor, index: torch.Tensor, dim: int, **_: Any) -> list[torch.Tensor]:
        value = context.logical(x)
        where = checked_indices(context.logical(index, 1), value.shape[dim], "gather")
        return [context.store(torch.gather(value, dim, where))]


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
        sub_core_grids: Any = None,
    ) -> Call:
        if reduce is not None:
            raise NotImplementedError("the virtual card has no ttnn.scatter(reduce=)")
        return Call([input, index, src], dim=dim, memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, index: Slot, source: Slot, dim: int, memory_config: MemoryConfig | None
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
        cores = dealt(planner, x.spec.physical[0])
        planner.step(
            "Scatter",
            "ScatterProgramFactory",
            cores,
            [x, index, source],
            [out],
            staging(planner, [x.spec.page_bytes], cores),
            {"dim": axis},
            traffic([x.spec, index.spec, source.spec], [out.spec], 0),
        )
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
        return [context.store(context.logical(x).scatter(dim, where, values))]


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


@op("embedding")
class Embedding(Operation):
    """Rows of a table by their numbers."""

    def arguments(
        self,
        input_tensor: Tensor,
        weight: Tensor,
        *,
        padding_idx: int | None = None,
        layout: Any = None,
        embeddings_type: Any = None,
        dtype: Any = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
    ) -> Call:
        return Call([input_tensor, weight], layout=layout, dtype=dtype, memory_config=memory_config)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        table: Slot,
        layout: Layout | None,
        dtype: DataType | None,
        memory_config: MemoryConfig | None,
    ) -> list[Slot]:
        target = layout or table.spec.layout
        shape = Shape((*x.spec.shape, table.spec.shape[-1]))
        config = memory_config or x.spec.memory_config
        out = planner.allocate(Spec(shape, dtype or table.spec.dtype, target, config))
        rows = x.spec.shape.volume()
        if target is Layout.TILE:
            columns = tiles(out.spec)[2]
            cores = dealt(planner, max(1, rows // TILE_SIZE))
            sizes = [2 * columns * table.spec.dtype.tile_bytes, 2 * columns * out.spec.dtype.tile_bytes]
            factory = "EmbeddingsFusedProgramFactory"
        else:
            cores = dealt(planner, rows)
            sizes = [table.spec.page_bytes * (2 if rows > planner.card.cores else 1)]
            factory = "EmbeddingsRMProgramFactory"
        planner.step(
            "Embeddings",
            factory,
            cores,
            [x, table],
            [out],
            staging(planner, sizes, cores),
            None,
            traffic([x.spec], [out.spec], 0),
        )
        return [out]

    def numbers(self, context: Context, x: torch.Tensor, table: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        rows = context.logical(table, 1).reshape(-1, context.inputs[1].shape[-1])
        return [context.store(rows[checked_indices(context.logical(x), len(rows), "embedding")])]


def checked_indices(indices: torch.Tensor, count: int, op: str) -> torch.Tensor:
    """Row numbers that are there. A card goes wherever they point to; here the queue tells, when it sees the values."""
    whole = indices.to(torch.int64)
    if whole.numel() and not (int(whole.min()) >= 0 and int(whole.max()) < count):
        raise ValuesError(
            f"ttnn.{op} was given indices from {int(whole.min())} to {int(whole.max())} for {count} rows.",
            "  a card would use whatever lies there in its memory",
        )
    return whole
