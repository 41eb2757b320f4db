# SPDX-License-Identifier: Apache-2.0
"""The programs of concat: their cores and buffers, after TT-NN's program factories."""

from __future__ import annotations

from math import gcd, prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.relayout import staging
from tt_cnn.virtual.ops.shape.concat.shared import Concat, height_concat, width_concat
from tt_cnn.virtual.ops.shape.concat.transfers import check_transfers
from tt_cnn.virtual.ops.shape.programs import CoresAndBuffers, alignment, borrowed, circular, cores_for
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, div_up, round_up
from tt_cnn.virtual.types.tensor_spec import Spec

OUTPUT_BUFFER = 16
DATAFLOW_WORD = 32


def pages(call: Concat) -> CoresAndBuffers:
    """Page by page over all cores, two pages in flight (one where they are too large)."""
    card = call.planner.card
    out = call.output.spec
    if out.layout is Layout.ROW_MAJOR:
        count = out.physical[0]
        word = max(alignment(card, call.inputs[0].spec), alignment(card, out))
        page = round_up(out.dtype.element_bytes * out.padded_shape[-1], word)
    else:
        count = out.volume // TILE_SIZE**2
        page = out.dtype.tile_bytes
    cores = cores_for(card, count) if call.grid is None or out.is_sharded else _even_cores(call.grid, count)
    room = card.l1_size - card.l1_base
    fatal(
        page <= room,
        f"ttnn.concat: required DFB entry size ({page} B) exceeds per-core L1 capacity ({room} B); op cannot fit on "
        "this device.",
    )
    depth = 2 if 2 * page <= card.l1_size // 2 - card.l1_base else 1
    return cores, [staging(page * depth, cores, name="pages")]


def _even_cores(grid: CoreRangeSet, count: int) -> CoreRangeSet:
    """Of a given grid, a number of cores that divides the pages."""
    listed = list(grid.cores(row_wise=False))
    used = next(n for n in range(len(listed), 0, -1) if count % n == 0)
    return CoreRangeSet([CoreRange(core) for core in listed[:used]])


def two_row_major_shards(call: Concat) -> CoresAndBuffers:
    """Two height-sharded row-major tensors side by side: each core joins its own rows."""
    cores = call.inputs[0].spec.shard.grid
    buffers = []
    named = [*((f"input_{i}", x) for i, x in enumerate(call.inputs)), ("output", call.output)]
    for name, slot in named:
        rows, width = slot.spec.shard.shape
        entry = round_up(width * slot.spec.dtype.element_bytes, DATAFLOW_WORD)
        buffers.append(borrowed(call.planner, f"s2s_rm_{name}", entry, rows, cores, slot, name))
    return cores, buffers


def _shard_tiles(spec: Spec) -> tuple[int, int]:
    rows, columns = spec.shard.shape
    fatal(rows % TILE_SIZE == 0, "Shard height must be aligned to tile height")
    fatal(columns % TILE_SIZE == 0, "Shard width must be aligned to tile width")
    return rows // TILE_SIZE, columns // TILE_SIZE


