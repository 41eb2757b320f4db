"""`argmax`."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.layout.relayout import scratchpad
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.checks import check_not_empty
from tt_cnn.virtual.ops.reduction.generic import reduced_shape
from tt_cnn.virtual.ops.reduction.units import dealt, staging
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import (
    CoreCoord,
    CoreRangeSet,
    cores_to_ranges,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_INDEX_BYTES = 4
_WORD = 32
_POWERS = [2**n for n in range(16)]


@op("argmax")
class ArgMax(Operation):
    """Where the largest element of a dimension is, or of all elements."""

    def arguments(
        self,
        input_tensor: Tensor,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        sub_core_grids: CoreRangeSet | None = None,
        memory_config: Any = None,
        output_tensor: Tensor | None = None,
        enable_secondary_dm: bool | None = None,
    ) -> Call:
        tensors = [input_tensor] if output_tensor is None else [input_tensor, output_tensor]
        return Call(
            tensors,
            dim=dim,
            keepdim=keepdim,
            memory_config=memory_config,
            grid=sub_core_grids,
            two_readers=enable_secondary_dm,
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *given: Slot,
        dim: int | None,
        keepdim: bool,
        memory_config: MemoryConfig | None,
        grid: CoreRangeSet | None,
        two_readers: bool | None,
    ) -> list[Slot]:
        spec = x.spec
        tiled = spec.layout is Layout.TILE
        rank = len(spec.shape)
        axis = None if dim is None else dim + rank if dim < 0 else dim
        fatal(
            axis is None or 0 <= axis < rank,
            f"Invalid dim: {dim}. Dimension must be between {-rank} and {rank - 1}",
        )
        dims = tuple(range(rank)) if axis is None else (axis,)
        config = memory_config or spec.memory_config
        found = Spec(reduced_shape(spec.shape, dims, keepdim), DataType.UINT32, Layout.ROW_MAJOR, config)
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
        check_not_empty(spec.shape, range(rank) if axis is None else (axis,))
        scope = Temporaries(planner)
        if axis is not None and axis < rank - 1 and not tiled:
            x = scope.add(plan_to_layout(planner, x, Layout.TILE, None, None))
            tiled = True
        if axis is not None and axis < rank - 2:
            out = self._leading(planner, scope, x, axis, keepdim, config)
            if given:
                scope.add(out)
                out = plan_copy(planner, out, given[0].spec.memory_config, None, given[0])
        else:
            if given:
                _check_given(given[0].spec, found)
            out = given[0] if given else planner.allocate(found)
            self._search(planner, x, out, tiled, 1 if axis is None or keepdim else None, grid, two_readers)
        scope.leave(out)
        return [out]

    def _search(
        self,
        planner: Planner,
        x: Slot,
        out: Slot,
        tiled: bool,
        results: int | None,
        grid: CoreRangeSet | None,
        two_readers: bool | None,
    ) -> None:
        """`results`: of a row of the output, where that is known; `grid` is not looked at for tiles (recorded)."""
        work = traffic([x.spec], [out.spec], x.spec.volume)
        if tiled:
            cores = dealt(planner, 1)
            buffers = [*staging(planner, [x.spec.dtype.tile_bytes], cores), scratchpad(out.spec.page_bytes, cores)]
            factory = "ArgMaxSingleCoreProgramFactory"
        else:
            rows = x.spec.padded_shape[-2] if len(x.spec.shape) > 1 else 1
            inner = rows if results is None else results
            fatal(
                inner > 1 or not two_readers,
                "enable_secondary_dm needs at least two output rows; reduce_all, keepdim=True and rank < 2 leave one",
            )
            pieces = 1 if inner == 1 or two_readers is False else 2
            cores, buffers = _row_search(planner, x.spec, inner, pieces, grid)
            factory = "ArgMaxMultiCoreProgramFactory"
        planner.step("ArgMax", factory, cores, [x], [out], buffers, None, work)

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
        self, context: Context, x: torch.Tensor, *_: torch.Tensor, dim: int | None, keepdim: bool, **__: Any
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        found = value.flatten().argmax() if dim is None else value.argmax(dim, keepdim=keepdim)
        out = context.outputs[0]
        return [context.store(found.reshape(tuple(out.shape)).to(CARRIER[out.dtype]))]


def _check_given(given: Spec, wanted: Spec) -> None:
    fatal(given.dtype is DataType.UINT32, f"Only UINT32 is supported for outputs, got {given.dtype.native}")
    fatal(given.layout is Layout.ROW_MAJOR, f"Output tensor must have ROW_MAJOR layout, got {given.layout.native}")
    fatal(
        given.shape.volume() == wanted.shape.volume() and given.logical_2d[1] == wanted.logical_2d[1],
        f"Preallocated output tensor is not page-compatible with the reduction result! Got : {given.shape}, expected: "
        f"{wanted.shape} (or any shape with the same volume and last dimension)",
    )


def _row_search(
    planner: Planner, x: Spec, inner: int, held: int, given: CoreRangeSet | None
) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    """Rows are cut into pieces, one a core; indices and values of all pieces are brought together.

    A piece is at least what one aligned read brings of bfloat16. Where many rows (`inner`) give a result each, short
    rows do not go to all cores (measured: no more than twice the square root of a row's words of 32 bytes, as a power
    of two), and two pieces are held unless one kernel reads alone. `given`: the cores that the caller leaves to it.
    """
    width, element = x.padded_shape[-1], x.dtype.element_bytes
    least = _alignment(planner, x) // DataType.BFLOAT16.element_bytes
    blocks = div_up(width, least)
    grid, count = CoreCoord(*planner.card.grid), min(blocks, planner.card.cores)
    worthwhile = next(n for n in _POWERS if _WORD // 4 * n * n >= width * element)
    if given is not None:
        cores = dealt(planner, blocks, grid=given) if blocks < given.num_cores() else given
        groups = [(CoreRangeSet([own]), div_up(blocks, cores.num_cores())) for own in cores.ranges()]
    elif inner > 1 and count > worthwhile:
        cores = num_cores_to_corerangeset(min(worthwhile, planner.card.cores), grid, True)
        groups = [(CoreRangeSet([own]), div_up(blocks, cores.num_cores())) for own in cores.ranges()]
    else:
        cores = dealt(planner, count)
        groups = _groups(blocks, count, grid)
    indices, values = round_up(inner * _INDEX_BYTES, _WORD), round_up(inner * element, _WORD)
    pieces = [
        CircularBuffer(held * round_up(share * least * element, _WORD), own, dataflow=True) for own, share in groups
    ]
    total = cores.num_cores()
    return cores, pieces + staging(planner, [indices, total * indices, total * values], cores)


def _groups(units: int, count: int, grid: CoreCoord) -> list[tuple[CoreRangeSet, int]]:
    """The cores that get one unit more than the others, and those, column after column."""
    share, more = divmod(units, count)
    order = list(num_cores_to_corerangeset(count, grid).cores(row_wise=False))
    parts = [(order[:more], share + 1), (order[more:], share)]
    return [(cores_to_ranges(cores), units_each) for cores, units_each in parts if cores]


def _alignment(planner: Planner, spec: Spec) -> int:
    in_dram = spec.memory_config.buffer_type is BufferType.DRAM
    return planner.card.dram_alignment if in_dram else planner.card.l1_alignment
