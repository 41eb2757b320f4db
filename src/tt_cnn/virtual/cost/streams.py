# SPDX-License-Identifier: Apache-2.0
"""Pages that a core reads or writes one after the other and waits for once, while all other cores do the same."""

from __future__ import annotations

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, in_l1_shards, transaction_cycles
from tt_cnn.virtual.cost.pipeline import read_latency, write_latency
from tt_cnn.virtual.types.tensor_spec import Spec

NETWORKS = 2
"""A core's reader has one of them, its writer the other."""


def stream_cycles(figures: Figures, spec: Spec, pages: float, size: float, all_pages: float, read: bool) -> float:
    """`pages` transactions of `size` bytes with an interleaved tensor by the busiest core, `all_pages` by all cores.

    The core issues them, or the banks and the network deal with those of all cores, whatever takes longer; at the end
    the core waits for the last.
    """
    way = Way.DRAM if spec.memory_config.is_dram() else Way.L1_READ if read else Way.L1_WRITE
    latency = read_latency(figures, spec) if read else write_latency(figures, spec)
    extra = 0.0 if in_l1_shards(spec) else figures.page_cycles
    alone = pages * transaction_cycles(figures, way, size, extra)
    return latency + max(alone, crowd_cycles(figures, spec, all_pages, size, read))


def crowd_cycles(figures: Figures, spec: Spec, pages: float, size: float, read: bool) -> float:
    """What banks and network need for the pages of all cores: reads go over one network, writes over the other.

    A DRAM bank is slower to write than to read, and a small write takes it as long as one of 200 bytes.
    """
    if not spec.memory_config.is_dram():
        return pages * size * NETWORKS / figures.network_achieved_bytes_per_cycle
    if read:
        return pages * size / figures.dram_read_bytes_per_cycle
    return pages * max(size / figures.dram_write_bytes_per_cycle, figures.dram_write_access_cycles)
