# SPDX-License-Identifier: Apache-2.0
"""Time of norms and softmax: passes over rows of tiles, with what they read and write between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, multicast_cycles, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.rows import Passes, Stream, drained, rows_per_core, width_of
from tt_cnn.virtual.cost.tensix import vector_cycles
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.group_norm_problem import GroupShare
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.enums import Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_CONSTANTS = 2
"""Tiles that a norm's reader fills: the factor of the sums and epsilon."""


@dataclass(frozen=True)
class RowPasses:
    """Cycles of a tile in a norm's passes: those with the first read, until the root, and for the result."""

    first: float
    middle: float
    result: float
    number: int

    @classmethod
    def of(cls, passes: Passes, centered: bool, weights: int, biases: int, residual: bool) -> RowPasses:
        squares = passes.product + passes.total
        result = (1 + weights) * passes.product + biases * passes.plain
        added = passes.plain if residual else 0.0
        if centered:
            middle = passes.plain + squares
            return cls(added + passes.total, middle, result, 5 + weights + biases + residual)
        return cls(added + passes.product, passes.total, result, 3 + weights + biases + residual)


def row_norm_cycles(
    step: Step, figures: Figures, settings: Compute, centered: bool, named: dict[str, Spec], in_pieces: bool
) -> Cycles:
    """`layer_norm` and `rms_norm` of interleaved tensors: a core takes rows of tiles, one after the other.

    A row is read in blocks while the first pass runs (the squares, or the mean). The sums of its squares and their root
    need the whole row. Weights are read once, after the first row. Results go out block by block. An RMS norm keeps
    its row until the end, so the next one is read only then; a layer norm has moved it on by then.
    """
    x, out = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    passes = Passes(figures, settings.fidelity, settings.fp32)
    width, block = width_of(x), 4 if settings.fp32 else 8
    most, average = rows_per_core(x.num_pages // width if x.layout is Layout.TILE else 1, cores)
    weights = [named[name] for name in ("weight", "bias") if name in named]
    row = RowPasses.of(passes, centered, "weight" in named, "bias" in named, "residual" in named)
    tensors = [x, *([named["residual"]] if "residual" in named else [])]
    root = vector_cycles(figures, "rsqrt", False) + (row.number + 1) * figures.reconfigure_cycles

    pieces = 0.0
    reads = [Stream(spec, width, block) for spec in tensors]
    learned = [Stream(spec, width, block, shared=True) for spec in weights]
    write = Stream(out, width, block)
    if in_pieces:
        # the row is read again for the squares of a layer norm and for the result, and weights with each result; the
        # mean is taken off twice, and every block goes through all passes on its own
        again = passes.plain if centered else 0.0
        each_block = div_up(width, block) * row.number * figures.reconfigure_cycles
        pieces = width * (row.first + row.middle + row.result + again) + each_block
        reads = reads * (3 if centered else 2)
        reads, learned = [*reads, *learned], []

    def phases(together: float) -> float:
        """A row from its first read to its last write, where `together` cores begin with it at once."""
        reading = sum(stream.together(figures, together) for stream in reads)
        writing = write.together(figures, together, read=False)
        begun = max(reading, width * row.first)
        if in_pieces:
            return max(begun, pieces, writing) + root
        return begun + width * row.middle + root + max(width * row.result, writing)

    fetched = sum(stream.together(figures, cores) for stream in learned)
    ready = sum(stream.together(figures, cores) for stream in reads) + fetched + min(block, width) * row.result
    first = max(phases(cores), ready + (write.crowded(figures, cores, read=False) if learned else 0.0))
    pace = phases(1)
    if centered and not in_pieces:
        pace = max(sum(stream.alone(figures) for stream in reads), pace - sum(s.alone(figures) for s in reads))
    busy = sum(stream.crowded(figures, cores) for stream in reads) + write.crowded(figures, cores, read=False)
    later = max((most - 1) * pace, (average - 1) * busy)
    start = _CONSTANTS * figures.constant_tile_cycles
    total = start + first + later + drained(figures, out, min(block, width))
    moved = average * busy + fetched
    compute = most * width * (row.first + row.middle + row.result)
    in_dram = any(spec.memory_config.is_dram() for spec in (*tensors, out))
    return Cycles(
        total,
        vector=most * vector_cycles(figures, "rsqrt", False),
        unpack_pack=compute,
        dram=moved if in_dram else fetched,
        noc=0.0 if in_dram else moved,
    )


def sharded_norm_cycles(
    step: Step, figures: Figures, settings: Compute, centered: bool, named: dict[str, Spec]
) -> Cycles:
    """The same of shards: each core sums up its part of the rows, and the sums are gathered and sent to all.

    Where the shards of a row fill a rectangle of cores, each line of it gathers first, and one of them the lines'
    sums. A layer norm does so twice, for mean and variance. The writer fetches the core's weights meanwhile.
    """
    x = step.inputs[0].spec
    height, width = div_up(x.shard.shape[0], TILE_SIZE), div_up(x.shard.shape[1], TILE_SIZE)
    tiles = height * width
    cores = step.cores.num_cores()
    passes = Passes(figures, settings.fidelity, settings.fp32)
    row = RowPasses.of(passes, centered, "weight" in named, "bias" in named, "residual" in named)
    members = max(1, cores // max(1, x.shards[0]))
    box = x.shard.grid.bounding_box().grid_size()
    lines = (box.x, box.y) if members == box.x * box.y and min(box.x, box.y) > 1 else (members, 1)
    gathered = div_up(height, members)
    rounds = (2 if centered else 1) * exchange_cycles(figures, passes, lines, gathered) if members > 1 else 0.0
    learned = [Stream(named[name], width, width) for name in ("weight", "bias") if name in named]
    fetched = sum(stream.together(figures, cores) for stream in learned)
    root = height * vector_cycles(figures, "rsqrt", False) + (row.number + 1) * figures.reconfigure_cycles
    before = tiles * (row.first + row.middle) + rounds + root
    start = (_CONSTANTS + 1) * figures.constant_tile_cycles
    total = start + max(before, fetched) + tiles * row.result
    in_dram = any(stream.spec.memory_config.is_dram() for stream in learned)
    return Cycles(
        total,
        vector=height * vector_cycles(figures, "rsqrt", False),
        unpack_pack=tiles * (row.first + row.middle + row.result),
        dram=fetched if in_dram else 0.0,
        noc=rounds,
    )


def exchange_cycles(figures: Figures, passes: Passes, lines: Sequence[int], rows: int) -> float:
    """Sums of all cores brought together: a line of cores gets a signal, is read and added up; all get the result."""
    tile = passes.tile_bytes
    one = transaction_cycles(figures, Way.L1_READ, tile)
    cycles = 0.0
    for members in lines:
        if members > 1:
            signal = figures.l1_latency_cycles + figures.handshake_cycles
            cycles += signal + rows * (figures.l1_latency_cycles + members * (one + passes.total))
    return cycles + figures.l1_latency_cycles + multicast_cycles(figures, tile, 1)


# --- softmax --------------------------------------------------------------------------------------------------------


def softmax_cycles(step: Step, figures: Figures, settings: Compute, units: int, length: int, long: bool) -> Cycles:
    """`units` rows (or columns, or stacks) of `length` tiles, distributed to the cores, one after the other.

    Passes: the maximum, what is less it, its exponential, their sum, and the product with the sum's inverse. Where
    `long`, tiles are read again for each, and exponentials are taken for the sum and once more for the result.
    """
    x, out = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    most, average = rows_per_core(units, cores)
    passes = Passes(figures, settings.fidelity, settings.fp32)
    exponential = vector_cycles(figures, "exp", False)
    again = 2 if long else 1
    vector = again * exponential
    a_tile = 2 * passes.total + again * passes.plain + passes.product + vector
    inverse = vector_cycles(figures, "recip", False) + 5 * figures.reconfigure_cycles
    compute = length * a_tile + inverse
    reads = Stream(x, (3 if long else 1) * length, 1 if long else length)
    write = Stream(out, length, length)
    busy = reads.crowded(figures, cores) + write.crowded(figures, cores, read=False)
    pace = max(compute, reads.alone(figures))
    start = _CONSTANTS * figures.constant_tile_cycles
    first = min(reads.alone(figures), Stream(x, 1, 1).alone(figures) * length)
    total = start + first + max(most * pace, average * busy) + drained(figures, out, 1)
    moved = average * busy
    in_dram = x.memory_config.is_dram()
    return Cycles(
        total,
        vector=most * (length * vector + vector_cycles(figures, "recip", False)),
        unpack_pack=most * length * (a_tile - vector),
        dram=moved if in_dram else 0.0,
        noc=0.0 if in_dram else moved,
    )


# --- group norm -----------------------------------------------------------------------------------------------------

_GROUP_PRODUCTS, _GROUP_SUMS = 5, 2
"""Passes over a group's tiles: masked, summed up, centered, masked again, squared and summed up, scaled, put in place;
five of them are products, one of them with ones."""


def group_norm_cycles(
    step: Step, figures: Figures, compute: Compute | None, share: GroupShare, scaled: int, reads: int
) -> Cycles:
    """Group after group: its tiles go through the matrix unit one by one, in passes that leave the other groups' values
    aside. Mean and variance are gathered by one core from all that share the group, one read waited for after the
    other, and sent back to them.

    `scaled`: passes for weight and bias at the end. `reads`: times that interleaved tensors are read.
    """
    x, out = step.inputs[0].spec, step.outputs[0].spec
    cores = step.cores.num_cores()
    fidelity, fp32 = (compute.fidelity, compute.fp32) if compute else (MathFidelity.HiFi4, False)
    passes = Passes(figures, fidelity, fp32)
    a_tile = _GROUP_PRODUCTS * passes.product + _GROUP_SUMS * passes.plain
    worked = share.groups * share.height * share.across * a_tile + scaled * share.tiles * passes.product
    if x.layout is Layout.ROW_MAJOR:
        worked += share.tiles * (figures.tilize(x.dtype, x.dtype, fp32) + figures.untilize_cycles)
    one = transaction_cycles(figures, Way.L1_READ, x.dtype.element_bytes)
    gathered = (share.members - 1) * (figures.l1_latency_cycles + one)
    sent = figures.l1_latency_cycles + multicast_cycles(figures, TILE_SIZE, share.members - 1)
    rounds = share.groups * 2 * (gathered + sent + 2 * passes.total)
    root = share.groups * vector_cycles(figures, "rsqrt", False)
    moving = reads * Stream(x, share.tiles, 1).together(figures, cores)
    moving += Stream(out, share.tiles, 1).crowded(figures, cores, read=False)
    start = (_CONSTANTS + 2) * figures.constant_tile_cycles
    in_dram = x.memory_config.is_dram()
    return Cycles(
        start + max(worked + root, moving) + rounds,
        vector=root,
        unpack_pack=worked,
        dram=moving if in_dram else 0.0,
        noc=rounds if in_dram else rounds + moving,
    )
