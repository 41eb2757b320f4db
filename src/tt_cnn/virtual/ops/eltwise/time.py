# SPDX-License-Identifier: Apache-2.0
"""Time of programs whose tiles stream through a core: read, unpacked, computed, packed and written at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import in_l1_shards, page_move_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles, vector_cycles
from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.layout.time import core_tiles, latency_cycles
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

TILE_ELEMENTS = TILE_SIZE * TILE_SIZE


class Tiles(NamedTuple):
    """Tiles of a tensor that a core brings in or out, so many of them for each wait."""

    spec: Spec
    number: float
    at_once: int = 1


def streamed_cycles(step: Step, figures: Figures, vector: float = 0.0, passes: int = 1) -> Cycles:
    """Each core takes its share of the largest tensor's tiles, and as many of the others.

    `vector`: the vector unit's cycles for a tile. `passes`: times that each tile goes through the core.
    """
    output = step.outputs[0].spec
    tiles = core_tiles(step)
    unpack = sum(unpack_cycles(figures, s.spec.dtype) for s in step.inputs)
    pack = pack_cycles(figures, output.dtype)
    through = max(figures.elementwise_cycles, unpack, pack) + vector
    return overlapped_cycles(
        figures,
        step.cores.num_cores(),
        [Tiles(slot.spec, tiles) for slot in step.inputs],
        [Tiles(output, tiles)],
        compute=tiles * through,
        vector=tiles * vector,
        unpack_pack=tiles * max(unpack, pack),
        passes=passes,
    )


def overlapped_cycles(
    figures: Figures,
    cores: int,
    reads: Sequence[Tiles],
    writes: Sequence[Tiles],
    *,
    compute: float,
    matrix: float = 0.0,
    vector: float = 0.0,
    unpack_pack: float = 0.0,
    passes: int = 1,
) -> Cycles:
    """A core's reader, compute and writer kernels work at the same time; the slowest of them counts.

    `compute`: all that the compute kernel does, of which `matrix`, `vector` and `unpack_pack` are parts.
    """
    reading = [_moved(tiles, cores, figures, read=True) for tiles in reads]
    writing = [_moved(tiles, cores, figures, read=False) for tiles in writes]
    moving = zip((*reads, *writes), (*reading, *writing), strict=True)
    dram = sum(cycles for tiles, cycles in moving if tiles.spec.memory_config.is_dram())
    slower = max(sum(reading), sum(writing))
    return Cycles(
        passes * max(compute, slower),
        matrix=passes * matrix,
        vector=passes * vector,
        unpack_pack=passes * unpack_pack,
        dram=passes * dram,
        noc=passes * max(0.0, slower - dram),
    )


def chain_cycles(figures: Figures, chain: Iterable[Kernel], dtype: DataType) -> float:
    """The vector unit's cycles for a tile that goes through a chain of kernels."""
    return sum(vector_cycles(figures, kernel.name, kernel.approx, dtype) for kernel in chain)


def paged_cycles(step: Step, figures: Figures, in_shards: bool, a_tile: float, vector: float = 0.0) -> Cycles:
    """One tensor page after page: each is read and waited for, computed, and written without a wait but the last.

    `a_tile`: the compute kernel's cycles for a tile, of which `vector` are the vector unit's. Rows go through the core
    as if they were tiles, each begun again. A program in shards has all tiles at hand.
    """
    source, output = step.inputs[0].spec, step.outputs[0].spec
    if in_shards:
        tiles = div_up(source.shard.shape[0] * source.shard.shape[1], TILE_ELEMENTS)
        return pipeline_cycles(figures, Share.each(tiles, 1), Block(compute=a_tile), vector=vector)
    share = Share.of(source.num_pages, step.cores.num_cores())
    tiles = div_up(source.page_shape[0] * source.page_shape[1], TILE_ELEMENTS)
    block = Block([Pages(source, 1, source.page_bytes)], [Pages(output, 1, output.page_bytes)], compute=tiles * a_tile)
    return pipeline_cycles(figures, share, block, vector=tiles * vector)


def _moved(tiles: Tiles, cores: int, figures: Figures, read: bool) -> float:
    """Page after page; a shard is at hand."""
    spec, number, at_once = tiles
    if in_l1_shards(spec):
        return 0.0
    page = max(1, spec.page_bytes)
    pages = number * TILE_ELEMENTS * spec.dtype.element_bytes / page if spec.page_shape[0] == 1 else number
    waits = pages / at_once * latency_cycles(spec, figures)
    return page_move_cycles(figures, spec, pages, page, cores, read) + waits
