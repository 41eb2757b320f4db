# SPDX-License-Identifier: Apache-2.0
"""The allocator: the card's addresses, and lists that stay whole whatever comes and goes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.memory.memory import Footprint, Memory, OutOfMemory, Region
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.tensor_spec import Spec


def _memory(**sizes):
    return Memory(card_by_name("n150"), **sizes)


def test_first_addresses_are_the_real_ones(open_card, tensor):
    """Recorded with l1_small_size 32768: two 64x64 tensors, then one with shards of 32x64."""
    card = open_card(l1_small_size=32768)
    in_l1 = {"shape": (1, 1, 64, 64), "memory_config": ttnn.L1_MEMORY_CONFIG}
    first, second = tensor(card, **in_l1), tensor(card, **in_l1)
    config = ttnn.create_sharded_memory_config((1, 1, 64, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.HEIGHT)
    third = tensor(card, shape=(1, 1, 64, 64), memory_config=config)
    addresses = [t.buffer_address() for t in (first, second, third)]
    assert addresses == [1_464_320, 1_462_272, 1_462_272 - 4096]
    second.deallocate()
    assert tensor(card, **in_l1).buffer_address() == addresses[1]


def test_pages_are_aligned(card):
    spec = Spec(ttnn.Shape([1, 1, 100, 3]), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    dram = card.memory.footprint(spec)
    assert (dram.bank_bytes, dram.total_bytes) == (-(-100 // 12) * 32, 3200)
    l1 = card.memory.footprint(spec.with_(memory_config=ttnn.L1_MEMORY_CONFIG))
    assert l1.bank_bytes == 2 * 16


def test_out_of_memory_tells_all_numbers():
    memory = _memory(l1_small_size=32768)
    memory.allocate(Footprint(BufferType.L1, 614_400, 64, 64 * 614_400))
    with pytest.raises(OutOfMemory) as caught:
        memory.allocate(Footprint(BufferType.L1, 780_800, 64, 49_971_200))
    assert caught.value.message.startswith(
        "Out of Memory: Not enough space to allocate 49971200 B L1 buffer across 64 banks, where each bank needs to "
        "store 780800 B, but bank size is 1360544 B (allocated: 614400 B, free: 746144 B, largest free block: 746144 B"
    )


REGIONS = st.sampled_from([(True, 32), (False, 32), (False, 16), (True, 64)])


@settings(max_examples=200, deadline=None)
@given(REGIONS, st.lists(st.tuples(st.booleans(), st.integers(0, 700), st.integers(0, 50)), max_size=60))
def test_blocks_never_overlap_and_always_add_up(region, actions):
    bottom_up, alignment = region
    memory = Region(BufferType.L1, 1024, 6400, alignment, bottom_up, 64)
    live: dict[int, int] = {}
    for take, size, which in actions:
        if take:
            room = memory.largest_free
            address = memory.allocate(size)
            needed = -(-max(size, alignment) // alignment) * alignment
            assert (address is None) == (needed > room)
            if address is not None:
                assert address not in live and address >= 1024 and address + needed <= 1024 + 6400
                live[address] = needed
        elif live:
            address = sorted(live)[which % len(live)]
            memory.free(address)
            del live[address]
        blocks = memory.blocks()
        at = 1024
        for start, length, used in blocks:
            assert start == at and length > 0
            assert not used or live.pop(start, None) == length or start in live
            live.update({start: length} if used else {})
            at += length
        assert at == 1024 + 6400
        assert not any(not a[2] and not b[2] for a, b in pairwise(blocks))  # neighbours coalesce
        assert memory.allocated == sum(live.values())
        assert memory.lowest == (min(live) if live else None)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 500), max_size=20), st.lists(st.integers(1, 500), max_size=20))
def test_restoring_forgets_what_came_after(first, second):
    memory = _memory()
    for size in first:
        memory.allocate(Footprint(BufferType.L1, size, 64, 64 * size))
    before = memory.snapshot()
    blocks = memory.regions[BufferType.L1].blocks()
    taken = [memory.allocate(Footprint(BufferType.L1, size, 64, 64 * size)) for size in second]
    for address in taken[::2]:
        memory.free(BufferType.L1, address)
    memory.restore(before)
    assert memory.regions[BufferType.L1].blocks() == blocks


def test_regions_are_set_apart():
    memory = _memory(l1_small_size=1000, trace_region_size=10_000)
    assert memory.regions[BufferType.L1_SMALL].size == 1024
    l1 = memory.regions[BufferType.L1]
    assert l1.base + l1.size == memory.regions[BufferType.L1_SMALL].base
    trace = memory.regions[BufferType.TRACE]
    assert trace.size * 12 >= 10_000
    dram = memory.regions[BufferType.DRAM]
    assert dram.base + dram.size == trace.base
