# SPDX-License-Identifier: Apache-2.0
"""`sort`: the elements of a dimension in order, and where they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import checked_pair, warn_unwritten
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import pack_cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.steady import ordered
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles
from tt_cnn.virtual.ops.layout.clone import plan_clone
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.time import SORT_STEPS, exchange_cycles
from tt_cnn.virtual.ops.reduction.units import staged, tiles
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_INDEX = DataType.UINT16
_TABLE_BYTES = 1024
_STAGED = 4
_ONE_CORE = 64
"""Tiles of a row that one core sorts; longer rows are exchanged between cores."""

_DTYPES = (DataType.BFLOAT16, DataType.UINT16, DataType.FLOAT32)


@dataclass(frozen=True, kw_only=True)
class SortProgram(Program):
    """A bitonic network over the tiles of a row, whose pairs are sorted or exchanged within the core."""

    op: str = "Sort"
    descending: bool
    stable: bool
    rows_per_core: int
    tiles_per_row: int

    def time(self, step: Step, figures: Figures) -> Cycles:
        """Pairs of tiles are sorted first. Then in stage n = 2, 3, ... they are exchanged n - 1 times over ever smaller
        distances, which is one step of the vector unit each, and sorted again. Each time two tiles of values and two of
        indices go through the registers. Exchanges between cores are not counted."""
        x = step.inputs[0].spec
        stages = max(1, (self.tiles_per_row - 1).bit_length())
        pairs = self.rows_per_core * div_up(1 << stages, 2)
        exchanges = stages * (stages - 1) // 2
        vector = pairs * exchange_cycles(figures, stages * SORT_STEPS + exchanges)
        passed = 4 * pairs * (stages + exchanges) * (figures.copy_tile_cycles + pack_cycles(figures, x.dtype))
        held = self.rows_per_core * self.tiles_per_row
        return overlapped_cycles(
            figures,
            step.cores.num_cores(),
            [Tiles(x, held)],
            [Tiles(slot.spec, held) for slot in step.outputs],
            compute=passed + vector,
            vector=vector,
            unpack_pack=passed,
        )


@op("sort")
class Sort(Operation):
    """Two tensors: values and indices."""

    single = False

    def arguments(
        self,
        input_tensor: Tensor,
        dim: int = -1,
        descending: bool = False,
        stable: bool = False,
        *,
        memory_config: Any = None,
        out: Sequence[Tensor] | None = None,
    ) -> Call:
        given = checked_pair(self.name, "out", out)
        rank = len(input_tensor.shape)
        if given and dim % max(1, rank) != rank - 1 and input_tensor.shape[dim] != 1:
            warn_unwritten(self.name, "out", "for another dimension than the last")
        attributes = {"dim": dim, "descending": descending, "stable": stable, "memory_config": memory_config}
        return Call([input_tensor, *given], **attributes)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *given: Slot,
        dim: int,
        descending: bool,
        stable: bool,
        memory_config: MemoryConfig | None,
    ) -> list[Slot]:
        rank = len(x.spec.shape)
        fatal(
            -rank <= dim < rank, f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], got {dim})"
        )
        axis = dim % rank
        config = memory_config or x.spec.memory_config
        _check_given(x.spec, given)
        if x.spec.shape[axis] == 1:
            if given:
                plan_copy(planner, x, given[0].spec.memory_config, None, given[0])
                return list(given)
            values = plan_clone(planner, x, config=config)
            return [values, planner.allocate(Spec(x.spec.shape, _INDEX, Layout.TILE, config))]
        fatal(
            x.spec.dtype in _DTYPES,
            f"Input tensor data type must be BFLOAT16, UINT16, or FLOAT32, got {x.spec.dtype.native}",
        )
        scope = Temporaries(planner)
        current = x
        if axis != rank - 1:
            current = scope.add(plan_transpose(planner, current, axis, rank - 1, config))
            given = tuple(scope.add(plan_transpose(planner, s, axis, rank - 1, s.spec.memory_config)) for s in given)
        current = scope.add(plan_fill_padding(planner, current, float("-inf") if descending else float("inf")))
        spec = current.spec
        values, indices = given or (
            planner.allocate(Spec(spec.shape, dtype, Layout.TILE, config)) for dtype in (spec.dtype, _INDEX)
        )
        matrices, rows, columns = tiles(spec)
        cores, busiest = split_work(planner.card, matrices * rows, row_wise=True)
        tile, wide = spec.dtype.tile_bytes, indices.spec.dtype.tile_bytes
        sizes = {"input": _STAGED * tile, "indices": _STAGED * wide}
        sizes |= {"row": columns * tile, "row indices": columns * wide}
        sizes |= {"output": 2 * tile, "output indices": 2 * wide, "table": _TABLE_BYTES}
        kind = "SingleRowSingleCore" if columns <= _ONE_CORE else "CrossCoreDataExchange"
        program = SortProgram(
            factory=f"SortProgramFactory{kind}",
            cores=cores,
            buffers=staged(cores, sizes),
            descending=descending,
            stable=stable,
            rows_per_core=busiest,
            tiles_per_row=columns,
        )
        planner.dispatch(program, [current], [values, indices])
        outputs = [values, indices]
        if axis != rank - 1:
            outputs = [scope.add(plan_transpose(planner, scope.add(s), axis, rank - 1, config)) for s in outputs]
        scope.leave(*outputs)
        return outputs

    def numbers(
        self, context: Context, x: torch.Tensor, *_: torch.Tensor, dim: int, descending: bool, **__: Any
    ) -> list[torch.Tensor]:
        values, indices = ordered(context.logical(x), dim, descending)
        return [context.store(values, 0), context.store(indices.to(CARRIER[context.outputs[1].dtype]), 1)]


def _check_given(x: Spec, given: Sequence[Slot]) -> None:
    for name, slot in zip(("values", "indices"), given, strict=False):
        fatal(
            slot.spec.shape == x.shape,
            f"Preallocated sort output tensors must match the input shape {x.shape}, got {name} shape "
            f"{slot.spec.shape}",
        )
    fatal(
        not given or given[0].spec.dtype is x.dtype,
        f"Preallocated sort values tensor dtype must match the input dtype {x.dtype.native}, got "
        f"{given[0].spec.dtype.native if given else None}",
    )
