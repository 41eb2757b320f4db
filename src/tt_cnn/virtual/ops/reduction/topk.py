"""`topk`: the largest elements of the last dimension; another one is transposed there and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import checked_pair, refuse_unfollowed, warn_unwritten
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.unary_plan import traffic
from tt_cnn.virtual.ops.layout.work_split import dealt_among
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import staging, tiles
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.pad.pad import plan_pad
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_fewer_dims, plan_four_dims
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.ops.shape.transpose.transpose import plan_transpose
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
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
"""Widths from which on powers of two are divided among cores: in general, and with so few rows of tiles (measured)."""
_MOST_RESULTS = 64
_LOCAL_COST, _FINAL_COST = 7, 2
"""What a tile costs where it is sorted and where results are merged: the library's own figures for its choice."""


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
        attributes = {"k": k, "largest": largest, "order": order}
        count = k if direct or given else round_up(k, TILE_SIZE)
        outputs = self._sort(planner, current, numbers, given, count, config, grid, attributes)
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
        attributes: dict[str, Any],
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
        if split is None:
            factory, (cores, buffers) = "TopKSingleCoreProgramFactory", _by_rows(planner, x.spec, index, k, grid)
        else:
            stable = attributes["order"][1]
            factory, (cores, buffers) = "TopKMultiCoreProgramFactory", _divided(box, x.spec, index, k, stable, *split)
        work = traffic([x.spec], [values.spec, indices.spec], x.spec.volume)
        planner.step("TopK", factory, cores, [x, *numbers], [values, indices], buffers, attributes, work)
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
        order: tuple[bool, bool],
        **_: Any,
    ) -> list[torch.Tensor]:
        """Sorted also where that was not asked for; equal elements in the order in which they stand, whether `stable`
        was asked for or not, so that all hosts give the same."""
        value = context.logical(x)
        values, indices = (part.narrow(dim, 0, k) for part in value.sort(stable=True, dim=dim, descending=largest))
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
    planner: Planner, spec: Spec, index: DataType, k: int, grid: CoreRangeSet | None
) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    """Every core sorts whole rows of tiles."""
    matrices, rows, _ = tiles(spec)
    whole = CoreCoord(*planner.card.grid)
    if grid is None:
        cores = num_cores_to_corerangeset(min(matrices * rows, planner.card.cores), whole, True)
    else:
        cores = dealt_among(grid, matrices * rows, row_wise=True)
    count, wide, tile = div_up(k, TILE_SIZE), index.tile_bytes, spec.dtype.tile_bytes
    kept = max(tile, DataType.BFLOAT16.tile_bytes)
    sizes = [2 * tile, 2 * wide, 4 * kept, 4 * wide, 2 * count * kept, 2 * count * wide, count * tile, count * wide]
    return cores, staging(planner, sizes, cores)


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
    box: CoreRange, spec: Spec, index: DataType, k: int, stable: bool, share: int, columns: int, rows: int
) -> tuple[CoreRangeSet, list[CircularBuffer]]:
    left, top = box.start.x, box.start.y
    local = CoreRangeSet([CoreRange((left, top), (left + columns - 1, top + rows - 1))])
    final = CoreRangeSet([CoreRange((left, top + rows), (left, top + rows))])
    everywhere = local.merge(final)
    tile, wide = spec.dtype.tile_bytes, index.tile_bytes
    kept = max(tile, DataType.BFLOAT16.tile_bytes)
    gathered = columns * rows * div_up(k, TILE_SIZE)
    if stable:  # values and indices are sorted together, as one key
        key = DataType.UINT32.tile_bytes
        one, two = DataType.BFLOAT16.tile_bytes, 2 * DataType.BFLOAT16.tile_bytes
        keys = [
            *((size, everywhere) for size in (4 * tile, 4 * wide, gathered * key)),
            *((size, final) for size in (one, 2 * wide)),
            *((size, local) for size in (share * key, 2 * key)),
            *((size, final) for size in (two, gathered * key, one)),
        ]
        return everywhere, [CircularBuffer(size, cores) for size, cores in keys]
    placed = [
        *((size, everywhere) for size in (4 * tile, 4 * wide, gathered * kept, gathered * wide, 2 * wide)),
        *((size, local) for size in (share * kept, share * wide, 2 * kept)),
        *((size, final) for size in (2 * tile, gathered * kept, gathered * wide)),
    ]
    return everywhere, [CircularBuffer(size, cores) for size, cores in placed]
