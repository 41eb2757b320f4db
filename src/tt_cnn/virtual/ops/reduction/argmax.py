# SPDX-License-Identifier: Apache-2.0
"""`argmax`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import page_move_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.layout.relayout import alignment, scratchpad
from tt_cnn.virtual.ops.layout.time import latency_cycles
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.checks import check_not_empty
from tt_cnn.virtual.ops.reduction.generic import reduced_shape
from tt_cnn.virtual.ops.reduction.time import FoldingProgram
from tt_cnn.virtual.ops.reduction.units import cores_for_work, staged
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
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
_KNOWN_CORES = 32
"""The most that a recording or a published measurement shows where rows are kept from all cores."""
_TILE_SCAN_CYCLES, _WIDE_TILE_SCAN_CYCLES = 25, 32
"""A processor looks at an element of a tile, of two bytes or four: 26.4 and 33.3 ms for 1024 x 1024 of bfloat16 and of
float32 (tt-metal pull request 43255)."""
_ROW_SCAN_CYCLES, _MERGE_CYCLES = 31, 37
"""The same for an element of a row, and for what one core found in it: the slope and the rest of 64 cores' times for
1024 rows of 8192 and of 65536 elements, 6.5 and 35.2 ms (tt-metal pull request 53627)."""


@dataclass(frozen=True, kw_only=True)
class ArgMaxTilesProgram(Program):
    """One processor of one core looks at every element."""

    op: str = "ArgMax"
    factory: str = "ArgMaxSingleCoreProgramFactory"
    dim: int | None

    def time(self, step: Step, figures: Figures) -> Cycles:
        x = step.inputs[0].spec
        an_element = _WIDE_TILE_SCAN_CYCLES if x.dtype.element_bytes > 2 else _TILE_SCAN_CYCLES
        return _scanning(step, figures, x.volume * an_element, x.num_pages, x.page_bytes)


@dataclass(frozen=True, kw_only=True)
class ArgMaxRowsProgram(Program):
    """Each core looks at its piece of every row, with one processor or two; one core brings the pieces together."""

    op: str = "ArgMax"
    factory: str = "ArgMaxMultiCoreProgramFactory"
    results: int
    """Of a row of the output."""
    piece: int
    """Elements of a row that a core looks at."""
    readers: int

    def time(self, step: Step, figures: Figures) -> Cycles:
        x, out = step.inputs[0].spec, step.outputs[0].spec
        rows = x.num_pages / self.readers
        merged = max(1, prod(out.shape)) * step.cores.num_cores() * _MERGE_CYCLES
        scanned = rows * self.piece * _ROW_SCAN_CYCLES + merged
        return _scanning(step, figures, scanned, rows, self.piece * x.dtype.element_bytes)


@dataclass(frozen=True, kw_only=True)
class ArgMaxLeadingProgram(FoldingProgram):
    """Along a leading dimension: the vector unit compares tile with tile.

    Best and element are loaded and compared, value and index chosen and stored, the index is counted on.
    """

    op: str = "ArgMaxNC"
    factory: str = "DirectDescriptorFactory"
    dim: int
    vector_instructions = 8


def _scanning(step: Step, figures: Figures, scanned: float, reads: float, size: int) -> Cycles:
    """A processor that reads, waits and looks: nothing of that overlaps."""
    x = step.inputs[0].spec
    waits = reads * latency_cycles(x, figures)
    reading = page_move_cycles(figures, x, reads, size, step.cores.num_cores(), True) + waits
    if x.memory_config.is_dram():
        return Cycles(scanned + reading, dram=reading)
    return Cycles(scanned + reading, noc=reading)


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
            self._search(planner, x, out, tiled, axis, 1 if axis is None or keepdim else None, grid, two_readers)
        scope.leave(out)
        return [out]

    def _search(
        self,
        planner: Planner,
        x: Slot,
        out: Slot,
        tiled: bool,
        axis: int | None,
        results: int | None,
        grid: CoreRangeSet | None,
        two_readers: bool | None,
    ) -> None:
        """`results`: of a row of the output, where that is known; `grid` is not looked at for tiles (recorded)."""
        if tiled:
            cores = cores_for_work(planner, 1)
            scratch = scratchpad(out.spec.page_bytes, cores)._replace(name="output")
            buffers = (*staged(cores, {"input": x.spec.dtype.tile_bytes}), scratch)
            planner.dispatch(ArgMaxTilesProgram(cores=cores, buffers=buffers, dim=axis), [x], [out])
            return
        rows = x.spec.padded_shape[-2] if len(x.spec.shape) > 1 else 1
        inner = rows if results is None else results
        fatal(
            inner > 1 or not two_readers,
            "enable_secondary_dm needs at least two output rows; reduce_all, keepdim=True and rank < 2 leave one",
        )
        readers = 1 if inner == 1 or two_readers is False else 2
        planner.dispatch(_row_search(planner, x.spec, inner, readers, grid), [x], [out])

    def _leading(
        self, planner: Planner, scope: Temporaries, x: Slot, axis: int, keepdim: bool, config: MemoryConfig
    ) -> Slot:
        shape = reduced_shape(x.spec.shape, (axis,), keepdim)
        found = scope.add(planner.allocate(Spec(shape, DataType.UINT32, Layout.TILE, config)))
        units = found.spec.num_pages
        cores, busiest = split_work(planner.card, units, row_wise=True)
        buffers = (
            CircularBuffer(2 * x.spec.dtype.tile_bytes, cores, name="input"),
            CircularBuffer(2 * DataType.UINT32.tile_bytes, cores, name="output"),
        )
        program = ArgMaxLeadingProgram(
            cores=cores,
            buffers=buffers,
            dim=axis,
            results_per_core=busiest,
            tiles_per_result=x.spec.num_pages // max(1, units),
        )
        planner.dispatch(program, [x], [found])
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


def _row_search(planner: Planner, x: Spec, inner: int, readers: int, given: CoreRangeSet | None) -> ArgMaxRowsProgram:
    """Rows are cut into pieces, one per core; indices and values of all pieces are brought together.

    A piece is at least what one aligned read brings of bfloat16, and each reader holds its own. `given`: the cores that
    the caller leaves to it. Where many rows (`inner`) give a result each, short rows do not go to all cores.
    """
    width, element = x.padded_shape[-1], x.dtype.element_bytes
    least = alignment(planner.card, x) // DataType.BFLOAT16.element_bytes
    blocks = div_up(width, least)
    grid, count = CoreCoord(*planner.card.grid), min(blocks, planner.card.cores)
    if given is not None:
        cores = cores_for_work(planner, blocks, grid=given) if blocks < given.num_cores() else given
        groups = [(CoreRangeSet([own]), div_up(blocks, cores.num_cores())) for own in cores.ranges()]
    elif inner > 1 and count > (most := _most_cores(width * element)):
        fatal(
            most <= _KNOWN_CORES,
            f"ttnn.argmax of many rows of {width * element} bytes each: into how many pieces TT-NN cuts them on a card "
            f"of {planner.card.cores} cores is not known",
            "  pass keepdim=True and reshape, give sub_core_grids, or tile the tensor",
        )
        cores = num_cores_to_corerangeset(min(most, planner.card.cores), grid, True)
        groups = [(CoreRangeSet([own]), div_up(blocks, cores.num_cores())) for own in cores.ranges()]
    else:
        cores = cores_for_work(planner, count)
        groups = _groups(blocks, count, grid)
    indices, values = round_up(inner * _INDEX_BYTES, _WORD), round_up(inner * element, _WORD)
    names = ["input", *(f"input of range {i}" for i in range(1, len(groups)))]
    pieces = (
        CircularBuffer(readers * round_up(share * least * element, _WORD), own, dataflow=True, name=name)
        for name, (own, share) in zip(names, groups, strict=True)
    )
    total = cores.num_cores()
    sizes = {"output": indices, "indices found": total * indices, "values found": total * values}
    return ArgMaxRowsProgram(
        cores=cores,
        buffers=(*pieces, *staged(cores, sizes)),
        results=inner,
        piece=min(width, max(share for _, share in groups) * least),
        readers=readers,
    )


def _most_cores(row_bytes: int) -> int:
    """Cores that share a row of so many bytes, where many rows give a result each.

    Since one core merges what all have found, row by row, more of them do not pay: tt-metal pull request 53627 (merged
    in August 2026) lowered their number, to 16 for rows of 2 KiB and to 32 for 4 KiB by its table of measurements. Its
    formula was not to be found; the power of two at or above twice the square root of a row's words of 32 bytes gives
    those, and all recordings (docs/fidelity.md). What it would give beyond them is refused.
    """
    return next(n for n in _POWERS if _WORD // 4 * n * n >= row_bytes)


def _groups(units: int, count: int, grid: CoreCoord) -> list[tuple[CoreRangeSet, int]]:
    """The cores that get one unit more than the others, and those, column after column."""
    share, more = divmod(units, count)
    order = list(num_cores_to_corerangeset(count, grid).cores(row_wise=False))
    parts = [(order[:more], share + 1), (order[more:], share)]
    return [(cores_to_ranges(cores), units_each) for cores, units_each in parts if cores]
