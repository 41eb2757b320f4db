# SPDX-License-Identifier: Apache-2.0
"""Reader, compute kernel and writer of a core, which hand each other blocks through circular buffers.

The first block passes through all three; from then on they work at the same time and the slowest sets the pace, or what
all cores together ask of the DRAM banks and of the network. The last block's writes are waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, in_l1_shards, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class Pages:
    """Transactions of one size between a core and a tensor, for one block."""

    spec: Spec
    number: float
    size: float
    a_wait: float = inf
    """How many of them are under way before the kernel waits; all those of a block unless said otherwise."""
    lookup: float = 0.0
    """Cycles to work out where each of them goes, beside the bank of its page."""
    uneven: float = 1.0
    """How many more the fullest DRAM bank has of them than banks have on average."""

    @property
    def bytes(self) -> float:
        return self.number * self.size

    def waits(self) -> float:
        return max(1.0, self.number / self.a_wait)


@dataclass(frozen=True)
class Block:
    """What a core does for one block. A shard at hand needs no pages."""

    reads: Sequence[Pages] = ()
    writes: Sequence[Pages] = ()
    compute: float = 0.0
    """Cycles of the compute kernel; nothing where there is none."""
    preparing: float = 0.0
    """Cycles of the reader beside its reads: filling padding, spreading values."""
    waits_for_writes: bool = False
    """The writer waits until its writes have arrived; otherwise until they have left."""


class Share(NamedTuple):
    """How blocks are distributed to cores."""

    blocks: float
    """Of the busiest core."""
    cores: int
    """That have any."""
    mean: float
    """Blocks of a core on average, which is what a crowd waits for."""

    @classmethod
    def of(cls, blocks: int, cores: int) -> Share:
        active = max(1, min(cores, blocks))
        return cls(div_up(blocks, active), active, blocks / active)

    @classmethod
    def each(cls, blocks: float, cores: int) -> Share:
        """So many on every core."""
        return cls(blocks, cores, blocks)


def _way(spec: Spec, read: bool) -> Way:
    if spec.memory_config.is_dram():
        return Way.DRAM
    return Way.L1_READ if read else Way.L1_WRITE


def _issue(figures: Figures, pages: Pages, read: bool) -> float:
    extra = pages.lookup + (0.0 if in_l1_shards(pages.spec) else figures.page_cycles)
    return pages.number * transaction_cycles(figures, _way(pages.spec, read), pages.size, extra)


def read_latency(figures: Figures, spec: Spec) -> float:
    return figures.dram_latency_cycles if spec.memory_config.is_dram() else figures.l1_latency_cycles


def write_latency(figures: Figures, spec: Spec) -> float:
    """Until a write is acknowledged."""
    return figures.dram_write_latency_cycles if spec.memory_config.is_dram() else figures.l1_write_latency_cycles


def reading_cycles(figures: Figures, block: Block) -> float:
    """All reads of a block are issued, then waited for together; those with waits of their own one after the other."""
    if not block.reads:
        return block.preparing
    waits = max(pages.waits() for pages in block.reads)
    latency = max(read_latency(figures, pages.spec) for pages in block.reads)
    issued = sum(_issue(figures, pages, True) for pages in block.reads)
    return block.preparing + issued + waits * (latency + figures.handover_cycles)


def writing_cycles(figures: Figures, block: Block) -> float:
    if not block.writes:
        return 0.0
    issued = sum(_issue(figures, pages, False) for pages in block.writes)
    if not block.waits_for_writes:
        return issued
    waits = max(pages.waits() for pages in block.writes)
    return issued + waits * max(write_latency(figures, pages.spec) for pages in block.writes)


def crowded_cycles(figures: Figures, block: Block, cores: int) -> tuple[float, float]:
    """What the DRAM banks, and the network, need for a block of all cores.

    A bank is busy with each access for longer than its bytes take: rows are opened, and the bus turns between reading
    and writing; Blackhole's with the smallest read for 19 cycles. Writes alone do not reach the rate of reads.
    """
    read = [pages for pages in block.reads if pages.spec.memory_config.is_dram()]
    written = [pages for pages in block.writes if pages.spec.memory_config.is_dram()]
    least, total = figures.dram_read_access_cycles, figures.dram_total_bytes_per_cycle
    busy = sum(
        pages.uneven * pages.number * max((pages.size + figures.dram_read_access_bytes) / total, least)
        for pages in read
    )
    busy += sum(pages.number * (pages.size + figures.dram_write_access_bytes) / total for pages in written)
    alone = sum(pages.bytes for pages in written) / figures.dram_write_bytes_per_cycle
    banks = max(busy, alone)
    crossing = sum(pages.bytes for pages in (*block.reads, *block.writes))
    return cores * banks, cores * crossing / figures.network_achieved_bytes_per_cycle


def pipeline_cycles(
    figures: Figures,
    share: Share,
    block: Block,
    *,
    vector: float = 0.0,
    unpack_pack: float = 0.0,
    start: float = 0.0,
) -> Cycles:
    """`vector`, `unpack_pack`: parts of a block's compute; `start`: cycles before the first block."""
    blocks = share.blocks
    if not blocks:
        return Cycles(0.0)
    reading, writing = reading_cycles(figures, block), writing_cycles(figures, block)
    banks, network = crowded_cycles(figures, block, share.cores)
    crowd = max(banks, network)
    first = max(reading, crowd) if block.reads else reading
    others = max((blocks - 1) * max(reading, block.compute, writing), (share.mean - 1) * crowd)
    last = writing
    if block.writes and not block.waits_for_writes:
        last += max(write_latency(figures, pages.spec) for pages in block.writes)
    total = start + first + block.compute + others + last
    if block.compute:
        total += figures.compute_start_cycles
    in_dram = any(pages.spec.memory_config.is_dram() for pages in (*block.reads, *block.writes))
    moving = max(reading, writing, crowd)
    return Cycles(
        total,
        vector=blocks * vector,
        unpack_pack=blocks * unpack_pack,
        dram=blocks * moving if in_dram else 0.0,
        noc=0.0 if in_dram else blocks * moving,
    )
