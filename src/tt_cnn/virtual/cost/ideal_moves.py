# SPDX-License-Identifier: Apache-2.0
"""Upstream's `common_tm_bw_model`: ideal cycles of steps that move data, from measured rates by transaction size.

The rules of data_movement/common/common.cpp, in its order, with what it computes and then does not use left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.ideal import element_bytes
from tt_cnn.virtual.types.enums import Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.tensor_spec import Spec

_LARGEST_TRANSACTION = 2048
_SMALLEST_TRANSACTION = 16


@dataclass(frozen=True)
class Side:
    """The transactions of one tensor."""

    dram: bool
    size: int
    """Bytes of a transaction."""
    count: int

    @classmethod
    def of(cls, spec: Spec, shape: tuple[int, ...], element: int) -> Side:
        tiled, dram = spec.layout is Layout.TILE, spec.memory_config.is_dram()
        size = TILE_SIZE * TILE_SIZE * element if tiled else shape[-1] * element
        if spec.is_sharded and spec.memory_config.shard_spec is not None and not tiled:
            height, width = spec.shard.shape
            size = width * element
            if not dram and spec.memory_config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
                size = min(height * width * element, _LARGEST_TRANSACTION)
        size = max(1, size)
        return cls(dram, size, ceil(prod(shape) * element / size))


class IdealMove(NamedTuple):
    """What the model is asked: two tensors, and how they are read and written."""

    source: Spec
    output: Spec
    reads: Side
    writes: Side
    writes_only: bool = False
    """Reading does not count."""

    @classmethod
    def between(cls, source: Spec, output: Spec, read: Shape | None = None, written: Shape | None = None) -> IdealMove:
        """`read` and `written`: the shapes that the model takes, where they are not the tensors' padded ones."""
        element = element_bytes(source.dtype)
        reads = Side.of(source, tuple(read or source.padded_shape), element)
        return cls(source, output, reads, Side.of(output, tuple(written or output.padded_shape), element))

    def cycles(self, card: Card, figures: Figures) -> int:
        cores = _working_cores(self.reads, self.writes, card, figures)
        sharded = all(s.is_sharded and s.memory_config.shard_spec is not None for s in (self.source, self.output))
        in_l1 = not self.reads.dram and not self.writes.dram
        if not (sharded and in_l1 and self.source.shard.grid == self.output.shard.grid):
            return self._network_cycles(figures, cores, local=False)
        own = self.output.shard.num_cores()
        local = self._network_cycles(figures, own, local=True)
        return min(local, self._network_cycles(figures, cores, local=False)) if cores > own else local

    def _network_cycles(self, figures: Figures, workers: int, local: bool) -> int:
        read, read_latency = _cycles(figures, self.reads, ceil(self.reads.count / workers), local, True)
        write, write_latency = _cycles(figures, self.writes, ceil(self.writes.count / workers), local, False)
        if self.writes_only:
            return write + write_latency
        if self.reads.dram and self.writes.dram:
            return read + read_latency + write
        return max(read + read_latency, write + write_latency)


def _rate(figures: Figures, kind: str, size: int) -> float:
    """GB/s of the power of two that is nearer."""
    size = max(size, _SMALLEST_TRANSACTION)
    low = 1 << (size.bit_length() - 1)
    high = low if size == low else 2 * low
    rates = figures.pm_rates[kind]
    nearer = low if size - low < high - size else high
    return float(rates[min(len(rates) - 1, nearer.bit_length() - _SMALLEST_TRANSACTION.bit_length())])


def _cycles(figures: Figures, side: Side, count: int, local: bool, read: bool) -> tuple[int, int]:
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


def _working_cores(reads: Side, writes: Side, card: Card, figures: Figures) -> int:
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
