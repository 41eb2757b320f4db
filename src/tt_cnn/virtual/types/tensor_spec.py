# SPDX-License-Identifier: Apache-2.0
"""What a tensor is without its values: shape, dtype, layout and memory, and all sizes that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, BufferType, DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, Tile, div_up, first_cores, round_up
from tt_cnn.virtual.types.lazy import lazy
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.whole_tiles import cut_tiles, in_whole_tiles, is_whole_tiles


@dataclass(frozen=True)
class Spec:
    """The specification that plans are made from. Construction refuses what the real TensorSpec refuses.

    `alignment` pads the innermost dimensions beyond what layout and shards ask for, as host `pad` does.
    """

    shape: Shape
    dtype: DataType
    layout: Layout
    memory_config: MemoryConfig = DRAM_MEMORY_CONFIG
    alignment: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_config", self.memory_config.sealed())
        object.__setattr__(
            self, "_hash", hash((self.shape, self.dtype, self.layout, self.memory_config, self.alignment))
        )
        shard = self.memory_config.shard_spec
        if shard is not None:
            if self.layout is Layout.TILE and not is_whole_tiles(shard):
                raise CardError(cut_tiles(shard), _whole_tiles_advice(self, shard))
            error = _shard_grid_error(self, shard)
            fatal(error is None, error or "")
        if self.dtype.is_block_float:
            fatal(self.layout is Layout.TILE, "Only TILE layout is supported for BFLOAT8_B dtype!")
        if shard is not None and len(self.shape) == 1 and self.layout is Layout.ROW_MAJOR:
            fatal(shard.shape[0] == 1, "Shard shape must be 1D for 1D tensor!")

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    # --- shapes -------------------------------------------------------------------------------------------------

    @lazy
    def full_alignment(self) -> tuple[int, ...]:
        """The layout's own alignment (a tile; for row-major shards the shard width), enlarged by `alignment`."""
        if self.layout is Layout.TILE:
            own: tuple[int, ...] = (TILE_SIZE, TILE_SIZE)
        else:
            shard = self.memory_config.shard_spec
            own = (shard.shape[1],) if shard is not None else (1,)
        if not self.alignment:
            return own
        rank = max(len(own), len(self.alignment))
        given = (1,) * (rank - len(self.alignment)) + self.alignment
        needed = (1,) * (rank - len(own)) + own
        return tuple(round_up(g, n) for g, n in zip(given, needed, strict=True))

    @lazy
    def padded_shape(self) -> Shape:
        alignment, dims = self.full_alignment, list(self.shape)
        if len(dims) < len(alignment):
            dims = [1] * (len(alignment) - len(dims)) + dims
        for back in range(1, min(len(alignment), 2) + 1):
            dims[-back] = round_up(dims[-back], alignment[-back])
        return self.shape if self.shape == dims else Shape(dims)

    @lazy
    def physical(self) -> tuple[int, int]:
        """Height and width of the tensor as a matrix in memory."""
        dims = tuple(self.padded_shape)
        return (prod(dims[:-1]), dims[-1]) if dims else (1, 1)

    @lazy
    def logical_2d(self) -> tuple[int, int]:
        dims = tuple(self.shape)
        return (prod(dims[:-1]), dims[-1]) if dims else (1, 1)

    @property
    def volume(self) -> int:
        return self.physical[0] * self.physical[1]

    # --- pages and bytes ----------------------------------------------------------------------------------------

    @lazy
    def page_shape(self) -> tuple[int, int]:
        """A page is a tile, or a row of the tensor, or a row of a shard where shards divide the width."""
        if self.layout is Layout.TILE:
            return TILE_SIZE, TILE_SIZE
        if 0 in self.physical:
            return 1, max(1, 4 // self.dtype.element_bytes)
        shard = self.memory_config.shard_spec
        if shard is not None and self.memory_config.memory_layout is not HEIGHT:
            return 1, shard.shape[1]
        return 1, self.physical[1]

    @lazy
    def page_bytes(self) -> int:
        if self.layout is Layout.TILE:
            return self.dtype.tile_bytes
        return self.page_shape[1] * self.dtype.element_bytes

    @lazy
    def num_pages(self) -> int:
        height, width = self.physical
        return div_up(height, self.page_shape[0]) * div_up(width, self.page_shape[1])

    @lazy
    def shard_pages(self) -> int:
        shard = self.shard
        return div_up(shard.shape[0], self.page_shape[0]) * div_up(shard.shape[1], self.page_shape[1])

    # --- shards -------------------------------------------------------------------------------------------------

    @property
    def shard(self) -> ShardSpec:
        spec = self.memory_config.shard_spec
        fatal(spec is not None, "MemoryConfig must have Shard Spec specified for sharded memory layout")
        assert spec is not None
        return spec

    @property
    def is_sharded(self) -> bool:
        return self.memory_config.is_sharded()

    @lazy
    def shards(self) -> tuple[int, int]:
        """Shards along the height and along the width that hold data."""
        height, width = self.physical
        return div_up(height, self.shard.shape[0]), div_up(width, self.shard.shape[1])

    @lazy
    def shards_with_data(self) -> int:
        """How many of the grid's cores hold a shard."""
        rows, columns = self.shards
        if self.memory_config.memory_layout is BLOCK:
            return rows * columns
        return min(rows * columns, self.shard.num_cores())

    @lazy
    def cores_with_data(self) -> CoreRangeSet:
        """The cores of the grid that hold a shard: the grid may be larger than the tensor."""
        rows, columns = self.shards
        shard = self.shard
        if self.memory_config.memory_layout is BLOCK:
            box = shard.grid.bounding_box()
            if not shard.row_wise:
                rows, columns = columns, rows
            end = (box.start.x + columns - 1, box.start.y + rows - 1)
            return CoreRangeSet([CoreRange(box.start, end)])
        return first_cores(shard.grid, rows * columns, shard.row_wise)

    # --- variations ---------------------------------------------------------------------------------------------

    def with_(self, **changes: Any) -> Spec:
        """A copy with other shape, dtype, layout or memory config; custom alignment is dropped with the shape."""
        fields: dict[str, Any] = {
            "shape": self.shape,
            "dtype": self.dtype,
            "layout": self.layout,
            "memory_config": self.memory_config,
        }
        fields.update(changes)
        if not isinstance(fields["shape"], Shape):
            fields["shape"] = Shape(fields["shape"])
        return Spec(**fields)


def _whole_tiles_advice(spec: Spec, shard: ShardSpec) -> str:
    """The same tensor in shards that the card takes, each tried before it is reported."""
    whole = in_whole_tiles(shard)
    ways = {
        f"shards of ({whole.shape[0]}, {whole.shape[1]})": (Layout.TILE, spec.memory_config.with_shard_spec(whole)),
        "layout=ttnn.ROW_MAJOR_LAYOUT with these shards": (Layout.ROW_MAJOR, spec.memory_config),
        "an interleaved memory_config": (Layout.TILE, MemoryConfig(buffer_type=spec.memory_config.buffer_type)),
    }
    fitting = []
    for words, (layout, memory_config) in ways.items():
        try:
            Spec(spec.shape, spec.dtype, layout, memory_config)
        except CardError:
            continue
        fitting.append(words)
    return f"  tiles are not cut; fits: {', or '.join(fitting)}"


def _shard_grid_error(spec: Spec, shard: ShardSpec) -> str | None:
    height, width = spec.physical
    shard_height, shard_width = shard.shape
    if not shard_height or not shard_width:
        return f"Shard shape ({shard_height}, {shard_width}) must not have a zero dimension"
    cores = shard.num_cores()
    layout = spec.memory_config.memory_layout
    rows, columns = div_up(height, shard_height), div_up(width, shard_width)
    if layout is HEIGHT:
        if width != shard_width:
            return f"Shard width {shard_width} must match physical width {width} for height sharded"
        if rows > cores:
            return f"Number of shards along height {rows} must not exceed number of cores {cores}"
    elif layout is WIDTH:
        if height != shard_height:
            return f"Shard height {shard_height} must match physical height {height} for width sharded"
        if columns > cores:
            return f"Number of shards along width {columns} must not exceed number of cores {cores}"
    elif layout is BLOCK:
        if shard.grid.size() != 1:
            return "Shard grid must be one full rectangular grid for block sharded!"
        size = shard.grid.bounding_box().grid_size()
        if shard.row_wise:
            checks = (("height", rows, "rows", size.y), ("width", columns, "columns", size.x))
            name = "row major orientation"
        else:
            checks = (("height", rows, "columns", size.x), ("width", columns, "rows", size.y))
            name = "column major orientation"
        for side, found, unit, limit in checks:
            if found > limit:
                return f"Number of shards along {side} {found} must not exceed number of {unit} {limit} for {name}!"
    return None


class TensorSpec(Spec):
    """The same, with TT-NN's constructor: `TensorSpec(shape, dtype, layout, memory_layout, shard_spec, ...)`."""

    def __init__(
        self,
        shape: Iterable[int],
        dtype: DataType,
        layout: Layout,
        memory_layout: TensorMemoryLayout | BufferType = TensorMemoryLayout.INTERLEAVED,
        shard_spec: ShardSpec | None = None,
        buffer_type: BufferType = BufferType.DRAM,
        tile: Tile | None = None,
    ) -> None:
        if isinstance(memory_layout, BufferType):  # the overload without sharding: (shape, dtype, layout, buffer_type)
            buffer_type, memory_layout = memory_layout, TensorMemoryLayout.INTERLEAVED
        shape = shape if isinstance(shape, Shape) else Shape(shape)
        Spec.__init__(self, shape, dtype, layout, MemoryConfig(memory_layout, buffer_type, shard_spec))

    @property
    def tile(self) -> Tile:
        return Tile()
