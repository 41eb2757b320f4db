# SPDX-License-Identifier: Apache-2.0
"""Tiled tensors joined along widths that are not whole tiles: bands of 32 rows are untilized, joined and tilized."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.ops.layout.capacity import pending_output
from tt_cnn.virtual.ops.shape.concat.shared import Concat
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, band_cores
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, Shape, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig

MAX_INPUTS = 32


def _tiles(inputs: Sequence[Slot]) -> tuple[int, int]:
    """Tiles of a band over all inputs, and in the output."""
    return (
        sum(x.spec.padded_shape[-1] // TILE_SIZE for x in inputs),
        div_up(sum(x.spec.shape[-1] for x in inputs), TILE_SIZE),
    )


def _bands(inputs: Sequence[Slot]) -> int:
    height, _ = inputs[0].spec.physical
    return height // TILE_SIZE


def supports_unaligned_tiles(inputs: Sequence[Slot], dim: int, groups: int, config: MemoryConfig) -> bool:
    first = inputs[0].spec
    rank = len(first.shape)
    return (
        groups == 1
        and 2 <= len(inputs) <= MAX_INPUTS
        and not config.is_sharded()
        and rank >= 2
        and dim == rank - 1
        and first.dtype in (DataType.BFLOAT16, DataType.FLOAT32)
        and all(x.spec.layout is Layout.TILE and not x.spec.is_sharded for x in inputs)
        and any(x.spec.shape[-1] != x.spec.padded_shape[-1] for x in inputs)
        and _bands(inputs) > 0
    )


def takes_unaligned_tiles(
    planner: Planner, inputs: Sequence[Slot], dim: int, groups: int, config: MemoryConfig, *, allocated: bool = True
) -> bool:
    """Whether its buffers fit below the lowest tensor; before the output is `allocated`, room is left for it."""
    if not supports_unaligned_tiles(inputs, dim, groups, config):
        return False
    first = inputs[0].spec
    taken, made = _tiles(inputs)
    pending = 0
    if not allocated:
        shape = Shape([*tuple(first.padded_shape)[:-1], made * TILE_SIZE])
        pending = pending_output(planner, shape, config, first.dtype, Layout.TILE)
    return (3 * taken + 3 * made) * first.dtype.tile_bytes + pending <= planner.program_l1()


def unaligned_tiles(call: Concat) -> CoresAndBuffers:
    bands = _bands(call.inputs)
    if call.grid is None:
        cores = band_cores(call.planner.card, bands)
    else:
        listed = list(call.grid.cores(row_wise=False))
        used = div_up(bands, div_up(bands, len(listed)))
        cores = CoreRangeSet([CoreRange(core) for core in listed[:used]])
    taken, made = _tiles(call.inputs)
    tile = call.inputs[0].spec.dtype.tile_bytes
    sizes = {"inputs": 2 * taken, "input rows": taken, "output rows": made, "output": 2 * made}
    return cores, [CircularBuffer(tiles * tile, cores, name=name) for name, tiles in sizes.items()]
