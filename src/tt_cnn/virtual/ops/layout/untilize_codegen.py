# SPDX-License-Identifier: Apache-2.0
"""The generated untilize: bfloat16 and bfloat8_b, interleaved to interleaved, with circular buffers as deep as fit."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.ops.layout.capacity import pending_output, program_limit
from tt_cnn.virtual.ops.layout.relayout import extent, padded_as
from tt_cnn.virtual.ops.layout.untilize_program import UntilizeCodegenProgram
from tt_cnn.virtual.ops.layout.work_split import split_work
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_TILE = 2048
_WIDE_ROW_BYTES = 800_000
"""A row of tiles, held twice, above this is left to the other programs."""


def untilized_dtype(dtype: DataType) -> DataType:
    """Rows cannot be block floats; bfloat4_b is not converted and refused when the output is made."""
    return DataType.BFLOAT16 if dtype is DataType.BFLOAT8_B else dtype


@dataclass(frozen=True)
class _Tiles:
    width: int
    rows: int
    aligned: bool

    @classmethod
    def of(cls, spec: Spec) -> _Tiles:
        width = extent(spec.padded_shape, 1) // TILE_SIZE
        whole = extent(spec.shape, 2) % TILE_SIZE == 0 and extent(spec.shape, 1) % TILE_SIZE == 0
        return cls(width, spec.physical[0] // TILE_SIZE, whole)


def is_generated(planner: Planner, spec: Spec, config: MemoryConfig) -> bool:
    """Whether the generated program takes the call: its kind of tensor, and L1 enough right now."""
    if spec.layout is not Layout.TILE or spec.dtype not in (DataType.BFLOAT16, DataType.BFLOAT8_B):
        return False
    if spec.is_sharded or config.is_sharded():
        return False
    tiles = _Tiles.of(spec)
    if not tiles.aligned:
        if (
            spec.dtype is not DataType.BFLOAT16
            or 2 * div_up(extent(spec.shape, 1), TILE_SIZE) * _TILE > _WIDE_ROW_BYTES
        ):
            return False
    elif tiles.rows > 1:
        if 2 * tiles.width * _TILE > _WIDE_ROW_BYTES:
            return False
    elif tiles.width > 1 and 2 * split_work(planner.card, tiles.width)[1] * _TILE > program_limit(planner):
        return False
    out = _output_spec(spec, config)
    pending = pending_output(planner, out.padded_shape, config, out.dtype, Layout.ROW_MAJOR)
    return _depths(planner, max(planner.program_l1() - pending, 0), tiles, spec.dtype, out.dtype) is not None


def _output_spec(spec: Spec, config: MemoryConfig) -> Spec:
    dtype = untilized_dtype(spec.dtype)
    if not _Tiles.of(spec).aligned:
        return Spec(spec.shape, dtype, Layout.ROW_MAJOR, config)
    return padded_as(spec.shape, dtype, Layout.ROW_MAJOR, config, spec.padded_shape)


def _columns(planner: Planner, tiles: _Tiles) -> int:
    """Parts of a row, where there are fewer rows than cores."""
    if tiles.rows >= planner.card.cores or tiles.width < 2:
        return 1
    most = min(planner.card.cores // tiles.rows, tiles.width)
    return next((n for n in range(most, 1, -1) if tiles.width % n == 0), 1)


def _share(planner: Planner, tiles: _Tiles) -> tuple[CoreRangeSet, int]:
    """The cores and the tiles that one of them untilizes at a time."""
    card = planner.card
    if tiles.aligned and tiles.rows == 1 and tiles.width > 1:
        return split_work(card, tiles.width, row_wise=True)
    columns = _columns(planner, tiles) if tiles.aligned and tiles.width > 1 else 1
    cores, _ = split_work(card, tiles.rows * columns, row_wise=True)
    return cores, tiles.width // columns


def _depths(planner: Planner, free: int, tiles: _Tiles, source: DataType, target: DataType) -> tuple[int, int] | None:
    """Tiles in the input's and the output's buffer: both double, the input's double, both single."""
    _, share = _share(planner, tiles)
    page = max(source.tile_bytes, target.tile_bytes)
    for deep_in, deep_out in ((2, 2), (2, 1), (1, 1)):
        if (deep_in + deep_out) * share * page <= free:
            return deep_in * share, deep_out * share
    return None


def plan_generated(planner: Planner, x: Slot, config: MemoryConfig) -> Slot:
    out = planner.allocate(_output_spec(x.spec, config))
    tiles = _Tiles.of(x.spec)
    cores, _ = _share(planner, tiles)
    depths = _depths(planner, planner.program_l1(), tiles, x.spec.dtype, out.spec.dtype)
    assert depths is not None, "is_generated has reserved the output"
    pages = [round_up(slot.spec.dtype.tile_bytes, planner.card.dram_alignment) for slot in (x, out)]
    named = zip(("input", "output"), depths, pages, strict=True)
    buffers = tuple(CircularBuffer(depth * page, cores, name=name) for name, depth, page in named)
    planner.dispatch(UntilizeCodegenProgram(cores=cores, buffers=buffers, depths=depths), [x], [out])
    return out
