# SPDX-License-Identifier: Apache-2.0
"""Shard specs of outputs, where the call does not give them: rescaled from the input's, or made for the whole grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.enums import HEIGHT, WIDTH, BufferType, Layout, ShardOrientation, TensorMemoryLayout
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
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

Dims = Sequence[int] | Shape
"""The dimensions of a shape, however it is written."""

INTERLEAVED = TensorMemoryLayout.INTERLEAVED

L1_INTERLEAVED = MemoryConfig(buffer_type=BufferType.L1)


def interleaved_in(buffer_type: BufferType) -> MemoryConfig:
    return MemoryConfig(INTERLEAVED, buffer_type)


def lacks_shards(config: MemoryConfig) -> bool:
    """A sharded layout was asked for and the shards left to the op."""
    return config.is_sharded() and config.shard_spec is None


def tile_sized(shard: ShardSpec) -> bool:
    return shard.shape[0] % TILE_SIZE == 0 and shard.shape[1] % TILE_SIZE == 0


def rescaled(shard: ShardSpec, before: Dims, after: Dims) -> ShardSpec | None:
    """The shard that keeps its share of the tensor's rows and columns; None where that is not a whole number.

    TT-NN: `adjust_shard_spec_to_shape`.
    """
    rows_before, rows_after = prod(tuple(before)[:-1]), prod(tuple(after)[:-1])
    if not rows_before or not before[-1]:
        return None
    height, width = shard.shape[0] * rows_after, shard.shape[1] * after[-1]
    if height % rows_before or width % before[-1]:
        return None
    return ShardSpec(shard.grid, [height // rows_before, width // before[-1]], shard.orientation)


def for_whole_grid(
    card: Card,
    rows: int,
    columns: int,
    layout: TensorMemoryLayout,
    *,
    tiled: bool,
    orientation: ShardOrientation,
    caller: str,
) -> ShardSpec:
    """Shards for all cores of the card, and the cores that then hold data. TT-NN: `synthesize_output_shard_spec`."""
    unit = TILE_SIZE if tiled else 1
    x, y = card.grid
    row_wise = orientation is ShardOrientation.ROW_MAJOR
    if not rows or not columns:
        return _for_nothing(rows, columns, layout, unit, orientation, caller)
    if layout is HEIGHT:
        shape = [round_up(div_up(rows, card.cores), unit), round_up(columns, unit)]
        used = div_up(rows, shape[0])
    elif layout is WIDTH:
        shape = [round_up(rows, unit), round_up(div_up(columns, card.cores), unit)]
        used = div_up(columns, shape[1])
    else:
        down, across = (y, x) if row_wise else (x, y)
        shape = [round_up(div_up(rows, down), unit), round_up(div_up(columns, across), unit)]
        along_y, along_x = div_up(rows, shape[0]), div_up(columns, shape[1])
        if not row_wise:
            along_y, along_x = along_x, along_y
        fatal(
            along_x <= x and along_y <= y,
            f"{caller}: BLOCK shard-grid ({along_x}x{along_y} along x/y) exceeds compute grid ({x}x{y}); "
            f"shard=({shape[0]},{shape[1]}) orientation={orientation.name}",
        )
        grid = CoreRangeSet([CoreRange((0, 0), (along_x - 1, along_y - 1))])
        return ShardSpec(grid, shape, orientation)
    used = min(max(used, 1), card.cores)
    return ShardSpec(num_cores_to_corerangeset(used, CoreCoord(x, y), row_wise), shape, orientation)


def _for_nothing(
    rows: int, columns: int, layout: TensorMemoryLayout, unit: int, orientation: ShardOrientation, caller: str
) -> ShardSpec:
    fatal(
        (layout is HEIGHT and columns > 0) or (layout is WIDTH and rows > 0),
        f"{caller}: zero-volume specless-sharded is only representable for HEIGHT_SHARDED + non-zero width or "
        f"WIDTH_SHARDED + non-zero height; got layout={int(layout)}, h={rows}, w={columns}.",
    )
    shape = [unit, round_up(columns, unit)] if layout is HEIGHT else [round_up(rows, unit), unit]
    return ShardSpec(CoreRangeSet([CoreRange((0, 0), (0, 0))]), shape, orientation)


@dataclass(frozen=True)
class _RowPages:
    """Rows of row-major shards must be whole L1 words and divide the tensor's width."""

    card: Card
    element_bytes: int
    columns: int

    def valid(self, width: int) -> bool:
        page = width * self.element_bytes
        return page > 0 and page % self.card.l1_alignment == 0 and self.columns % width == 0


def with_aligned_rows(card: Card, shard: ShardSpec, spec: Spec, columns: int, layout: TensorMemoryLayout) -> ShardSpec:
    """Fewer cores for a width-sharded row-major output whose shard rows would not be L1 words."""
    pages = _RowPages(card, spec.dtype.element_bytes, columns) if spec.layout is Layout.ROW_MAJOR else None
    if pages is None or not columns or pages.valid(shard.shape[1]) or layout is not WIDTH:
        return shard
    cores = next((n for n in range(card.cores, 0, -1) if columns % n == 0 and pages.valid(columns // n)), 0)
    width = columns // cores if cores else round_up(div_up(columns, card.cores), TILE_SIZE)
    cores = cores or div_up(columns, width)
    grid = num_cores_to_corerangeset(cores, CoreCoord(*card.grid), shard.row_wise)
    return ShardSpec(grid, [shard.shape[0], width], shard.orientation)


def derived(
    card: Card,
    source: Spec,
    padded: Dims,
    layout: TensorMemoryLayout,
    orientation: ShardOrientation | None = None,
    *,
    row_major: bool = False,
) -> ShardSpec:
    """Shards of an output of this padded shape. TT-NN: `generate_transpose_shard_spec`.

    They are made of whole tiles unless `row_major`, also for row-major tensors.
    """
    shard = source.memory_config.shard_spec
    if orientation is None:
        orientation = shard.orientation if shard is not None else ShardOrientation.ROW_MAJOR
    made = for_whole_grid(
        card,
        prod(tuple(padded)[:-1]),
        padded[-1],
        layout,
        tiled=not row_major,
        orientation=orientation,
        caller="Transpose",
    )
    return with_aligned_rows(card, made, source, padded[-1], layout) if row_major else made


def shards_after(card: Card, spec: Spec, padded: Dims, layout: TensorMemoryLayout) -> ShardSpec:
    """Shards for an output of this padded shape: the input's, rescaled, where that works; else for the whole grid."""
    shard = spec.memory_config.shard_spec
    if shard is not None and spec.memory_config.memory_layout is layout:
        scaled = rescaled(shard, spec.padded_shape, padded)
        if scaled is not None and (spec.layout is not Layout.TILE or tile_sized(scaled)):
            return scaled
    return derived(card, spec, padded, layout)


def height_sharded_over(grid: CoreRangeSet, shape: Dims) -> MemoryConfig:
    """Height shards of a row-major tensor over given cores, the last perhaps partly empty."""
    rows = div_up(prod(tuple(shape)[:-1]), grid.num_cores())
    return MemoryConfig(HEIGHT, BufferType.L1, ShardSpec(grid, [rows, shape[-1]], ShardOrientation.ROW_MAJOR))
