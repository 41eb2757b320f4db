# SPDX-License-Identifier: Apache-2.0
"""Where a tensor lives: shard specs, memory configs, and the helpers that make them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tt_cnn.virtual.types.enums import BufferType, ShardOrientation, ShardStrategy, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreGrid,
    CoreRange,
    CoreRangeSet,
    Shape,
    div_up,
    natural,
    round_up,
)
from tt_cnn.virtual.types.lazy import lazy
from tt_cnn.virtual.types.shard_spec import ShardSpec


@dataclass(frozen=True)
class MemoryConfig:
    """Interleaved over all banks, or sharded over some cores; in DRAM or in L1.

    As in TT-NN it has a copy of the shard spec that it was made of, which can be changed through it. `sealed` is what
    tensors and plans keep: nothing that a caller changes later reaches them.
    """

    memory_layout: TensorMemoryLayout = TensorMemoryLayout.INTERLEAVED
    buffer_type: BufferType = BufferType.DRAM
    shard_spec: ShardSpec | None = None
    nd_shard_spec: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.memory_layout, TensorMemoryLayout):
            raise TypeError(f"memory_layout is {self.memory_layout!r}; it must be a TensorMemoryLayout")
        if not isinstance(self.buffer_type, BufferType):
            raise TypeError(f"buffer_type is {self.buffer_type!r}; it must be a BufferType")
        if self.shard_spec is None:
            return
        if not isinstance(self.shard_spec, ShardSpec):
            raise TypeError(f"shard_spec is {self.shard_spec!r}; it must be a ShardSpec or None")
        if not self.shard_spec.is_sealed:
            object.__setattr__(self, "shard_spec", self.shard_spec.copy())

    def sealed(self) -> MemoryConfig:
        """The same with a shard spec that does not change; made once, until the shard spec changes."""
        if self.shard_spec is None or self.shard_spec.is_sealed:
            return self
        own = self.shard_spec.sealed()
        twin: MemoryConfig | None = self.__dict__.get("_twin")
        if twin is None or twin.shard_spec is not own:
            twin = self.with_shard_spec(own)
            object.__setattr__(self, "_twin", twin)
        return twin

    def copy(self) -> MemoryConfig:
        """The same with a shard spec of its own, to be given away."""
        return self if self.shard_spec is None else self.with_shard_spec(self.shard_spec.copy())

    @lazy
    def _hash(self) -> int:
        return hash((self.memory_layout, self.buffer_type, self.shard_spec))

    def __hash__(self) -> int:
        return self.sealed()._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryConfig, (self.memory_layout, self.buffer_type, self.shard_spec, self.nd_shard_spec)

    def is_sharded(self) -> bool:
        return self.memory_layout is not TensorMemoryLayout.INTERLEAVED

    @property
    def interleaved(self) -> bool:
        return self.memory_layout is TensorMemoryLayout.INTERLEAVED

    def is_l1(self) -> bool:
        return self.buffer_type in (BufferType.L1, BufferType.L1_SMALL)

    def is_dram(self) -> bool:
        return self.buffer_type is BufferType.DRAM

    def with_shard_spec(self, shard_spec: ShardSpec | None) -> MemoryConfig:
        return MemoryConfig(self.memory_layout, self.buffer_type, shard_spec, self.nd_shard_spec)

    def to_json(self) -> str:
        data: dict[str, Any] = {
            "buffer_type": self.buffer_type.value,
            "created_with_nd_shard_spec": False,
            "memory_layout": self.memory_layout.value,
            "per_core_allocation": False,
        }
        spec = self.shard_spec
        if spec is not None:
            data["shard_spec"] = {
                "grid": [{"end": _point(r.end), "start": _point(r.start)} for r in spec.grid.ranges()],
                "orientation": spec.orientation.value,
                "shape": spec.shape,
            }
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> MemoryConfig:
        data = json.loads(text)
        spec = data.get("shard_spec")
        return MemoryConfig(
            TensorMemoryLayout(data["memory_layout"]),
            BufferType(data["buffer_type"]),
            spec
            and ShardSpec(
                CoreRangeSet(
                    [
                        CoreRange(CoreCoord(r["start"]["x"], r["start"]["y"]), CoreCoord(r["end"]["x"], r["end"]["y"]))
                        for r in spec["grid"]
                    ]
                ),
                spec["shape"],
                ShardOrientation(spec["orientation"]),
            ),
        )

    def __repr__(self) -> str:
        spec = "std::nullopt" if self.shard_spec is None else repr(self.shard_spec)
        return (
            f"MemoryConfig(memory_layout={self.memory_layout.native},buffer_type={self.buffer_type.native},"
            f"shard_spec={spec},nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,"
            f"range_lockstep_allocation=0)"
        )


def _point(core: CoreCoord) -> dict[str, int]:
    return {"x": core.x, "y": core.y}


DRAM_MEMORY_CONFIG = MemoryConfig()
L1_MEMORY_CONFIG = MemoryConfig(buffer_type=BufferType.L1)
L1_HEIGHT_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1)
L1_WIDTH_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1)
L1_BLOCK_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1)

_LAYOUT_OF_STRATEGY = {
    ShardStrategy.HEIGHT: TensorMemoryLayout.HEIGHT_SHARDED,
    ShardStrategy.WIDTH: TensorMemoryLayout.WIDTH_SHARDED,
    ShardStrategy.BLOCK: TensorMemoryLayout.BLOCK_SHARDED,
}


def create_sharded_memory_config(
    shape: Sequence[int],
    core_grid: CoreGrid | CoreRangeSet,
    strategy: ShardStrategy,
    orientation: ShardOrientation | None = None,
    use_height_and_width_as_shard_shape: bool = False,
) -> MemoryConfig:
    """An L1 memory config whose shards divide the tensor exactly, or have the shape that is given."""
    dims = _dims(shape)
    orientation = ShardOrientation.ROW_MAJOR if orientation is None else orientation
    if not isinstance(orientation, ShardOrientation):
        raise RuntimeError("Invalid shard orientation")
    row_major = orientation is ShardOrientation.ROW_MAJOR
    if not isinstance(strategy, ShardStrategy):
        raise RuntimeError("Invalid sharding strategy")
    if isinstance(core_grid, CoreRangeSet):
        if not use_height_and_width_as_shard_shape:
            raise RuntimeError("height and width must be shard shape with CoreRangeSet")
        grid = core_grid
    elif isinstance(core_grid, CoreGrid):
        grid = _from_origin(core_grid)
    else:
        raise RuntimeError("Invalid core_grid type")
    if use_height_and_width_as_shard_shape:
        height, width = dims[-2], dims[-1]
        shard = (height, width) if row_major else (width, height)
    else:
        assert isinstance(core_grid, CoreGrid)
        height, width = prod(dims[:-1]), dims[-1]
        parts_y, parts_x = (core_grid.y, core_grid.x) if row_major else (core_grid.x, core_grid.y)
        rows, columns = {
            ShardStrategy.HEIGHT: (core_grid.num_cores, 1),
            ShardStrategy.WIDTH: (1, core_grid.num_cores),
            ShardStrategy.BLOCK: (parts_y, parts_x),
        }[strategy]
        if height % rows or width % columns:
            raise RuntimeError("Invalid sharding core_grid")
        shard = (height // rows, width // columns)
    return MemoryConfig(_LAYOUT_OF_STRATEGY[strategy], BufferType.L1, ShardSpec(grid, shard, orientation))


def create_sharded_memory_config_(
    shape: Sequence[int],
    core_grid: CoreGrid | CoreRangeSet | Sequence[CoreGrid],
    strategy: ShardStrategy | TensorMemoryLayout,
    orientation: ShardOrientation,
    use_height_and_width_as_shard_shape: bool = False,
    tile_layout: bool = False,
) -> MemoryConfig:
    """As `create_sharded_memory_config`, but shards are rounded up where they do not divide the tensor."""
    dims = _dims(shape)
    grid, (grid_y, grid_x) = _grid_and_size(core_grid)
    layout = _LAYOUT_OF_STRATEGY[strategy] if isinstance(strategy, ShardStrategy) else strategy
    if not isinstance(layout, TensorMemoryLayout) or layout is TensorMemoryLayout.INTERLEAVED:
        raise RuntimeError("Invalid type of sharding strategy")
    if not isinstance(orientation, ShardOrientation):
        raise RuntimeError("Invalid type of shard orientation")
    row_major = orientation is ShardOrientation.ROW_MAJOR
    height, width = prod(dims[:-1]), dims[-1]
    cores = grid.num_cores()
    shard: tuple[int, int]
    if use_height_and_width_as_shard_shape:
        shard = (dims[-2], dims[-1]) if row_major else (dims[-1], dims[-2])
    elif layout is TensorMemoryLayout.HEIGHT_SHARDED:
        total = round_up(height, cores) if tile_layout else height
        shard = (div_up(total, cores), width)
    elif layout is TensorMemoryLayout.WIDTH_SHARDED:
        shard = (height, div_up(width, cores))
    else:
        if len(grid.ranges()) != 1:
            raise RuntimeError("Invalid CoreRangeSet for block sharding strategy")
        rows, columns = (grid_y, grid_x) if row_major else (grid_x, grid_y)
        total = round_up(height, rows * TILE_SIZE) if tile_layout else height
        shard = (div_up(total, rows), div_up(width, columns))
    if tile_layout and shard[0] % TILE_SIZE and shard[1] % TILE_SIZE:
        raise RuntimeError("Incorrect tensor shape")
    return MemoryConfig(layout, BufferType.L1, ShardSpec(grid, shard, orientation))


def _from_origin(grid: CoreGrid) -> CoreRangeSet:
    if grid.x < 1 or grid.y < 1:
        raise RuntimeError("Invalid sharding core_grid")
    return CoreRangeSet([CoreRange((0, 0), (grid.x - 1, grid.y - 1))])


def _dims(shape: Any) -> list[int]:
    if isinstance(shape, str) or not isinstance(shape, (Sequence, Shape)):
        raise RuntimeError("Invalid input shape")
    if len(shape) < 2:
        raise ValueError(f"not enough values to unpack (expected at least 2, got {len(shape)})")
    return [natural(d, "a dimension") for d in shape]


def _grid_and_size(
    core_grid: CoreGrid | CoreRangeSet | Sequence[CoreGrid],
) -> tuple[CoreRangeSet, tuple[int, int]]:
    if isinstance(core_grid, CoreRangeSet):
        size = core_grid.bounding_box().grid_size()
        return core_grid, (size.y, size.x)
    if isinstance(core_grid, CoreGrid):
        return _from_origin(core_grid), (core_grid.y, core_grid.x)
    if isinstance(core_grid, Sequence) and len(core_grid) == 2 and all(isinstance(g, CoreGrid) for g in core_grid):
        full, rest = core_grid
        ranges = [
            CoreRange((0, 0), (full.x - 1, full.y - 1)),
            CoreRange((0, full.y), (rest.x - 1, full.y)),
        ]
        return CoreRangeSet(ranges), (full.y, full.x)
    raise RuntimeError("Invalid core_grid type")


__all__ = [
    "DRAM_MEMORY_CONFIG",
    "L1_BLOCK_SHARDED_MEMORY_CONFIG",
    "L1_HEIGHT_SHARDED_MEMORY_CONFIG",
    "L1_MEMORY_CONFIG",
    "L1_WIDTH_SHARDED_MEMORY_CONFIG",
    "CoreCoord",
    "MemoryConfig",
    "ShardSpec",
    "create_sharded_memory_config",
    "create_sharded_memory_config_",
]
