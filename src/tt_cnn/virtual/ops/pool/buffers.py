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
_INDEX_TILES = 6
"""Tiles of indices that a pool with indices keeps beside a tile of values; with a large kernel two more."""
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
    """Bytes a core, in the order of their making."""

    scalars: tuple[int, ...]
    clear_value: int
    windows: tuple[int, int]
    indices: tuple[int, ...]
    untiled_output: int
    """Rows of the output before they are tiled; 0 where it is row-major."""
    output: int
    output_indices: int

    @property
    def own(self) -> int:
        """All that is neither input nor output nor table."""
        return sum(self.scalars) + self.clear_value + sum(self.windows) + sum(self.indices) + self.untiled_output


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
    output = max(1, height * width // _TILE) * dtype.tile_bytes if wish.tiled else height * width * _ELEMENT
    return PoolBuffers(
        (_BUFFERED * tile,) * (1 if pool.has_one_scalar else 2),
        tile,
        (_BUFFERED * window * _ELEMENT,) * 2,
        _index_tiles(pool, large) if wish.indices else (),
        tiles * tile if wish.tiled else 0,
        output,
        height * width * index_dtype(pool).element_bytes if wish.indices else 0,
    )


def _index_tiles(pool: Pool, large: bool) -> tuple[int, ...]:
    index = _TILE * index_dtype(pool).element_bytes
    return index, _TILE * _ELEMENT, *(index,) * (_INDEX_TILES - 1 + 2 * large)


def need_of_buffers(pool: Pool, wish: Wish, buffers: PoolBuffers, rows: int) -> int:
    """`calculate_L1_usage`: all buffers, the output's too, and tables out of DRAM at their worst."""
    tables = 0
    if wish.tables_in_dram:
        tables = rows * _TABLE_ENTRY + 2 + (0 if pool.has_one_scalar else rows * _TABLE_ENTRY)
    return buffers.own + tables + round_up(buffers.output, _ALIGNMENT) + round_up(buffers.output_indices, _ALIGNMENT)
