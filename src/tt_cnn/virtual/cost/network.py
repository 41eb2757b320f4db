# SPDX-License-Identifier: Apache-2.0
"""The network on chip: a transaction takes a processor's time to issue or the link's time to carry, the longer one."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.types.tensor_spec import Spec


class Way(Enum):
    """Where the bytes of a transaction come from or go to."""

    LOCAL = "local"
    L1_READ = "l1_read"
    L1_WRITE = "l1_write"
    DRAM = "dram"


_ISSUE_AND_RATE: dict[Way, Callable[[Figures], tuple[float, float]]] = {
    Way.LOCAL: lambda f: (f.local_issue_cycles, f.local_bytes_per_cycle),
    Way.L1_READ: lambda f: (f.l1_read_issue_cycles, f.l1_read_bytes_per_cycle),
    Way.L1_WRITE: lambda f: (f.l1_write_issue_cycles, f.l1_write_bytes_per_cycle),
    Way.DRAM: lambda f: (f.dram_issue_cycles, f.dram_bytes_per_cycle),
}
"""Cycles to issue a transaction, and bytes that a cycle carries."""


def in_l1_shards(spec: Spec) -> bool:
    """Each core has its part at hand: programs borrow it or know where each page is."""
    config = spec.memory_config
    return config.is_sharded() and config.shard_spec is not None and not config.is_dram()


def transaction_cycles(figures: Figures, way: Way, size: float, extra: float = 0.0) -> float:
    """One of many transactions of `size` bytes by one processor; `extra`: its cycles to work out the address."""
    issue, rate = _ISSUE_AND_RATE[way](figures)
    return max(issue + extra, size / rate)


def stick_read_cycles(figures: Figures, size: float) -> float:
    """A convolution's read of neighbouring sticks from its own L1."""
    return max(figures.stick_cycles, size / figures.local_bytes_per_cycle)


def multicast_cycles(figures: Figures, size: float, receivers: int, loopback: bool = False) -> float:
    """A block sent to others at once: all say that they have room, the data crosses, all get a signal.

    `loopback`: the sender is among those who get it.
    """
    if receivers <= 0:
        return 0.0
    rate = figures.loopback_bytes_per_cycle if loopback else figures.multicast_bytes_per_cycle
    return figures.handshake_cycles + size / rate


def dram_fetch_cycles(
    figures: Figures, pages: float, page_bytes: int, readers: int = 1, against: bool = False
) -> float:
    """Pages of an interleaved tensor in DRAM read by one core up to a barrier, while `readers` cores do the same.

    `against`: over the network whose direction suits writing, where many answers meet on the same links.
    """
    alone = pages * transaction_cycles(figures, Way.DRAM, page_bytes, figures.page_cycles)
    total = figures.dram_read_against_bytes_per_cycle if against else figures.dram_read_bytes_per_cycle
    return max(figures.dram_latency_cycles + alone, pages * page_bytes * readers / total)


def page_move_cycles(figures: Figures, spec: Spec, pages: float, page_bytes: float, cores: int, read: bool) -> float:
    """Pages of a tensor read or written by each of `cores` cores, wherever the tensor is.

    A core knows where the pages of a shard are; the bank of an interleaved page it works out, page by page.
    """
    if spec.memory_config.is_dram():
        way, total = Way.DRAM, figures.dram_total_bytes_per_cycle
    else:
        way, total = (Way.L1_READ if read else Way.L1_WRITE), figures.network_total_bytes_per_cycle
    extra = 0.0 if in_l1_shards(spec) else figures.page_cycles
    alone = pages * transaction_cycles(figures, way, page_bytes, extra)
    return max(alone, pages * page_bytes * cores / total)
