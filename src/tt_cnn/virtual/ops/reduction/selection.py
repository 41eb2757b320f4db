"""`argmax` and `topk`."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.errors import fatal
from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.generic import reduced_shape
from tt_cnn.virtual.ops.reduction.units import dealt, staging, tiles
from tt_cnn.virtual.ops.shape.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.transpose import plan_transpose
from tt_cnn.virtual.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.storage import CARRIER
from tt_cnn.virtual.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreCoord, CoreRangeSet, Shape, div_up, num_cores_to_corerangeset, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_INDEX_BYTES = 4
_CHUNK = 16
"""Elements of a row that a core searches at least."""
_ALIGNED = 32


@op("argmax")
class ArgMax(Operation):
    """Where the largest element of a dimension is, or of all elements."""

    def arguments(
        self,
        input_tensor: Tensor,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        sub_core_grids: Any = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        enable_secondary_dm: bool | None = None,
    ) -> Call:
        return Call([input_tensor], dim=dim, keepdim=keepdim, memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, dim: int | None, keepdim: bool, memory_config: MemoryConfig | None
    ) -> list[Slot]:
        spec = x.spec
        tiled = spec.layout is Layout.TILE
        fatal(
            not spec.is_sharded,
            f"Only INTERLEAVED memory layout is supported for inputs, got {spec.memory_config.memory_layout.native}",
        )
        if tiled:
            fatal(
                spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32),
                f"Only BFLOAT16, FLOAT32 are supported for inputs with TILE layout, got {spec.dtype.native}",
            )
            fatal(dim is not None, "For inputs with TILE layout, dim parameter must be specified!")
        rank = len(spec.shape)
        axis = None if dim is None else dim + rank if dim < 0 else dim
        fatal(
            axis is None or 0 <= axis < rank,
            f"Invalid dim: {dim}. Dimension must be between {-rank} and {rank - 1}",
        )
        dims = tuple(range(rank)) if axis is None else (axis,)
        shape = reduced_shape(spec.shape, dims, keepdim and axis is not None)
        config = memory_config or spec.memory_config
        scope = Temporaries(planner)
        if axis is not None and axis < rank - 1 and not tiled:
            x = scope.add(plan_to_layout(planner, x, Layout.TILE, None, None))
            tiled = True
        if axis is not None and axis < rank - 2:
            out = self._leading(planner, scope, x, axis, keepdim, config)
        else:
            out = planner.allocate(Spec(shape, DataType.UINT32, Layout.ROW_MAJOR, config))
            self._search(planner, x, out, tiled)
        scope.leave(out)
        return [out]

    def _search(self, planner: Planner, x: Slot, out: Slot, tiled: bool) -> None:
        work = traffic([x.spec], [out.spec], x.spec.volume)
        if tiled:
            cores = dealt(planner, 1)
            sizes = [x.spec.dtype.tile_bytes]
            factory = "ArgMaxSingleCoreProgramFactory"
        else:
            cores, sizes = _row_search(planner, x.spec, out.spec)
            factory = "ArgMaxMultiCoreProgramFactory"
        planner.step("ArgMax", factory, cores, [x], [out], staging(planner, sizes, cores), None, work)

    def _leading(
        self, planner: Planner, scope: Temporaries, x: Slot, axis: int, keepdim: bool, config: MemoryConfig
    ) -> Slot:
        shape = reduced_shape(x.spec.shape, (axis,), keepdim)
        found = scope.add(planner.allocate(Spec(shape, DataType.UINT32, Layout.TILE, config)))
        units = found.spec.num_pages
        grid = CoreCoord(*planner.card.grid)
        cores = num_cores_to_corerangeset(min(units, planner.card.cores), grid, True)
        buffers = [
            CircularBuffer(2 * x.spec.dtype.tile_bytes, cores),
            CircularBuffer(2 * DataType.UINT32.tile_bytes, cores),
        ]
        work = traffic([x.spec], [found.spec], x.spec.volume)
        planner.step("ArgMaxNC", "DirectDescriptorFactory", cores, [x], [found], buffers, {"dim": axis}, work)
        return plan_to_layout(planner, found, Layout.ROW_MAJOR, None, None)

    def numbers(
        self, context: Context, x: torch.Tensor, dim: int | None, keepdim: bool, **_: Any
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        found = value.flatten().argmax() if dim is None else value.argmax(dim, keepdim=keepdim)
        out = context.outputs[0]
        return [context.store(found.reshape(tuple(out.shape)).to(CARRIER[out.dtype]))]


def _row_search(planner: Planner, x: Spec, out: Spec) -> tuple[CoreRangeSet, list[int]]:
    """Rows are cut into pieces, one a core; indices and values of all pieces are brought together."""
    width = x.shape[-1] if len(out.shape) else _CHUNK
    cores = min(planner.card.cores, div_up(width, _CHUNK))
    piece = round_up(div_up(width, cores), _CHUNK) * x.dtype.element_bytes
    results = out.shape[-1] if len(out.shape) else 1
    indices = round_up(results * _INDEX_BYTES, _ALIGNED)
    values = round_up(results * x.dtype.element_bytes, _ALIGNED)
    sizes = [piece * (1 if results == 1 else 2), indices, cores * indices, cores * values]
    return dealt(planner, cores), sizes


@op("topk")
class TopK(Operation):
    """The k largest (or smallest) elements of a dimension, sorted, and where they are."""

    single = False

    def arguments(
        self,
        input_tensor: Tensor,
        k: int = 32,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = True,
        *,
        memory_config: Any = None,
        sub_core_grids: Any = None,
        indices_tensor: Tensor | None = None,
        output_tensor: Any = None,
        stable: bool = False,
    ) -> Call:
        return Call([input_tensor], k=k, dim=dim, largest=largest, memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, k: int, dim: int, largest: bool, memory_config: MemoryConfig | None
    ) -> list[Slot]:
        spec = x.spec
        config = memory_config or spec.memory_config
        rank = len(spec.shape)
        axis = dim + rank if dim < 0 else dim
        fatal(
            0 <= axis < rank, f"Dimension out of range (expected to be in range of [{-rank},{rank - 1}], but got {dim})"
        )
        fatal(not config.is_sharded(), "Sharded implementation not supported yet")
        fatal(spec.layout is Layout.TILE, "The input must be in tiled format")
        fatal(
            0 < k <= spec.shape[axis],
            f"K cannot be larger than the dimension size. K={k}, dimension size={spec.shape[axis]}",
        )
        scope = Temporaries(planner)
        current = x
        if axis != rank - 1:
            current = scope.add(plan_transpose(planner, x, axis, rank - 1, config))
        current = scope.add(plan_fill_padding(planner, current, float("-inf") if largest else float("inf")))
        shape = [*tuple(current.spec.shape)[:-1], k]
        index = DataType.UINT16 if current.spec.padded_shape[-1] < 65536 else DataType.UINT32
        values = planner.allocate(Spec(Shape(shape), spec.dtype, Layout.TILE, config))
        indices = planner.allocate(Spec(Shape(shape), index, Layout.TILE, config))
        matrices, rows, _ = tiles(current.spec)
        grid = CoreCoord(*planner.card.grid)
        cores = num_cores_to_corerangeset(min(matrices * rows, planner.card.cores), grid, True)
        count, wide, tile = div_up(k, 32), index.tile_bytes, spec.dtype.tile_bytes
        kept = DataType.BFLOAT16.tile_bytes
        sizes = [2 * tile, 2 * wide, 4 * kept, 4 * wide, 2 * count * kept, 2 * count * wide, count * tile, count * wide]
        planner.step(
            "TopK",
            "TopKSingleCoreProgramFactory",
            cores,
            [current],
            [values, indices],
            staging(planner, sizes, cores),
            {"k": k, "largest": largest},
            traffic([spec], [values.spec, indices.spec], spec.volume),
        )
        outputs = [values, indices]
        if axis != rank - 1:
            outputs = [scope.add(plan_transpose(planner, scope.add(s), axis, rank - 1, config)) for s in outputs]
        scope.leave(*outputs)
        return outputs

    def numbers(
        self, context: Context, x: torch.Tensor, k: int, dim: int, largest: bool, **_: Any
    ) -> list[torch.Tensor]:
        values, indices = context.logical(x).topk(k, dim, largest=largest, sorted=True)
        return [
            context.store(values, 0),
            context.store(indices.to(CARRIER[context.outputs[1].dtype]), 1),
        ]
