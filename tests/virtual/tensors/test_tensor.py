# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of tensors: who owns memory, when it goes back, and what is said about tensors that are gone."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.types.enums import BufferType


def _allocated(card):
    return card.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank


def test_the_last_reference_frees_at_once(card, tensor):
    x = tensor(card)
    address = x.buffer_address()
    del x
    assert _allocated(card) == 0
    assert tensor(card).buffer_address() == address


def test_deallocate_and_again(card, tensor):
    x = tensor(card)
    x.deallocate()
    assert not x.is_allocated() and _allocated(card) == 0 and x.device() is None
    assert x.storage_type() is ttnn.StorageType.DEVICE and x.shape == (1, 1, 32, 64)
    ttnn.deallocate(x)
    y = tensor(card)
    ttnn.deallocate(x, force=True)
    del x
    assert y.is_allocated() and _allocated(card) > 0


def test_what_is_said_of_a_tensor_that_is_gone(card, toys, tensor):
    x = tensor(card)
    ttnn.deallocate(x)
    with pytest.raises(RuntimeError, match=r"Tensor is not allocated."):
        x.buffer_address()
    with pytest.raises(RuntimeError, match=r"ttnn.test_plus was given a tensor \(1x1x32x64 BFLOAT16 TILE\) that is no"):
        toys.plus(x)
    assert repr(x) == (
        "ttnn.Tensor(<buffer is not allocated>, shape=Shape([1, 1, 32, 64]), dtype=DataType::BFLOAT16, "
        "layout=Layout::TILE)"
    )


def test_host_tensors(tensor, toys):
    x = tensor(None)
    assert (x.device(), x.is_allocated(), x.storage_type()) == (None, True, ttnn.StorageType.HOST)
    ttnn.deallocate(x)
    assert x.is_allocated()
    with pytest.raises(RuntimeError, match=r"StorageType::HOST doesn't support buffer_address method"):
        x.buffer_address()
    with pytest.raises(RuntimeError, match=r"ttnn.test_plus needs a tensor on the device"):
        toys.plus(x)


def test_views_share_memory(card, toys, tensor):
    """As recorded: without force nothing happens while another owner exists; with it the view is left behind."""
    x = tensor(card, 3.0)
    view = toys.view(x)
    assert view.buffer_address() == x.buffer_address()
    x.deallocate(False)
    assert x.is_allocated() and view.is_allocated()
    x.deallocate(True)
    assert not x.is_allocated() and view.is_allocated()
    y = tensor(card)
    assert y.buffer_address() == view.buffer_address()
    with pytest.raises(RuntimeError, match=r"no longer allocated"):
        toys.plus(view)
    view.deallocate(True)
    del view, x
    assert y.is_allocated() and _allocated(card) > 0


def test_a_view_keeps_memory_alive(card, toys, tensor):
    view = toys.view(tensor(card, 3.0))
    assert _allocated(card) > 0
    assert ttnn.to_torch(view).float().unique().tolist() == [3.0]
    view.deallocate(False)
    assert _allocated(card) == 0


def test_an_op_that_takes_its_input(card, toys, tensor):
    x = tensor(card, 1.0)
    y = toys.move(x)
    assert not x.is_allocated()
    with pytest.raises(RuntimeError, match=r"freed by test_move"):
        toys.plus(x)
    del x
    assert ttnn.to_torch(y).float().unique().tolist() == [2.0]
    del y
    assert _allocated(card) == 0


def test_collected_on_another_thread(card, tensor):
    for _ in range(20):
        holder = [tensor(card)]
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
        assert _allocated(card) == 0


def test_collected_in_a_cycle_in_the_middle_of_an_allocation(card, toys, tensor):
    """Garbage that frees buffers while the allocator works must not disturb it."""
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(200):
            cycle: list[object] = [tensor(card), tensor(card, shape=(1, 1, 64, 64 + 32 * (i % 3)))]
            cycle.append(cycle)
            del cycle
            toys.plus(tensor(card), temporary=True)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert _allocated(card) == 0
    assert len(card.memory_view(BufferType.DRAM).block_table) == 1


def test_garbage_inside_a_call_that_fails(card, toys, tensor):
    """A refused call puts memory back as it was; what was collected meanwhile is freed all the same."""
    doomed = [tensor(card)]
    kept = tensor(card)
    with card.lock:
        before = card.memory.snapshot()
        doomed.clear()
        card.memory.restore(before)
    assert _allocated(card) == 2048
    assert kept.is_allocated()


def test_a_failed_op_leaves_memory_as_it_was(card, tensor, toys, monkeypatch):
    x = tensor(card, memory_config=ttnn.L1_MEMORY_CONFIG)
    room = card.memory_view(BufferType.L1).largest_contiguous_bytes_free_per_bank
    rows = (room // 2048 - 1) * 64 // 2 * 32
    big = ttnn.allocate_tensor_on_device(
        ttnn.Shape([1, 1, rows, 32]), ttnn.bfloat16, ttnn.TILE_LAYOUT, card, ttnn.L1_MEMORY_CONFIG
    )
    toys.into(big, big)
    before = [card.memory_view(kind) for kind in card.memory.regions]
    with pytest.raises(
        RuntimeError, match=r"Out of Memory: Not enough space to allocate \d+ B L1 buffer across 64 banks"
    ):
        toys.plus(big, temporary=True)
    assert [card.memory_view(kind) for kind in card.memory.regions] == before
    assert x.is_allocated()


def test_the_users_tensor_may_change_after_from_torch(card):
    source = torch.ones(32, 32)
    host = ttnn.from_torch(source)
    x = ttnn.to_device(host, card)
    source.fill_(7)
    assert ttnn.to_torch(x).unique().tolist() == [1.0]
    result = ttnn.to_torch(x)
    result.fill_(9)
    assert ttnn.to_torch(x).unique().tolist() == [1.0]
    assert not ttnn.to_torch(x).is_inference()
