# SPDX-License-Identifier: Apache-2.0
"""Graph capture, node by node against captures of the real library (n150, program cache off)."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path

import pytest

from tt_cnn.virtual import ttnn

G = ttnn.graph
RECORDED = Path(__file__).parents[2] / "golden" / "data" / "graph_captures.jsonl.gz"
CASES = {record["case"]: record for record in map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())}
NOT_COMPARED = {
    "device_id",
    "device_tensors",
    "global_call_count",
    "inputs",
    "memory_config",
    "physical_device_id",
    "program_factory_type",
    "runtime_id",
    "sub_device_manager_id",  # which device of the process it is, as device_id
    "tensor_id",
}


def _allocate(card):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape([1, 1, 64, 64]), ttnn.bfloat16, ttnn.TILE_LAYOUT, card, ttnn.L1_MEMORY_CONFIG
    )


@pytest.fixture
def card(open_card):
    device = open_card(l1_small_size=65536, hazards="off")
    device.disable_and_clear_program_cache()
    return device


def _two(shards):
    total = ttnn.add(shards, shards)
    product = ttnn.multiply(total, shards)
    ttnn.deallocate(total)
    return product


def _recorded_calls(card):
    """The calls that were recorded, in their order, since addresses depend on it."""
    x, y = _allocate(card), _allocate(card)
    kept = [x, y]
    shards = ttnn.create_sharded_memory_config((1, 1, 64, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.HEIGHT)
    graphs = {}

    def capture(name, call, mode=G.RunMode.NORMAL):
        G.begin_graph_capture(mode)
        result = call()
        graphs[name] = G.end_graph_capture()
        return result

    kept.append(capture("add", lambda: ttnn.add(x, y)))
    s = capture("shard", lambda: ttnn.to_memory_config(x, shards))
    w = capture("two", lambda: _two(s))
    capture("no dispatch add", lambda: ttnn.add(s, s), G.RunMode.NO_DISPATCH)
    kept.append(w)
    return graphs, s, kept, capture


def test_captures_equal_the_real_ones(card):
    graphs, s, kept, capture = _recorded_calls(card)
    assert len(kept) == 4
    # of the recorded session, a sum of the dry run and a tensor of other calls were alive too: addresses differ there
    capture("add scalar", lambda: ttnn.add(s, 1.0))
    capture("alloc", lambda: _allocate(card))
    for name, graph in graphs.items():
        recorded = CASES[name]
        moved = {"address"} if name in ("add scalar", "alloc") else set()
        nodes = [
            [
                n["node_type"],
                n["stacking_level"],
                n["connections"],
                n["input_tensors"],
                {k: v for k, v in (n["params"] or {}).items() if k not in NOT_COMPARED | moved},
            ]
            for n in graph
        ]
        for mine, real in zip(nodes, recorded["nodes"], strict=True):
            assert mine[:4] == real[:4], name
            assert mine[4] == {k: v for k, v in real[4].items() if k not in NOT_COMPARED | moved}, name
        assert G.extract_calltrace(graph) == recorded["calltrace"]
        assert G.extract_peak_L1_memory_usage(graph) == recorded["peak"]
        usage = G.extract_resource_usage_per_core(graph)
        assert {k: getattr(usage, k) for k in recorded["usage"]} == recorded["usage"]
        assert sorted(G.extract_output_tensors(graph)) == recorded["outputs"]


def test_a_dry_run_takes_nothing_and_runs_nothing(open_card, toys, tensor):
    card = open_card()
    x = tensor(card, memory_config=ttnn.L1_MEMORY_CONFIG)
    toys.plus(x)
    views = [card.memory_view(kind) for kind in card.memory.regions]
    programs = card.num_program_cache_entries()
    G.begin_graph_capture(G.RunMode.NO_DISPATCH)
    huge = ttnn.allocate_tensor_on_device(
        ttnn.Shape([1, 1, 65536, 65536]), ttnn.bfloat16, ttnn.TILE_LAYOUT, card, ttnn.L1_MEMORY_CONFIG
    )
    y = toys.plus(toys.broken(huge))
    assert y.buffer_address() == 0
    graph = G.end_graph_capture()
    ttnn.synchronize_device(card)  # the numbers of `broken` never ran
    assert [card.memory_view(kind) for kind in card.memory.regions] == views
    assert card.num_program_cache_entries() == programs
    assert G.extract_resource_usage_per_core(graph).peak_l1 == 3 * 2 * 65536**2 // card.card.cores
    del huge, y
    assert [card.memory_view(kind) for kind in card.memory.regions] == views


def test_a_tensor_given_up_in_a_dry_run_is_really_given_up(card, tensor):
    x = tensor(card)
    G.begin_graph_capture(G.RunMode.NO_DISPATCH)
    ttnn.deallocate(x)
    G.end_graph_capture()
    assert card.memory_view(ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == 0


def test_captures_nest_and_end(card, toys, tensor):
    x = tensor(card)
    assert G.end_graph_capture() is None and not G.is_graph_capture_active()
    G.begin_graph_capture()
    toys.plus(x)
    G.begin_graph_capture(G.RunMode.NORMAL)
    toys.plus(x)
    inner, outer = G.end_graph_capture(), G.end_graph_capture()
    assert [n for n in G.extract_calltrace(inner) if n.startswith("ttnn.")] == ["ttnn.test_plus"]
    assert [n for n in G.extract_calltrace(outer) if n.startswith("ttnn.")] == ["ttnn.test_plus"] * 2
    assert not card.listeners and not card.memory_listeners
    assert G.extract_total_duration_from_graph(outer) > 0
    assert set(G.extract_operation_durations(inner)) >= {"ttnn.test_plus", "TestPlusDeviceOperation"}


def test_temporaries_and_dropped_tensors_are_given_back_in_the_graph(card, toys, tensor):
    x = tensor(card, memory_config=ttnn.L1_MEMORY_CONFIG)
    G.begin_graph_capture()
    y = toys.plus(x, temporary=True)
    del y
    graph = G.end_graph_capture()
    kinds = [n["node_type"] for n in graph]
    assert kinds.count("buffer_allocate") == kinds.count("buffer_deallocate") == 2
    one = x.spec.num_pages * x.spec.page_bytes
    assert G.extract_peak_L1_memory_usage(graph) == 2 * one + 2 * x.spec.page_bytes
    assert G.extract_circular_buffers_peak_size_per_core(graph) == 2 * x.spec.page_bytes


def test_a_capture_has_what_its_own_thread_does(card, tensor):
    """Recorded: another thread finds no capture active and its calls run; in a dry run of this one they do so too."""
    x = tensor(card)
    seen = []

    def work():
        y = ttnn.add(x, 1.0)
        seen.append((G.is_graph_capture_active(), y.buffer_address() > 0, ttnn.to_torch(y).mean().item()))
        G.begin_graph_capture()
        ttnn.relu(x)
        seen.append([n for n in G.extract_calltrace(G.end_graph_capture()) if n.startswith("ttnn.")])

    G.begin_graph_capture(G.RunMode.NO_DISPATCH)
    other = threading.Thread(target=work)
    other.start()
    other.join()
    mine = ttnn.silu(x)
    graph = G.end_graph_capture()
    assert seen == [(False, True, pytest.approx(ttnn.to_torch(x).mean().item() + 1, abs=0.01)), ["ttnn.relu"]]
    assert mine.buffer_address() == 0
    assert [n for n in G.extract_calltrace(graph) if n.startswith("ttnn.")] == ["ttnn.silu"]


def test_a_call_that_fails_leaves_a_graph_that_can_be_read(card, tensor):
    x = tensor(card)
    G.begin_graph_capture()
    for wrong in (lambda: ttnn.relu(), lambda: ttnn.matmul(x, x, memory_config=3), lambda: ttnn.add(1, 2)):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            wrong()
    y = ttnn.relu(x)
    graph = G.end_graph_capture()
    kinds = [n["node_type"] for n in graph]
    assert kinds.count("function_start") == kinds.count("function_end")
    assert [n for n in G.extract_calltrace(graph) if n.startswith("ttnn.")][-1] == "ttnn.relu"
    assert G.extract_output_info(graph)[0].shape == y.shape


def test_memory_from_before_the_capture_is_given_back_in_it(card, tensor):
    x = tensor(card, memory_config=ttnn.L1_MEMORY_CONFIG)
    G.begin_graph_capture()
    ttnn.deallocate(x)
    graph = G.end_graph_capture()
    kinds = ["function_start", "function_start", "buffer", "buffer_deallocate", "function_end", "function_end"]
    assert [n["node_type"] for n in graph] == ["capture_start", *kinds, "capture_end"]
    assert G.extract_resource_usage_per_core(graph).peak_l1 == 0


def test_a_view_is_a_call_without_memory_of_its_own(card, tensor):
    x = tensor(card, memory_config=ttnn.L1_MEMORY_CONFIG)
    G.begin_graph_capture()
    view = ttnn.reshape(x, (32, 64))
    ttnn.deallocate(view)
    graph = G.end_graph_capture()
    kinds = [n["node_type"] for n in graph]
    assert kinds.count("buffer_allocate") == 0 and kinds.count("buffer_deallocate") == 1
    assert [n for n in G.extract_calltrace(graph) if n.startswith("ttnn.")] == ["ttnn.reshape", "ttnn.deallocate"]


def test_a_trace_is_captured_inside_a_graph(open_card, tensor):
    card = open_card(trace_region_size=1 << 20)
    x = tensor(card)
    ttnn.relu(x)
    G.begin_graph_capture()
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    y = ttnn.relu(x)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
    calls = G.extract_calltrace(G.end_graph_capture())
    assert [n for n in calls if not n.startswith("tt::")] == ["ttnn.relu", "UnaryDeviceOperation"]
    assert ttnn.to_torch(y).shape == x.shape


def test_a_device_may_be_closed_during_a_capture(open_card, tensor):
    card = open_card()
    x = tensor(card, memory_config=ttnn.L1_MEMORY_CONFIG)
    G.begin_graph_capture(G.RunMode.NO_DISPATCH)
    ttnn.close_device(card)
    assert [n["node_type"] for n in G.end_graph_capture()][-1] == "capture_end"
    assert not x.is_allocated() and not G.is_graph_capture_active()


def test_wrong_use():
    with pytest.raises(TypeError, match=r"run_mode"):
        G.begin_graph_capture(3)
    with pytest.raises(RuntimeError, match=r"No function_end node with tensor connections found in the trace"):
        G.extract_output_tensors([])
