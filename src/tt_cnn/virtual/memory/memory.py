# SPDX-License-Identifier: Apache-2.0
"""The card's memory: lock-step banks, first fit by address, and the errors when something does not fit.

All banks of a kind share one address space: a buffer takes the same range in every bank, even where its shards use
few cores. L1 tensors grow from the top down, DRAM from the bottom up; circular buffers grow up from the L1 base and
are checked against the lowest tensor when a program is enqueued.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.errors.card_error import DoesNotFit
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import div_up, round_up
from tt_cnn.virtual.types.tensor_spec import Spec


class Footprint(NamedTuple):
    """What a spec needs of one memory: bytes in each bank, over how many banks, and in all."""

    buffer_type: BufferType
    bank_bytes: int
    banks: int
    total_bytes: int


class Region:
    """One address range of all banks. A fitting free block is taken at the end from which the region grows."""

    def __init__(self, name: BufferType, base: int, size: int, alignment: int, bottom_up: bool, banks: int) -> None:
        self.name = name
        self.base = base
        self.size = size
        self.alignment = alignment
        self.bottom_up = bottom_up
        self.banks = banks
        self._free: list[tuple[int, int]] = [(base, base + size)] if size else []
        self._used: dict[int, int] = {}
        self.allocated = 0
        """Bytes per bank."""

    def allocate(self, bank_bytes: int) -> int | None:
        """The address of a new block, or None. Blocks are at least one alignment unit long."""
        size = round_up(max(bank_bytes, self.alignment), self.alignment)
        order = range(len(self._free)) if self.bottom_up else range(len(self._free) - 1, -1, -1)
        for i in order:
            start, end = self._free[i]
            if end - start < size:
                continue
            address = start if self.bottom_up else end - size
            self._take(i, address, size)
            return address
        return None

    def take(self, address: int, bank_bytes: int) -> None:
        """A block at an address that is known to be free."""
        size = round_up(max(bank_bytes, self.alignment), self.alignment)
        i = bisect_right(self._free, (address, self.base + self.size)) - 1
        assert i >= 0 and address + size <= self._free[i][1], f"{self.name} is in use at {address}"
        self._take(i, address, size)

    def _take(self, i: int, address: int, size: int) -> None:
        start, end = self._free[i]
        rest = []
        if start < address:
            rest.append((start, address))
        if address + size < end:
            rest.append((address + size, end))
        self._free[i : i + 1] = rest
        self._used[address] = size
        self.allocated += size

    def free(self, address: int) -> None:
        size = self._used.pop(address)
        self.allocated -= size
        start, end = address, address + size
        i = bisect_left(self._free, (start, end))
        if i < len(self._free) and self._free[i][0] == end:
            end = self._free.pop(i)[1]
        if i and self._free[i - 1][1] == start:
            start = self._free.pop(i - 1)[0]
        insort(self._free, (start, end))

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """What is free: first and behind-last address, in the order of addresses. All that allocating depends on."""
        return tuple(self._free)

    @property
    def largest_free(self) -> int:
        return max((end - start for start, end in self._free), default=0)

    @property
    def lowest(self) -> int | None:
        """The lowest address in use: where the first gap ends, if it begins at the base."""
        if not self._used:
            return None
        return self._free[0][1] if self._free and self._free[0][0] == self.base else self.base

    def blocks(self) -> list[tuple[int, int, bool]]:
        """(address, bytes, in use) in the order of addresses."""
        used = [(address, size, True) for address, size in self._used.items()]
        return sorted(used + [(start, end - start, False) for start, end in self._free])

    def give_up(self, size: int) -> bool:
        """The lowest bytes, if they are free."""
        if not self._free or self._free[0][0] != self.base or self._free[0][1] < self.base + size:
            return False
        self._free[0] = (self.base + size, self._free[0][1])
        self.base, self.size = self.base + size, self.size - size
        return True

    def grow(self, size: int) -> None:
        """By bytes below all others."""
        if self._free and self._free[0][0] == self.base:
            self._free[0] = (self.base - size, self._free[0][1])
        else:
            self._free.insert(0, (self.base - size, self.base))
        self.base, self.size = self.base - size, self.size + size

    def snapshot(self) -> tuple[list[tuple[int, int]], dict[int, int]]:
        return list(self._free), dict(self._used)

    def restore(self, snapshot: tuple[list[tuple[int, int]], dict[int, int]]) -> None:
        self._free, self._used = list(snapshot[0]), dict(snapshot[1])
        self.allocated = sum(self._used.values())


def l1_region(card: Card, top: int) -> Region:
    """L1 up to where `L1_SMALL` begins."""
    return Region(BufferType.L1, card.l1_base, top - card.l1_base, card.dram_alignment, False, card.cores)


def footprint(card: Card, spec: Spec) -> Footprint:
    kind = spec.memory_config.buffer_type
    page = round_up(spec.page_bytes, card.dram_alignment if kind is BufferType.DRAM else card.l1_alignment)
    if spec.memory_config.shard_spec is None:
        banks = card.dram_banks if kind in (BufferType.DRAM, BufferType.TRACE) else card.cores
        return Footprint(kind, div_up(spec.num_pages, banks) * page, banks, spec.num_pages * page)
    bank = spec.shard_pages * page
    return Footprint(kind, bank, spec.shards_with_data, spec.shards_with_data * bank)


class Memory:
    """The regions of one chip (or of all chips of a mesh, which allocate in lock step too)."""

    def __init__(self, card: Card, l1_small_size: int = 0, trace_region_size: int = 0) -> None:
        self.card = card
        align = card.dram_alignment  # one unit for all memories, as in the real allocator
        l1_small = round_up(l1_small_size, align)
        trace = round_up(div_up(trace_region_size, card.dram_banks), align)
        available = card.l1_size - card.l1_base
        if l1_small > available:
            raise ValueError(f"l1_small_size is {l1_small_size} B; a core of an {card.name} has {available} B of L1")
        if trace > card.dram_bank_size:
            raise ValueError(
                f"trace_region_size is {trace_region_size} B; an {card.name} has "
                f"{card.dram_bank_size * card.dram_banks} B of DRAM"
            )
        dram = card.dram_bank_size - trace
        top = card.l1_size - l1_small
        self.regions = {
            BufferType.DRAM: Region(BufferType.DRAM, card.dram_base, dram, align, True, card.dram_banks),
            BufferType.L1: l1_region(card, top),
            BufferType.L1_SMALL: Region(BufferType.L1_SMALL, top, l1_small, align, False, card.cores),
            BufferType.TRACE: Region(BufferType.TRACE, card.dram_base + dram, trace, align, True, card.dram_banks),
        }

    @property
    def gaps(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple([region.gaps for region in self.regions.values()])

    def page_alignment(self, buffer_type: BufferType) -> int:
        return self.card.dram_alignment if buffer_type is BufferType.DRAM else self.card.l1_alignment

    def footprint(self, spec: Spec) -> Footprint:
        return footprint(self.card, spec)

    def allocate(self, footprint: Footprint) -> int:
        """The address; a buffer of no bytes takes no memory and is at 0."""
        if not footprint.bank_bytes:
            return 0
        region = self.regions[footprint.buffer_type]
        address = region.allocate(footprint.bank_bytes)
        if address is None:
            raise OutOfMemory(region, footprint)
        return address

    def take(self, buffer_type: BufferType, address: int, bank_bytes: int) -> None:
        """Memory that is known to be free, at an address that was found before."""
        if address:
            self.regions[buffer_type].take(address, bank_bytes)

    def free(self, buffer_type: BufferType, address: int) -> None:
        if address:
            self.regions[buffer_type].free(address)

    def program_limit(self, kind: str) -> int:
        """The address at which the `circular` or `dataflow` buffers of a program must end."""
        return self.card.l1_size

    def copy(self) -> Memory:
        """The same to try something in."""
        made = copy(self)
        made.regions = {kind: copy(region) for kind, region in self.regions.items()}
        made.restore(self.snapshot())
        return made

    def with_larger_l1_small(self, more: int) -> Memory | None:
        """The same tensors with so many more bytes of L1_SMALL; None where there is no room for them.

        They would all stand lower by as much: here they stay, and what is below them begins higher.
        """
        made = self.copy()
        made.card = replace(self.card, l1_base=self.card.l1_base + more)
        l1, small = made.regions[BufferType.L1], made.regions[BufferType.L1_SMALL]
        if not l1.give_up(more):
            return None
        small.grow(more)
        return made

    def snapshot(self) -> dict[BufferType, tuple[list[tuple[int, int]], dict[int, int]]]:
        return {kind: region.snapshot() for kind, region in self.regions.items()}

    def restore(self, snapshot: dict[BufferType, tuple[list[tuple[int, int]], dict[int, int]]]) -> None:
        for kind, saved in snapshot.items():
            self.regions[kind].restore(saved)


class OutOfMemory(DoesNotFit):
    """A buffer that does not fit: what was asked, what is free."""

    def __init__(self, region: Region, footprint: Footprint) -> None:
        self.region = region
        self.footprint = footprint
        super().__init__(
            f"Out of Memory: Not enough space to allocate {footprint.total_bytes} B {region.name.name} buffer across "
            f"{footprint.banks} banks, where each bank needs to store {footprint.bank_bytes} B, but bank size is "
            f"{region.size} B (allocated: {region.allocated} B, free: {region.size - region.allocated} B, "
            f"largest free block: {region.largest_free} B)."
        )
