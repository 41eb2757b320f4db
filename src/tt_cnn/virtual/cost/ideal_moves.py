"""Upstream's `common_tm_bw_model`: ideal cycles of steps that move data, from measured rates by transaction size.

The rules of data_movement/common/common.cpp, in its order, with what it computes and then does not use left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log2, prod

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.tensor_spec import Spec

MOVING_OPS = frozenset(
    {
        "Clone",
        "Concat",
        "Copy",
        "GatherCodegen",
        "Move",
        "Pad",
        "Permute",
        "Repeat",
        "RepeatCodegen",
        "Reshard",
        "Roll",
        "Scatter",
        "ShardedToInterleaved",
        "Slice",
        "Split",
        "Transpose",
        "Untilize",
        "UntilizeWithUnpadding",
    }
)
"""Those whose device operations ask the model."""
_LARGEST_TRANSACTION = 2048
_SMALLEST_TRANSACTION = 16
_PACK_UNTILIZE_CYCLES, _UNTILIZE_CYCLES, _PACK_UNTILIZE_TILES = 80, 390, 8


@dataclass(frozen=True)
class _Side:
    """One tensor as the model sees it."""

    dram: bool
    size: int
    """Bytes of a transaction."""
    count: int


def moving_cycles(step: Step, card: Card, figures: Figures) -> int:
    source, output = step.inputs[0].spec, step.outputs[0].spec
    element = 1 if source.dtype.is_block_float else source.dtype.element_bytes
    shape = tuple(output.padded_shape if step.op == "Concat" else source.padded_shape)
    written = shape if step.op == "Split" else tuple(output.padded_shape)
    reads = _side(source, shape, element)
    writes = _side(output, written, element)
    if step.op == "Permute" and output.layout is Layout.TILE and shape[-1] == written[-1] and shape[-2] != written[-2]:
        face = TILE_SIZE // 2 * element
        writes = _Side(writes.dram, face, ceil(prod(tuple(output.shape)) * element / face))
    return max(
        _network_cycles(source, output, reads, writes, card, figures, output_only=step.op == "Slice"),
        _compute_cycles(step, source, element, max(reads.count, writes.count), card),
    )


def _side(spec: Spec, shape: tuple[int, ...], element: int) -> _Side:
    tiled, dram = spec.layout is Layout.TILE, spec.memory_config.is_dram()
    size = TILE_SIZE * TILE_SIZE * element if tiled else shape[-1] * element
    if spec.is_sharded and spec.memory_config.shard_spec is not None and not tiled:
        height, width = spec.shard.shape
        size = width * element
        if not dram and spec.memory_config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
            size = min(height * width * element, _LARGEST_TRANSACTION)
    size = max(1, size)
    return _Side(dram, size, ceil(prod(shape) * element / size))


def _rate(figures: Figures, kind: str, size: int) -> float:
    """GB/s of the power of two that is nearer."""
    size = max(size, _SMALLEST_TRANSACTION)
    low, high = 2 ** floor(log2(size)), 2 ** ceil(log2(size))
    rates = figures.pm_rates[kind]
    nearer = low if size - low < high - size else high
    return float(rates[min(len(rates) - 1, int(log2(nearer)) - int(log2(_SMALLEST_TRANSACTION)))])


def _cycles(figures: Figures, side: _Side, count: int, local: bool, read: bool) -> tuple[int, int]:
    """Transfer and latency."""
    kind = "dram" if side.dram else "local" if local else "read" if read else "write"
    size = max(side.size, _SMALLEST_TRANSACTION)
    cycles = ceil(count * size * figures.pm_network_ghz / _rate(figures, kind, size))
    return cycles, int(figures.pm_latency_cycles[kind])


def _dram_cores(figures: Figures, size: int, total: int) -> int:
    return min(ceil(265 / _rate(figures, "dram", size)), total)


def _l1_cores(figures: Figures, size: int, card: Card, write: bool) -> int:
    peak = figures.pm_l1_gb_per_s * sum(card.grid)
    return min(ceil(peak / _rate(figures, "write" if write else "read", size)), card.cores)


def _working_cores(reads: _Side, writes: _Side, card: Card, figures: Figures) -> int:
    """Cores that move data at once: no more than the memory behind them can feed."""
    if reads.dram == writes.dram:
        if reads.dram:
            limits = _dram_cores(figures, reads.size, card.cores), _dram_cores(figures, writes.size, card.cores)
        else:
            limits = _l1_cores(figures, reads.size, card, False), _l1_cores(figures, writes.size, card, True)
        readers, writers = max(1, min(limits[0], reads.count)), max(1, min(limits[1], writes.count))
        return writers if ceil(reads.count / readers) < ceil(writes.count / writers) else readers
    dram, other = (reads, writes) if reads.dram else (writes, reads)
    cores = _dram_cores(figures, dram.size, card.cores)
    limit = _l1_cores(figures, other.size, card, write=reads.dram)
    return limit if ceil(dram.count / cores) < other.count // limit else cores


def _network_cycles(
    source: Spec, output: Spec, reads: _Side, writes: _Side, card: Card, figures: Figures, output_only: bool
) -> int:
    cores = _working_cores(reads, writes, card, figures)
    sharded = all(s.is_sharded and s.memory_config.shard_spec is not None for s in (source, output))
    local = sharded and not reads.dram and not writes.dram and source.shard.grid == output.shard.grid

    def at(workers: int, is_local: bool) -> int:
        read, read_latency = _cycles(figures, reads, ceil(reads.count / workers), is_local, True)
        write, write_latency = _cycles(figures, writes, ceil(writes.count / workers), is_local, False)
        if output_only:
            return write + write_latency
        if reads.dram and writes.dram:
            return read + read_latency + write
        return max(read + read_latency, write + write_latency)

    if not local:
        return at(cores, False)
    own = output.shard.num_cores()
    return min(at(own, True), at(cores, False)) if cores > own else at(own, True)


def _compute_cycles(step: Step, source: Spec, element: int, transactions: int, card: Card) -> int:
    """Untilizing has its own; "tiles" are the elements over a tile's bytes, as upstream counts them."""
    if step.op not in ("Untilize", "UntilizeWithUnpadding"):
        return 0
    tiles = ceil(source.volume / (TILE_SIZE * TILE_SIZE * element))
    narrow = source.padded_shape[-1] <= _PACK_UNTILIZE_TILES * TILE_SIZE
    cycles = tiles * (_PACK_UNTILIZE_CYCLES if narrow else _UNTILIZE_CYCLES)
    return ceil(cycles / max(1, min(card.cores, transactions)))
