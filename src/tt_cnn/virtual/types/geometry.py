# SPDX-License-Identifier: Apache-2.0
"""Coordinates, core ranges and shapes: value types that print and compare as TT-NN's do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

TILE_SIZE = 32
FACE_SIZE = 16
"""A side of the four faces of a tile."""


def div_up(value: int, divisor: int) -> int:
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple if multiple else value


class CoreCoord:
    """A core by its logical column x and row y."""

    __slots__ = ("x", "y")

    x: int
    y: int

    def __init__(self, x: int | Sequence[int] | CoreCoord, y: int | None = None) -> None:
        if y is None:
            if isinstance(x, CoreCoord):
                x = (x.x, x.y)
            if not isinstance(x, Sequence) or len(x) != 2:
                raise TypeError(f"CoreCoord takes x and y, or a pair of them; it was given {x!r}")
            x, y = x
        _set_x(self, natural(x, "CoreCoord.x"))
        _set_y(self, natural(y, "CoreCoord.y"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(_fixed(self, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return CoreCoord, (self.x, self.y)

    def __repr__(self) -> str:
        return f"{self.x}-{self.y}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return (self.x, self.y) == other
        return isinstance(other, CoreCoord) and (self.x, self.y) == (other.x, other.y)

    def __lt__(self, other: CoreCoord) -> bool:
        return (self.x, self.y) < (other.x, other.y)

    def __hash__(self) -> int:
        return hash((self.x, self.y))


_set_x, _set_y = (CoreCoord.__dict__[name].__set__ for name in ("x", "y"))


def _fixed(value: object, name: str) -> str:
    return f"property {name!r} of {type(value).__name__!r} object has no setter"


def natural(value: object, name: str) -> int:
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; it must be a whole number, 0 or more")
    number = value.__index__()
    if number < 0:
        raise TypeError(f"{name} is {number}; it must be a whole number, 0 or more")
    return int(number)


class CoreRange:
    """A rectangle of cores, both corners included."""

    __slots__ = ("end", "start")

    start: CoreCoord
    end: CoreCoord

    def __init__(self, start: CoreCoord | Sequence[int], end: CoreCoord | Sequence[int] | None = None) -> None:
        first = start if isinstance(start, CoreCoord) else CoreCoord(start)
        _set_start(self, first)
        _set_end(self, first if end is None else end if isinstance(end, CoreCoord) else CoreCoord(end))
        if self.end.x < self.start.x or self.end.y < self.start.y:
            raise RuntimeError(f"Invalid core range for start_coord: {self.start}, end_coord: {self.end}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(_fixed(self, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return CoreRange, (self.start, self.end)

    def grid_size(self) -> CoreCoord:
        return CoreCoord(self.end.x - self.start.x + 1, self.end.y - self.start.y + 1)

    def size(self) -> int:
        return (self.end.x - self.start.x + 1) * (self.end.y - self.start.y + 1)

    def contains(self, other: CoreCoord | CoreRange | CoreRangeSet) -> bool:
        if isinstance(other, CoreRangeSet):
            return all(self.contains(r) for r in other.ranges())
        first, last = (other, other) if isinstance(other, CoreCoord) else (other.start, other.end)
        return self.start.x <= first.x and last.x <= self.end.x and self.start.y <= first.y and last.y <= self.end.y

    def intersects(self, other: CoreRange) -> bool:
        return not (
            self.end.x < other.start.x
            or other.end.x < self.start.x
            or self.end.y < other.start.y
            or other.end.y < self.start.y
        )

    def cores(self, row_wise: bool = True) -> Iterator[CoreCoord]:
        xs = range(self.start.x, self.end.x + 1)
        ys = range(self.start.y, self.end.y + 1)
        if row_wise:
            return (CoreCoord(x, y) for y in ys for x in xs)
        return (CoreCoord(x, y) for x in xs for y in ys)

    def __repr__(self) -> str:
        return f"[{self.start} - {self.end}]"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, CoreRange) and self._corners() == other._corners())

    def __hash__(self) -> int:
        return hash(self._corners())

    def _corners(self) -> tuple[int, int, int, int]:
        return self.start.x, self.start.y, self.end.x, self.end.y


_set_start, _set_end = (CoreRange.__dict__[name].__set__ for name in ("start", "end"))


class CoreRangeSet:
    """Rectangles of cores that do not overlap, in the order in which shards are distributed to them."""

    __slots__ = ("_box", "_count", "_hash", "_ranges")
    _ranges: tuple[CoreRange, ...]
    _box: CoreRange | None

    def __init__(self, core_ranges: Iterable[CoreRange] | CoreRange | CoreRangeSet = ()) -> None:
        if isinstance(core_ranges, CoreRange):
            core_ranges = (core_ranges,)
        elif isinstance(core_ranges, CoreRangeSet):
            core_ranges = core_ranges._ranges
        ranges = tuple(core_ranges)
        for i, one in enumerate(ranges):
            if not isinstance(one, CoreRange):
                raise TypeError(f"CoreRangeSet takes CoreRanges; it was given {one!r}")
            for other in ranges[:i]:
                if one.intersects(other):
                    raise RuntimeError(
                        f"Cannot create CoreRangeSet with specified core ranges because core ranges {other} and {one} "
                        "overlap!"
                    )
        self._ranges = ranges
        self._count = sum(r.size() for r in ranges)
        self._hash = hash(ranges)
        self._box = None

    def ranges(self) -> list[CoreRange]:
        return list(self._ranges)

    def num_cores(self) -> int:
        return self._count

    def size(self) -> int:
        return len(self._ranges)

    def empty(self) -> bool:
        return not self._ranges

    def bounding_box(self) -> CoreRange:
        if not self._ranges:
            raise RuntimeError("Cannot get bounding_box of an empty CoreRangeSet!")
        if self._box is None:
            self._box = CoreRange(
                CoreCoord(min(r.start.x for r in self._ranges), min(r.start.y for r in self._ranges)),
                CoreCoord(max(r.end.x for r in self._ranges), max(r.end.y for r in self._ranges)),
            )
        return self._box

    def contains(self, other: CoreCoord | CoreRange | CoreRangeSet) -> bool:
        mine = set(self.cores())
        cores = [other] if isinstance(other, CoreCoord) else list(other.cores())
        return all(core in mine for core in cores)

    def cores(self, row_wise: bool = True) -> Iterator[CoreCoord]:
        for one in self._ranges:
            yield from one.cores(row_wise)

    def merge(self, other: CoreRangeSet | Iterable[CoreRange]) -> CoreRangeSet:
        cores = set(self.cores())
        for one in CoreRangeSet(other)._ranges:
            cores.update(one.cores())
        return cores_to_ranges(cores)

    def subtract(self, other: CoreRangeSet) -> CoreRangeSet:
        """Each range falls into what is left of, right of, above and below a range that is taken out, in that order."""
        left = list(self._ranges)
        for taken in other._ranges:
            left = [piece for one in left for piece in _without(one, taken)]
        return CoreRangeSet(left)

    def __repr__(self) -> str:
        return "{" + ", ".join(map(str, self._ranges)) + "}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, CoreRangeSet) and self._ranges == other._ranges)

    def __hash__(self) -> int:
        return self._hash


def _without(one: CoreRange, taken: CoreRange) -> list[CoreRange]:
    if not one.intersects(taken):
        return [one]
    (x0, y0), (x1, y1) = (one.start.x, one.start.y), (one.end.x, one.end.y)
    a, b = max(x0, taken.start.x), min(x1, taken.end.x)
    pieces = []
    if x0 < a:
        pieces.append(CoreRange((x0, y0), (a - 1, y1)))
    if b < x1:
        pieces.append(CoreRange((b + 1, y0), (x1, y1)))
    if y0 < taken.start.y:
        pieces.append(CoreRange((a, y0), (b, taken.start.y - 1)))
    if taken.end.y < y1:
        pieces.append(CoreRange((a, taken.end.y + 1), (b, y1)))
    return pieces


def cores_to_ranges(cores: Iterable[CoreCoord]) -> CoreRangeSet:
    """The cores as few rectangles: runs along rows, equal runs of neighbouring rows joined."""
    rows: dict[int, list[int]] = {}
    for core in cores:
        rows.setdefault(core.y, []).append(core.x)
    open_runs: dict[tuple[int, int], tuple[int, int]] = {}
    done: list[CoreRange] = []

    def close(run: tuple[int, int]) -> None:
        first, last = open_runs.pop(run)
        done.append(CoreRange((run[0], first), (run[1], last)))

    for y in sorted(rows):
        runs = set(_runs(sorted(rows[y])))
        for run in [r for r in open_runs if r not in runs or open_runs[r][1] != y - 1]:
            close(run)
        for run in runs:
            open_runs[run] = (open_runs[run][0] if run in open_runs else y, y)
    for run in list(open_runs):
        close(run)
    return CoreRangeSet(sorted(done, key=lambda r: (r.start.y, r.start.x)))


def _runs(sorted_values: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for value in sorted_values:
        if runs and runs[-1][1] == value - 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def num_cores_to_corerangeset(target_num_cores: int, grid_size: CoreCoord, row_wise: bool = False) -> CoreRangeSet:
    """The first cores of a grid, full rows first (row_wise) or full columns first, then a partial one."""
    if target_num_cores > grid_size.x * grid_size.y:
        raise RuntimeError(
            f"Target number of cores {target_num_cores} is greater than total number of available cores "
            f"{grid_size.x * grid_size.y}"
        )
    length = grid_size.x if row_wise else grid_size.y
    full, rest = divmod(target_num_cores, length)
    ranges = []
    if full:
        end = (length - 1, full - 1) if row_wise else (full - 1, length - 1)
        ranges.append(CoreRange((0, 0), end))
    if rest:
        start, stop = ((0, full), (rest - 1, full)) if row_wise else ((full, 0), (full, rest - 1))
        ranges.append(CoreRange(start, stop))
    return CoreRangeSet(ranges)


def first_cores(grid: CoreRangeSet, count: int, row_wise: bool = True) -> CoreRangeSet:
    """The first `count` cores of a set of ranges, in the order in which shards are distributed to them."""
    if count >= grid.num_cores():
        return grid
    taken: list[CoreRange] = []
    for one in grid.ranges():
        if count <= 0:
            break
        if one.size() <= count:
            taken.append(one)
            count -= one.size()
            continue
        size = one.grid_size()
        part = num_cores_to_corerangeset(count, size, row_wise)
        taken += [
            CoreRange(
                (one.start.x + r.start.x, one.start.y + r.start.y), (one.start.x + r.end.x, one.start.y + r.end.y)
            )
            for r in part.ranges()
        ]
        count = 0
    return CoreRangeSet(taken)


class CoreGrid:
    """A rectangle of cores from the origin. Two equal grids compare unequal in TT-NN 0.81.1; here too."""

    __slots__ = ("x", "y")

    def __init__(self, *, x: int, y: int) -> None:
        self.x = natural(x, "CoreGrid.x")
        self.y = natural(y, "CoreGrid.y")

    @property
    def num_cores(self) -> int:
        return self.x * self.y

    def __repr__(self) -> str:
        return f"ttnn.CoreGrid(x={self.x}, y={self.y})"

    __str__ = __repr__


class Shape:
    """Dimensions of a tensor. Equal to tuples, lists and torch.Size with the same numbers; not sliceable."""

    __slots__ = ("_dims",)

    def __init__(self, shape: Iterable[int]) -> None:
        dims = tuple(shape)
        for size in dims:
            if type(size) is not int or not 0 <= size < 2**32:
                dims = tuple(natural(d, "a dimension") for d in dims)
                break
        self._dims = dims
        if dims and max(dims) >= 2**32:
            raise TypeError(f"the shape is {dims}; a dimension must be below 2**32")

    @property
    def rank(self) -> int:
        return len(self._dims)

    def to_rank(self, rank: int) -> Shape:
        """The same volume with ones put in front, or leading ones taken away."""
        extra = rank - len(self._dims)
        if extra >= 0:
            return Shape((1,) * extra + self._dims)
        if any(d != 1 for d in self._dims[:-extra]):
            raise RuntimeError("Can't convert shape rank")
        return Shape(self._dims[-extra:])

    def volume(self) -> int:
        return prod(self._dims)

    def __getitem__(self, index: int) -> int:
        dims = self._dims
        if type(index) is int and -len(dims) <= index < len(dims):
            return dims[index]
        if isinstance(index, slice):
            raise TypeError("a Shape takes a whole number as index, not a slice; use list(shape)[...]")
        rank = len(dims)
        kept = max(rank, 4)  # the real Shape has ones before the first of fewer dimensions
        if not -kept <= index < rank:
            raise RuntimeError(f"ShapeBase[] index out of range. {index} not in [{-kept}, {rank})")
        return dims[index] if index >= -rank else 1

    def __len__(self) -> int:
        return len(self._dims)

    def __iter__(self) -> Iterator[int]:
        return iter(self._dims)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape):
            return self._dims == other._dims
        if isinstance(other, (tuple, list)):
            return self._dims == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"Shape([{', '.join(map(str, self._dims))}])"

    __str__ = __repr__


class MeshShape:
    """Rows and columns of a mesh of devices."""

    __slots__ = ("_dims",)

    def __init__(self, *dims: Any) -> None:
        if len(dims) == 1 and not isinstance(dims[0], int):
            dims = tuple(dims[0])
        self._dims = tuple(natural(d, "a mesh dimension") for d in dims)

    def dims(self) -> int:
        return len(self._dims)

    def mesh_size(self) -> int:
        return prod(self._dims)

    def __getitem__(self, index: int) -> int:
        return self._dims[index]

    def __len__(self) -> int:
        return len(self._dims)

    def __iter__(self) -> Iterator[int]:
        return iter(self._dims)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeshShape) and self._dims == other._dims

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"MeshShape([{', '.join(map(str, self._dims))}])"

    __str__ = __repr__


class Tile:
    """The 32x32 tile of four 16x16 faces; the only one the virtual card has."""

    def __init__(self, tile_shape: Sequence[int] = (32, 32), transpose_tile: bool = False) -> None:
        if tuple(tile_shape) != (32, 32):
            raise ValueError(f"tile_shape is {tuple(tile_shape)}; the virtual card has tiles of (32, 32) only")
        self.tile_shape = [32, 32]
        self.face_shape = [16, 16]
        self.num_faces = 4

    def get_tile_size(self, dtype: Any) -> int:
        return int(dtype.tile_bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tile)

    def __hash__(self) -> int:
        return hash("tile")

    def __repr__(self) -> str:
        return "Tile with shape: [32, 32]"
