# SPDX-License-Identifier: Apache-2.0
"""The circular buffers of a pool's program (`get_factory_parameters`, pool_multi_core_program_factory.cpp)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up

FACE_SIZE = 16

_TILE = TILE_SIZE * TILE_SIZE
_ELEMENT = 2
"""Bytes of a value inside the program, which computes in bfloat16."""
_ALIGNMENT = 32
_BUFFERED = 2
_REDUCED_AT_ONCE = 8
"""Tiles of channels that one reduction takes; average pools with large kernels accumulate in float32: half of it."""
_VALUES = "packed values"
_INDEX_TILES = (
    "indices",
    _VALUES,
    "packed indices",
    "step right",
    "step down and left",
    "step up and left",
    "incremented indices",
)
"""Tiles that a pool with indices keeps, all of indices but one."""
_INDEX_TILES_OF_PARTS = ("step right in the window", "step down and left in the window")
"""Those that it keeps beside where windows are reduced in parts."""
_SHORT_INDICES = 2**16 - 1
_TABLE_ENTRY = 6
"""Bytes an output row that tables in DRAM may take at worst."""


def output_width(channels: int, tiled: bool) -> int:
    """Channels of an output shard: whole tiles, or faces where the last tile has just one face with data."""
    if tiled:
        return round_up(channels, TILE_SIZE)
    one_face = channels <= FACE_SIZE or channels % TILE_SIZE == FACE_SIZE
    return round_up(channels, FACE_SIZE if one_face else TILE_SIZE)


@dataclass(frozen=True)
class PoolBuffers:
    """Bytes per core, in the order of their making; those that are neither input nor output nor table by name."""

    before_input: tuple[tuple[str, int], ...]
    after_input: tuple[tuple[str, int], ...]
    output: int
    output_indices: int

    @property
    def own(self) -> int:
        return sum(size for _, size in (*self.before_input, *self.after_input))


def is_large(pool: Pool, cores_c: int) -> bool:
    """A window that does not fit a tile is reduced part by part; it is half a tile where channels end in one face."""
    last = pool.channels // cores_c % TILE_SIZE
    return pool.window_size > (FACE_SIZE if 0 < last <= FACE_SIZE else TILE_SIZE)


def index_dtype(pool: Pool) -> DataType:
    return DataType.UINT16 if pool.height * pool.width <= _SHORT_INDICES else DataType.UINT32


@lru_cache(maxsize=8192)
def buffers_of(pool: Pool, wish: Wish, cores_c: int, shard: tuple[int, int], dtype: DataType) -> PoolBuffers:
    """For an output of these shards; `dtype` is the output's."""
    tile = _TILE * _ELEMENT
    tiles = div_up(div_up(pool.channels, cores_c), TILE_SIZE)
    large = is_large(pool, cores_c)
    at_once = _REDUCED_AT_ONCE // 2 if pool.is_average and large else _REDUCED_AT_ONCE
    rows = pool.window_size if pool.window_size <= FACE_SIZE else TILE_SIZE
    window = _TILE if wish.indices else round_up(min(tiles, at_once) * TILE_SIZE * rows, _TILE)
    height, width = shard
    output = height * width // _TILE * dtype.tile_bytes if wish.tiled else height * width * _ELEMENT
    scalars = ("first scalar",) if pool.has_one_scalar else ("first scalar", "second scalar")
    after = [(name, _BUFFERED * window * _ELEMENT) for name in ("first window", "second window")]
    output_indices = 0
    if wish.indices:
        element = index_dtype(pool).element_bytes
        names = (*_INDEX_TILES, *(_INDEX_TILES_OF_PARTS if large else ()))
        after += [(name, _TILE * (_ELEMENT if name is _VALUES else element)) for name in names]
        output_indices = height * width * element
    if wish.tiled:
        after.append(("output rows", tiles * tile))
    return PoolBuffers(
        (*((name, _BUFFERED * tile) for name in scalars), ("clear value", tile)), tuple(after), output, output_indices
    )


def need_of_buffers(pool: Pool, wish: Wish, buffers: PoolBuffers, rows: int) -> int:
    """`calculate_L1_usage`: all buffers, the output's too, and tables out of DRAM at their worst."""
    tables = 0
    if wish.tables_in_dram:
        tables = rows * _TABLE_ENTRY + 2 + (0 if pool.has_one_scalar else rows * _TABLE_ENTRY)
    return buffers.own + tables + round_up(buffers.output, _ALIGNMENT) + round_up(buffers.output_indices, _ALIGNMENT)