def two_tiled_shards(call: Concat) -> CoresAndBuffers:
    """Two height-sharded tiled tensors side by side, group by group: tiles are transposed, joined, transposed back."""
    for i, x in enumerate(call.inputs):
        logical, padded = x.spec.shape[-1], x.spec.padded_shape[-1]
        fatal(
            logical == padded,
            f"Cannot have padding along width dimension in input tensor {i} ({logical} != {padded})",
        )
    for i, x in enumerate(call.inputs):
        fatal(
            x.spec.padded_shape[-1] % call.groups == 0,
            f"Input tensor {i} columns must be evenly divisible by groups (W={x.spec.padded_shape[-1]}, "
            f"groups={call.groups})",
        )
    for i, x in enumerate(call.inputs):
        each = x.spec.padded_shape[-1] // call.groups
        fatal(each >= TILE_SIZE // 2, f"Group size must be at least 16 for input{i} (was {each})")
    cores = call.inputs[0].spec.shard.grid
    dtype = call.inputs[0].spec.dtype
    tiles = [_shard_tiles(x.spec) for x in call.inputs]
    rows, columns = _shard_tiles(call.output.spec)
    buffers = [
        borrowed(call.planner, f"s2s_tiled_input{i}", dtype.tile_bytes, h * w, cores, x, f"input_{i}")
        for i, (x, (h, w)) in enumerate(zip(call.inputs, tiles, strict=True))
    ]
    buffers.append(
        borrowed(call.planner, "s2s_tiled_output", dtype.tile_bytes, rows * columns, cores, call.output, "output")
    )
    unpacked = DataType.BFLOAT16.tile_bytes if dtype is DataType.BFLOAT8_B else dtype.tile_bytes
    joined = tiles[0][1] + tiles[1][1]
    buffers += [
        staging(unpacked * tiles[0][1], cores, name="input 0 turned"),
        staging(unpacked * tiles[1][1], cores, name="input 1 turned"),
        staging(unpacked * joined, cores, name="joined"),
        staging(dtype.tile_bytes * joined, cores, name="joined turned back"),
    ]
    return cores, buffers


def many_shards(call: Concat) -> CoresAndBuffers:
    """Height shards joined in width, or width shards joined in height, by copies within each core."""
    first, out = call.inputs[0].spec, call.output.spec
    high = height_concat(len(first.shape), call.dim)
    blocks = prod(tuple(first.padded_shape)[:-2]) if high else 1
    fatal(
        len(call.inputs) <= OUTPUT_BUFFER,
        f"Not enough circular buffer for {len(call.inputs)} inputs.",
    )
    if out.layout is Layout.ROW_MAJOR:
        word = alignment(call.planner.card, first)
        element = first.dtype.element_bytes
        # The library takes the output's width in elements here, not in bytes.
        page = gcd(
            round_up(out.shard.shape[1], word),
            *(round_up(element * x.spec.shard.shape[1], word) for x in call.inputs),
        )
        unit_height, unit_width = 1, page // element
    else:
        page, unit_height, unit_width = out.dtype.tile_bytes, TILE_SIZE, TILE_SIZE
    cores = first.shard.grid
    buffers = []
    filled = 0
    sticks_of = []
    for i, x in enumerate(call.inputs):
        wide, sticks = div_up(x.spec.shard.shape[1], unit_width), div_up(x.spec.shard.shape[0], unit_height)
        fatal(
            sticks % blocks == 0,
            f"Height concat: input {i} has {sticks} shard rows, which does not divide into the {blocks} leading "
            f"indices of shape {x.spec.padded_shape}.",
        )
        filled += page * wide * sticks // blocks
        sticks_of.append(wide)
        buffers.append(circular(f"input {i}", i, page, wide * sticks, cores, x))
    wide, sticks = div_up(out.shard.shape[1], unit_width), div_up(out.shard.shape[0], unit_height)
    buffers.append(circular("output", OUTPUT_BUFFER, page, wide * sticks, cores, call.output))
    fatal(
        sticks % blocks == 0,
        f"Height concat: output has {sticks} shard rows, which does not divide into the {blocks} leading indices of "
        f"shape {out.padded_shape}.",
    )
    if high:
        for i, found in enumerate(sticks_of):
            fatal(
                found == wide,
                f"Height concat: input {i} is {found} pages wide but the output is {wide}; height concat requires "
                "equal widths.",
            )
        apart = page * wide * (sticks // blocks)
        fatal(
            filled == apart,
            f"Height concat: inputs fill {filled} bytes per leading index but the output shard spaces them {apart} "
            f"apart ({sticks} rows over {blocks} indices), which would leave gaps inside the tensor.",
        )
    return cores, buffers


def blocks(call: Concat) -> CoresAndBuffers:
    """Block shards: every core fetches its part of the output from the cores that have it."""
    first, out = call.inputs[0].spec, call.output.spec
    word = call.planner.card.l1_alignment
    row_major = out.layout is Layout.ROW_MAJOR
    element = 1 if first.dtype.is_block_float else first.dtype.element_bytes
    if row_major:
        for i, x in enumerate(call.inputs):
            _check_row(f"Input {i} shard row size", x.spec.shard.shape[1], element, word)
        _check_row("Output shard row size", out.shard.shape[1], element, word)
    check_transfers(call, width_concat(len(first.shape), call.dim))
    unit = element if row_major else out.dtype.tile_bytes
    elements = 1 if row_major else TILE_SIZE**2
    cores = first.shard.grid
    slots = [*((f"input {i}", i, x) for i, x in enumerate(call.inputs)), ("output", OUTPUT_BUFFER, call.output)]
    return cores, [circular(name, i, unit, prod(x.spec.shard.shape) // elements, cores, x) for name, i, x in slots]


def _check_row(what: str, width: int, element: int, word: int) -> None:
    fatal(
        width * element % word == 0,
        f"{what} ({width * element} bytes = {width} elements x {element} bytes) is not L1-aligned ({word} bytes). "
        "Block-sharded RM concat requires aligned row sizes for correct NOC transfers.",
    )
