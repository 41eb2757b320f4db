# SPDX-License-Identifier: Apache-2.0
"""What `ttnn.get_memory_view` tells of one memory."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.memory.memory import Region

_NONE = str(2**64 - 1)


@dataclass
class MemoryView:
    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    block_table: list[dict[str, str]]
    """The blocks of a bank in the order of addresses, which count from the start of the memory here."""


def memory_view(region: Region) -> MemoryView:
    blocks = region.blocks()
    table = [
        {
            "blockID": str(i),
            "address": str(address - region.base),
            "size": str(size),
            "prevID": str(i - 1) if i else _NONE,
            "nextID": str(i + 1) if i + 1 < len(blocks) else _NONE,
            "allocated": "yes" if used else "no",
        }
        for i, (address, size, used) in enumerate(blocks)
    ]
    allocated = region.allocated
    return MemoryView(region.banks, region.size, allocated, region.size - allocated, region.largest_free, table)
