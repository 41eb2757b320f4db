# SPDX-License-Identifier: Apache-2.0
"""`topk`: the largest elements of the last dimension; another one is transposed there and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import checked_pair, refuse_unfollowed, warn_unwritten
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.steady import ordered
from tt_cnn.virtual.ops.eltwise.time import Tiles, overlapped_cycles
from tt_cnn.virtual.ops.layout.work_split import cores_among
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.time import MERGE_STEPS, SORT_STEPS, exchange_cycles
from tt_cnn.virtual.ops.reduction.units import staged, tiles
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.pad.pad import plan_pad
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_fewer_dims, plan_four_dims
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    Shape,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_LEAST_WIDTH = 64
"""Shorter rows are padded."""
_WIDE, _WIDE_ALONE, _FEW_ROWS = 8192, 1024, 2
"""Widths from which on powers of two are divided among cores: in general, and with so few rows of tiles, which would
leave most cores idle if each sorted whole rows (`multi_core_min_width`, `multi_core_low_ht_min_width` and
`multi_core_low_ht_max_tile_rows` in topk_constants.hpp; tt-metal pull request 53793)."""
_MOST_RESULTS = 64
"""That the programs which divide rows merge (`topk_multicore_structurally_eligible` in topk_utils.cpp)."""
_LOCAL_COST, _FINAL_COST = 7, 2
"""What a tile costs where it is sorted and where results are merged: upstream's figures, fitted on a Blackhole card,
for its own choice (`kLocalCostFactor` and `kFinalCostFactor` in topk_utils.cpp)."""


@dataclass(frozen=True)
class Wanted:
    k: int
    largest: bool
    ordered: bool
    stable: bool


@dataclass(frozen=True, kw_only=True)
class TopKProgram(Program):
    op: str = "TopK"
    wanted: Wanted
    result_tiles: int
    """That hold the results of a row of tiles."""


@dataclass(frozen=True, kw_only=True)
class TopKRowsProgram(TopKProgram):
    """Every core sorts whole rows of tiles: each tile is sorted into the results so far."""

    factory: str = "TopKSingleCoreProgramFactory"
    rows_per_core: int

    def time(self, step: Step, figures: Figures) -> Cycles:
        tiles_per_core = self.rows_per_core * tiles(step.inputs[0].spec)[2]
        steps = SORT_STEPS + (self.result_tiles - 1) * MERGE_STEPS
        return _sorting(step, figures, tiles_per_core, exchange_cycles(figures, tiles_per_core * steps))


@dataclass(frozen=True, kw_only=True)
class TopKDividedProgram(TopKProgram):
    """Cores sort parts of a row; one more merges what they found."""

    factory: str = "TopKMultiCoreProgramFactory"
    tiles_per_core: int
    local_cores: int

    def time(self, step: Step, figures: Figures) -> Cycles:
        """The last core merges a row while the others sort the next."""
        matrices, height, _ = tiles(step.inputs[0].spec)
        rows = matrices * height
        steps = SORT_STEPS + (self.result_tiles - 1) * MERGE_STEPS
        local = exchange_cycles(figures, self.tiles_per_core * steps)
        final = exchange_cycles(figures, self.local_cores * self.result_tiles * MERGE_STEPS)
        vector = rows * max(local, final) + min(local, final)
        return _sorting(step, figures, rows * self.tiles_per_core, vector)


def _sorting(step: Step, figures: Figures, count: float, vector: float) -> Cycles:
    """Of `count` tiles, whose columns are sorted: values and indices are turned before."""
    x = step.inputs[0].spec
    turned = 2 * count * figures.transpose_cycles
    cores = step.cores.num_cores()
    results = [Tiles(slot.spec, slot.spec.num_pages / max(1, cores)) for slot in step.outputs]
    return overlapped_cycles(
        figures, cores, [Tiles(x, count)], results, compute=turned + vector, vector=vector, unpack_pack=turned
    )


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
        sub_core_grids: CoreRangeSet | None = None,
        indices_tensor: Tensor | None = None,
        output_tensor: Sequence[Tensor] | None = None,
        stable: bool = False,
    ) -> Call:
        outputs = checked_pair(self.name, "output_tensor", output_tensor)
        rank = len(input_tensor.shape)
        last = dim % max(1, rank) == rank - 1
        if outputs and not last:
            warn_unwritten(self.name, "output_tensor", "for another dimension than the last")
        if indices_tensor is not None and not (last and rank == 4 and input_tensor.shape[-1] >= _LEAST_WIDTH):
            refuse_unfollowed(self.name, indices_tensor=indices_tensor)
        fatal(
            sub_core_grids is None or sub_core_grids.size() == 1,
            f"Only one core range is supported right now, got {sub_core_grids and sub_core_grids.size()}",
        )
        return Call(
            [input_tensor, *([] if indices_tensor is None else [indices_tensor]), *outputs],
            k=k,
            dim=dim,
            largest=largest,
            memory_config=memory_config,
            grid=sub_core_grids,
            numbered=indices_tensor is not None,
            order=(sorted, stable),
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *others: Slot,
        k: int,
        dim: int,
        largest: bool,
        memory_config: MemoryConfig | None,
        grid: CoreRangeSet | None,
        numbered: bool,
        order: tuple[bool, bool],
    ) -> list[Slot]:
        spec = x.spec
        config = memory_config or spec.memory_config
        rank = len(spec.shape)
        axis = dim + rank if dim < 0 else dim
        fatal(
            0 <= axis < rank, f"Dimension out of range (expected to be in range of [{-rank},{rank - 1}], but got {dim})"
        )
        fatal(
            0 < k <= spec.shape[axis],
            f"K cannot be larger than the dimension size! K={k}, dimension size={spec.shape[axis]}",
        )
        scope = Temporaries(planner)
        current = x
        numbers, given = others[: int(numbered)], others[int(numbered) :]
        _check_given(given, Shape([k if i == axis else size for i, size in enumerate(spec.shape)]))
        if axis != rank - 1:
            current = scope.add(plan_transpose(planner, x, axis, rank - 1, spec.memory_config))
            given = tuple(scope.add(plan_transpose(planner, s, axis, rank - 1, s.spec.memory_config)) for s in given)
        direct = rank == 4 and axis == rank - 1 and spec.shape[-1] >= _LEAST_WIDTH
        current = scope.add(plan_four_dims(planner, current))
        worst = float("-inf") if largest else float("inf")
        missing = max(_LEAST_WIDTH - current.spec.shape[-1], 0)
        if missing:
            quick = spec.dtype is DataType.BFLOAT16 and spec.memory_config.buffer_type is not BufferType.L1
            current = scope.add(plan_pad(planner, current, [(0, missing)], worst, None, quick))
        current = scope.add(plan_fill_padding(planner, current, worst))
        given = tuple(plan_four_dims(planner, slot) for slot in given)
        count = k if direct or given else round_up(k, TILE_SIZE)
        outputs = self._sort(planner, current, numbers, given, count, config, grid, Wanted(k, largest, *order))
        made = [scope.add(slot) for slot in outputs]
        for i, slot in enumerate(outputs):
            ends = [*tuple(slot.spec.shape)[:-1], k]
            if slot.spec.shape[-1] != k:
                made[i] = scope.replace(slot, plan_slice(planner, slot, [0] * 4, ends, [1] * 4, config))
        made = [scope.replace(slot, plan_fewer_dims(planner, slot, rank)) for slot in made]
        if axis != rank - 1:
            turned = []
            for slot in made:
                back = plan_transpose(planner, slot, axis, rank - 1, spec.memory_config)
                # what was made of the caller's tensors stays until the call returns
                turned.append(scope.add(back) if given else scope.replace(slot, back))
            made = turned
        scope.leave(*made)
        if axis == rank - 1 and given:
            return list(others[int(numbered) :])
        return made

    def _sort(
        self,
        planner: Planner,
        x: Slot,
        numbers: Sequence[Slot],
        given: Sequence[Slot],
        k: int,
        config: MemoryConfig,
        grid: CoreRangeSet | None,
        wanted: Wanted,
    ) -> tuple[Slot, Slot]:
        shape = Shape([*tuple(x.spec.shape)[:-1], k])
        short = x.spec.padded_shape[-1] < 65536 and x.spec.dtype is not DataType.FLOAT32
        index = DataType.UINT16 if short else DataType.UINT32
        specs = [Spec(shape, dtype, Layout.TILE, config) for dtype in (x.spec.dtype, index)]
        fatal(not config.is_sharded(), "Sharded implementation not supported yet")
        fatal(x.spec.layout is Layout.TILE, "The input must be in tiled format")
        values, indices = given or (planner.allocate(spec) for spec in specs)
        box = (grid or planner.grid).bounding_box()
        split = _split(box, x.spec, k)
        program = (
            _by_rows(planner, x.spec, index, k, grid, wanted)
            if split is None
            else _divided(box, x.spec, index, k, wanted, *split)
        )
        planner.dispatch(program, [x, *numbers], [values, indices])
        return values, indices

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        *others: torch.Tensor,
        k: int,
        dim: int,
        largest: bool,
        numbered: bool,
        **_: Any,
    ) -> list[torch.Tensor]:
        """Sorted also where that was not asked for; equal elements in the order in which they stand, whether `stable`
        was asked for or not, so that all hosts give the same."""
        value = context.logical(x)
        values, indices = (part.narrow(dim, 0, k) for part in ordered(value, dim, largest))
        if numbered:
            indices = context.logical(others[0], 1).gather(dim, indices)
        return [
            context.store(values, 0),
            context.store(indices.to(CARRIER[context.outputs[1].dtype]), 1),
        ]


def _check_given(given: Sequence[Slot], shape: Shape) -> None:
    for name, slot in zip(("values", "indices"), given, strict=False):
        fatal(
            slot.spec.shape == shape,
            f"Preallocated {name} tensor has incorrect shape! Got : {slot.spec.shape}, expected: {shape}",
        )


def _by_rows(
    planner: Planner, spec: Spec, index: DataType, k: int, grid: CoreRangeSet | None, wanted: Wanted
) -> TopKRowsProgram:
    matrices, rows, _ = tiles(spec)
    whole = CoreCoord(*planner.card.grid)
    if grid is None:
        cores = num_cores_to_corerangeset(min(matrices * rows, planner.card.cores), whole, True)
    else:
        cores = cores_among(grid, matrices * rows, row_wise=True)
    count, wide, tile = div_up(k, TILE_SIZE), index.tile_bytes, spec.dtype.tile_bytes
    kept = max(tile, DataType.BFLOAT16.tile_bytes)
    sizes = {"input": 2 * tile, "indices": 2 * wide, "turned": 4 * kept, "turned indices": 4 * wide}
    sizes |= {"results": 2 * count * kept, "result indices": 2 * count * wide}
    sizes |= {"output": count * tile, "output indices": count * wide}
    share = div_up(matrices * rows, max(1, cores.num_cores()))
    buffers = staged(cores, sizes)
    return TopKRowsProgram(cores=cores, buffers=buffers, result_tiles=count, rows_per_core=share, wanted=wanted)


def _split(box: CoreRange, spec: Spec, k: int) -> tuple[int, int, int] | None:
    """Into how many tiles a row is divided, and the columns and rows of cores that sort them: what costs least.

    The last row and column of the grid are left out, and one more core merges the results
    (`find_topk_core_config` in topk_utils.cpp).
    """
    width = spec.padded_shape[-1]
    matrices, height, _ = tiles(spec)
    if (
        width < (_WIDE_ALONE if matrices * height <= _FEW_ROWS else _WIDE)
        or width & (width - 1)
        or width >= 65535
        or k > _MOST_RESULTS
    ):
        return None
    size = box.grid_size()
    most_x, most_y = size.x - 1, size.y - 2
    if most_x < 1 or most_y < 1:
        return None
    choices = []
    share = max(1, width // TILE_SIZE // (1 << ((most_x * most_y).bit_length() - 1)))
    while share * TILE_SIZE <= width // 2:
        count = width // TILE_SIZE // share
        rows = next((r for r in range(1, most_y + 1) if count % r == 0 and count // r <= most_x), None)
        if rows is not None and count > 1 and share * TILE_SIZE >= _LEAST_WIDTH:
            cost = _LOCAL_COST * share + _FINAL_COST * count * div_up(k, TILE_SIZE)
            choices.append((cost, share, count // rows, rows))
        share *= 2
    return min(choices)[1:] if choices else None


def _divided(
    box: CoreRange,
    spec: Spec,
    index: DataType,
    k: int,
    wanted: Wanted,
    share: int,
    columns: int,
    rows: int,
) -> TopKDividedProgram:
    left, top = box.start.x, box.start.y
    local = CoreRangeSet([CoreRange((left, top), (left + columns - 1, top + rows - 1))])
    final = CoreRangeSet([CoreRange((left, top + rows), (left, top + rows))])
    everywhere = local.merge(final)
    tile, wide = spec.dtype.tile_bytes, index.tile_bytes
    kept = max(tile, DataType.BFLOAT16.tile_bytes)
    count = div_up(k, TILE_SIZE)
    gathered = columns * rows * count
    if wanted.stable:  # values and indices are sorted together, as one key
        key, one = DataType.UINT32.tile_bytes, DataType.BFLOAT16.tile_bytes
        placed = [
            ("input", 4 * tile, everywhere),
            ("indices", 4 * wide, everywhere),
            ("gathered", gathered * key, everywhere),
            ("value", one, final),
            ("output indices", 2 * wide, final),
            ("turned", share * key, local),
            ("results", 2 * key, local),
            ("output", 2 * one, final),
            ("turned results", gathered * key, final),
            ("scratch", one, final),
        ]
    else:
        placed = [
            ("input", 4 * tile, everywhere),
            ("indices", 4 * wide, everywhere),
            ("gathered", gathered * kept, everywhere),
            ("gathered indices", gathered * wide, everywhere),
            ("output indices", 2 * wide, everywhere),
            ("turned", share * kept, local),
            ("turned indices", share * wide, local),
            ("results", 2 * kept, local),
            ("output", 2 * tile, final),
            ("turned results", gathered * kept, final),
            ("turned result indices", gathered * wide, final),
        ]
    return TopKDividedProgram(
        cores=everywhere,
        buffers=tuple(CircularBuffer(size, cores, name=name) for name, size, cores in placed),
        result_tiles=count,
        tiles_per_core=share,
        local_cores=columns * rows,
        wanted=wanted,
    )
