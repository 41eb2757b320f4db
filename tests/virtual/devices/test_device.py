# SPDX-License-Identifier: Apache-2.0
"""Opening and closing cards, what they say of themselves, and what they refuse."""

from __future__ import annotations

import gc

import pytest

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.types.enums import BufferType

MEMORY = {
    # card: cores, L1 bytes a bank with l1_small_size 0, DRAM banks and bytes of one (TT-NN's get_memory_view)
    "n150": ((8, 8), 64, 1_393_312, 12, 1_072_693_184),
    "n300": ((8, 8), 64, 1_393_312, 12, 1_072_693_184),
    "p150": ((11, 10), 110, 1_461_120, 8, 4_277_141_376),
}


@pytest.mark.parametrize("name", MEMORY)
def test_what_a_card_says_of_itself(open_card, name):
    grid, cores, l1, banks, dram = MEMORY[name]
    card = open_card(card=name)
    assert repr(card) == "MeshDevice(1x1 grid, 1 devices)"
    assert (card.shape, card.get_num_devices(), card.get_device_ids()) == (ttnn.MeshShape(1, 1), 1, [0])
    assert card.get_submeshes() == []
    size = card.compute_with_storage_grid_size()
    assert (size.x, size.y) == grid == (card.core_grid.x, card.core_grid.y)
    assert (card.dram_grid_size().x, card.dram_grid_size().y) == (banks, 1)
    assert str(card.arch()) == ("Arch.BLACKHOLE" if name == "p150" else "Arch.WORMHOLE_B0")
    view = ttnn.get_memory_view(card, BufferType.L1)
    assert (view.num_banks, view.total_bytes_per_bank, view.total_bytes_allocated_per_bank) == (cores, l1, 0)
    view = ttnn.get_memory_view(card, BufferType.DRAM)
    assert (view.num_banks, view.total_bytes_per_bank) == (banks, dram)
    assert view.largest_contiguous_bytes_free_per_bank == view.total_bytes_free_per_bank == dram


def test_the_table_of_blocks_is_the_real_ones(card, tensor):
    """Recorded: two bfloat16 tensors of 64x64 in DRAM, l1_small_size 65536."""
    kept = [tensor(card, shape=(1, 1, 64, 64)) for _ in range(2)]
    none = str(2**64 - 1)
    assert ttnn.get_memory_view(card, BufferType.DRAM).block_table == [
        {"allocated": "yes", "nextID": "1", "prevID": none, "size": "2048", "address": "0", "blockID": "0"},
        {"allocated": "yes", "nextID": "2", "prevID": "0", "size": "2048", "address": "2048", "blockID": "1"},
        {"allocated": "no", "nextID": none, "prevID": "1", "size": "1072689088", "address": "4096", "blockID": "2"},
    ]
    assert [t.buffer_address() for t in kept] == [1048640, 1050688]
    assert ttnn.get_memory_view(card, BufferType.L1).total_bytes_per_bank == 1327776


def test_ids_count_as_in_ttnn(open_card):
    first = open_card()
    number = first.id()
    ttnn.close_device(first)
    assert open_card().id() == number + 2


def test_an_n300_loses_a_row_to_dispatch_on_worker_cores(open_card):
    config = ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER)
    assert open_card(card="n300", dispatch_core_config=config).core_grid.y == 7


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"device_id": 99}, RuntimeError, "device_id is 99"),
        ({"device_id": -1}, RuntimeError, "device_id is -1"),
        ({"device_id": "0"}, TypeError, "incompatible function arguments"),
        ({"l1_small_size": -1}, ValueError, "l1_small_size is -1"),
        ({"l1_small_size": 2**30}, ValueError, "a core of an n150 has"),
        ({"trace_region_size": -5}, ValueError, "trace_region_size is -5"),
        ({"trace_region_size": 2**50}, ValueError, "of DRAM"),
        ({"num_command_queues": 3}, ValueError, "num_command_queues is 3"),
        ({"num_command_queues": 0}, ValueError, "num_command_queues is 0"),
        ({"card": "n450"}, ValueError, "the virtual cards are"),
        ({"numerics": "fast"}, ValueError, "numerics is 'fast'"),
        ({"engine": "tpu"}, ValueError, "engine is 'tpu'"),
        ({"hazards": "maybe"}, ValueError, "hazards is 'maybe'"),
        ({"l1_small": 3}, TypeError, "l1_small"),
    ],
)
def test_bad_parameters(options, kind, message):
    with pytest.raises(kind, match=message):
        ttnn.open_device(**{"device_id": 0, **options})
    ttnn.close_device(ttnn.open_device(device_id=0))


def test_opening_twice_and_closing_twice(open_card):
    card = open_card()
    with pytest.raises(RuntimeError, match=r"already open"):
        open_card()
    ttnn.close_device(card)
    ttnn.close_device(card)
    open_card()
    with pytest.raises(TypeError):
        ttnn.close_device(None)


def test_a_card_that_nobody_holds_can_be_opened_again(open_card, toys, tensor):
    card = open_card()
    toys.plus(tensor(card))
    del card
    gc.collect()
    open_card()


def test_manage_device(open_card):
    with ttnn.manage_device(0) as card:
        assert not card.closed
    assert card.closed
    with pytest.raises(ZeroDivisionError), ttnn.manage_device(0) as card:
        _ = 1 // 0
    assert card.closed


def test_tensors_that_outlive_their_card(open_card, toys, tensor):
    card = open_card()
    x, y = tensor(card), tensor(card)
    ttnn.close_device(card)
    assert x.shape == (1, 1, 32, 64) and not x.is_allocated()
    for call in (toys.plus, ttnn.from_device, ttnn.to_torch):
        with pytest.raises(RuntimeError, match=r"closed"):
            call(x)
    ttnn.deallocate(x)
    del x, y
    gc.collect()
    fresh = open_card()
    assert fresh.memory_view(BufferType.DRAM).total_bytes_allocated_per_bank == 0


def test_tensors_of_two_cards_do_not_mix(open_card, toys, tensor):
    one = open_card()
    other = ttnn.open_device(device_id=1)
    with pytest.raises(RuntimeError, match=r"different devices"):
        toys.into(tensor(one), tensor(other))


def test_the_environment_chooses(open_card, monkeypatch):
    monkeypatch.setenv("TT_CNN_CARD", "p150")
    monkeypatch.setenv("TT_CNN_NUMERICS", "native")
    monkeypatch.setenv("TT_CNN_HAZARDS", "off")
    card = open_card()
    assert (card.card.name, card.engine.numerics, card.hazards.mode) == ("p150", "native", "off")


def test_dumping_memory(card, tensor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = tensor(card)
    ttnn.dump_device_memory_state(card, prefix="x_")
    summary = (tmp_path / "generated" / "reports" / "x_memory_usage_summary.csv").read_text()
    assert "DRAM,12," in summary and kept.is_allocated()
