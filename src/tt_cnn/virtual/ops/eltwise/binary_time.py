# SPDX-License-Identifier: Apache-2.0
"""Time of `BinaryNg`: tile by tile, with values spread inside tiles by the reader."""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.pipeline import Block, Pages, Share, pipeline_cycles
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles
from tt_cnn.virtual.ops.eltwise.time import TILE_ELEMENTS
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_WORD = 4
_STORE = 1.5
"""Of the time for a word of a plain fill: a store of one element of a column."""
_LOAD_AND_STORE = 5.0
"""The same for an element of a float32 row, which is loaded for each store."""


def binary_cycles(step: Step, figures: Figures, in_shards: bool, vector: float) -> Cycles:
    """A tile of each operand is read, both are waited for; the writer waits for each tile that it writes.

    An operand of one row is spread for each tile, one of one column once for each row of tiles. A scalar fills a tile
    before all else. `vector`: the vector unit's cycles for a tile.
    """
    output = step.outputs[0].spec
    unpack = sum(unpack_cycles(figures, slot.spec.dtype) for slot in step.inputs)
    pack = pack_cycles(figures, output.dtype)
    tiles = div_up(output.page_shape[0] * output.page_shape[1], TILE_ELEMENTS)  # of a page: a row may have several
    compute = tiles * (max(figures.elementwise_cycles, unpack, pack) + vector)
    cores = step.cores.num_cores()
    if in_shards:
        share = Share.each(div_up(output.shard.shape[0] * output.shard.shape[1], tiles * TILE_ELEMENTS), cores)
    else:
        share = Share.of(output.num_pages, cores)
    reads, spreading = [], 0.0
    for slot in step.inputs:
        tiles_apart, cycles = _spreading(figures, slot.spec, output)
        tiles_apart = min(tiles_apart, max(1, share.blocks))
        spreading += cycles / tiles_apart
        if not (in_shards and slot.spec.is_sharded):
            reads.append(Pages(slot.spec, 1 / tiles_apart, slot.spec.page_bytes))
    if len(step.inputs) == 1:
        start = figures.offsets_cycles + output.dtype.tile_bytes / _WORD * figures.fill_word_cycles
    else:
        start = figures.offsets_cycles
    block = Block(
        reads,
        [] if in_shards and output.is_sharded else [Pages(output, 1, output.page_bytes)],
        compute=compute,
        preparing=spreading,
        waits_for_writes=True,
    )
    return pipeline_cycles(
        figures,
        share,
        block,
        vector=tiles * vector,
        unpack_pack=tiles * max(unpack, pack),
        start=start if reads or block.writes else 0.0,
    )


def _spreading(figures: Figures, operand: Spec, output: Spec) -> tuple[float, float]:
    """Tiles of the output that a tile of the operand is read once for, and the reader's cycles to spread its values."""
    if operand.page_shape[0] == 1:
        return 1, 0.0
    own, whole = (tuple(spec.shape)[-2:] if len(spec.shape) > 1 else (1, *spec.shape) for spec in (operand, output))
    rows, columns = (div_up(extent, TILE_SIZE) for extent in whole)
    words = operand.dtype.tile_bytes / _WORD * figures.fill_word_cycles
    elements = TILE_ELEMENTS * figures.fill_word_cycles
    wide = operand.dtype.tile_bytes == _WORD * TILE_ELEMENTS
    one_row, one_column = own[0] == 1 and whole[0] > 1, own[1] == 1 and whole[1] > 1
    if one_row and one_column:
        return rows * columns, words
    if one_column:
        return columns, 2 * words if operand.dtype.is_block_float else _STORE * elements
    if one_row:
        return 1, _LOAD_AND_STORE * elements if wide else words
    return 1, 0.0
