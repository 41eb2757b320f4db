# SPDX-License-Identifier: Apache-2.0
"""How a tensor is divided among cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn.virtual.types.enums import ShardOrientation
from tt_cnn.virtual.types.geometry import CoreRangeSet, natural


class ShardSpec:
    """The cores of a sharded tensor, the shape of one shard, and the order in which cores are filled.

    As in TT-NN its fields can be assigned, a memory config takes a copy, and `shape` is a new list each time. What
    belongs to a tensor or a plan is sealed: it does not change any more.
    """

    __slots__ = ("_grid", "_orientation", "_sealed", "_shape")

    def __init__(
        self,
        grid: CoreRangeSet,
        shard_shape: Sequence[int],
        shard_orientation: ShardOrientation,
    ) -> None:
        self._sealed: ShardSpec | None = None
        self.grid = grid
        self.shape = shard_shape
        self.orientation = shard_orientation

    @property
    def grid(self) -> CoreRangeSet:
        return self._grid

    @grid.setter
    def grid(self, grid: CoreRangeSet) -> None:
        if not isinstance(grid, CoreRangeSet):
            raise TypeError(f"grid is {grid!r}; a ShardSpec takes a CoreRangeSet")
        self._change("grid")
        self._grid = grid

    @property
    def shape(self) -> list[int]:
        return list(self._shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        if not isinstance(shape, Sequence) or len(shape) != 2:
            raise TypeError(f"shard_shape is {shape!r}; it must have a height and a width")
        self._change("shape")
        self._shape = natural(shape[0], "a side of shard_shape"), natural(shape[1], "a side of shard_shape")

    @property
    def orientation(self) -> ShardOrientation:
        return self._orientation

    @orientation.setter
    def orientation(self, orientation: ShardOrientation) -> None:
        if not isinstance(orientation, ShardOrientation):
            raise TypeError(f"shard_orientation is {orientation!r}; it must be a ShardOrientation")
        self._change("orientation")
        self._orientation = orientation

    def _change(self, name: str) -> None:
        if self._sealed is self:
            raise AttributeError(
                f"{name} of this ShardSpec cannot be assigned: it is a tensor's own. tensor.memory_config() gives a "
                "copy to change"
            )
        self._sealed = None

    @property
    def is_sealed(self) -> bool:
        return self._sealed is self

    def sealed(self) -> ShardSpec:
        """The same for good; made once, until this one changes."""
        if self._sealed is None:
            self._sealed = self.copy()
            self._sealed._sealed = self._sealed
        return self._sealed

    def copy(self) -> ShardSpec:
        """One that can be changed, and changes nothing else."""
        made = object.__new__(ShardSpec)
        made._grid, made._shape, made._orientation, made._sealed = self._grid, self._shape, self._orientation, None
        return made

    def num_cores(self) -> int:
        return self._grid.num_cores()

    @property
    def row_wise(self) -> bool:
        return self._orientation is ShardOrientation.ROW_MAJOR

    def _key(self) -> tuple[Any, ...]:
        return self._grid, self._shape, self._orientation

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ShardSpec) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardSpec, self._key()

    def __repr__(self) -> str:
        ranges = (
            f'{{"start":{{"x":{r.start.x},"y":{r.start.y}}},"end":{{"x":{r.end.x},"y":{r.end.y}}}'  # as TT-NN leaves it
            for r in self._grid.ranges()
        )
        return (
            f"ShardSpec{{grid=[{', '.join(ranges)}], shape=[{self._shape[0]}, {self._shape[1]}], "
            f"orientation={self._orientation.native}}}"
        )
