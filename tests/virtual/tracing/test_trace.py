# SPDX-License-Identifier: Apache-2.0
"""Traces: what may be captured, what a replay does, and where the trace lives."""

from __future__ import annotations

import logging

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.hazards.hazards import HazardWarning


def _values(tensor):
    return ttnn.to_torch(tensor).float().unique().tolist()


@pytest.fixture
def traced(card, toys, tensor):
    """x, x + 1 + 1 and the trace that computes it; the programs are cached."""
    x = tensor(card)
    toys.plus(toys.plus(x))
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    y = toys.plus(toys.plus(x))
    ttnn.end_trace_capture(card, trace, cq_id=0)
    return card, x, y, trace


def test_a_replay_computes_into_the_same_tensor(traced, tensor):
    card, x, y, trace = traced
    address = y.buffer_address()
    for value in (0.0, 5.0, 7.0):
        ttnn.copy_host_to_device_tensor(tensor(None, value), x)
        ttnn.execute_trace(card, trace, cq_id=0, blocking=False)
        assert _values(y) == [value + 2]
    assert y.buffer_address() == address


def test_capturing_does_not_run(card, toys, tensor):
    x = tensor(card)
    y = tensor(card, 4.0)
    toys.into(x, y)
    ttnn.copy_host_to_device_tensor(tensor(None, 4.0), y)
    trace = ttnn.begin_trace_capture(card)
    toys.into(x, y)
    ttnn.end_trace_capture(card, trace)
    assert _values(y) == [4.0]
    ttnn.execute_trace(card, trace)
    assert _values(y) == [0.0]


def test_reading_the_output_of_a_trace_that_never_ran(traced):
    card, _, y, trace = traced
    with pytest.warns(HazardWarning, match=r"which nothing has written"):
        y.cpu()
    ttnn.execute_trace(card, trace)
    assert _values(y) == [2.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, x, h: x.cpu(), "Reads are not supported during trace capture."),
        (lambda d, x, h: ttnn.to_torch(x), "Reads are not supported during trace capture."),
        (lambda d, x, h: ttnn.to_device(h, d), "Writes are not supported during trace capture."),
        (lambda d, x, h: ttnn.copy_host_to_device_tensor(h, x), "Writes are not supported during trace capture."),
        (lambda d, x, h: ttnn.record_event(d, 0), "Event Synchronization is not supported during trace capture."),
        (lambda d, x, h: ttnn.synchronize_device(d), "Event Synchronization is not supported during trace capture."),
    ],
)
def test_what_a_capture_refuses(card, tensor, call, message):
    x, host = tensor(card), tensor(None)
    view = card.memory_view(ttnn.BufferType.DRAM)
    trace = ttnn.begin_trace_capture(card)
    with pytest.raises(RuntimeError, match=message):
        call(card, x, host)
    ttnn.end_trace_capture(card, trace)
    assert card.memory_view(ttnn.BufferType.DRAM) == view


def test_the_other_queue_is_free_during_a_capture(two_queues, toys, tensor):
    x, y, host = tensor(two_queues), tensor(two_queues), tensor(None, 3.0)
    toys.plus(x)
    ttnn.synchronize_device(two_queues)
    trace = ttnn.begin_trace_capture(two_queues, cq_id=0)
    toys.plus(x)
    ttnn.copy_host_to_device_tensor(host, y, cq_id=1)
    ttnn.event_synchronize(ttnn.record_event(two_queues, 1))
    assert y.cpu(cq_id=1).to_torch().float().unique().tolist() == [3.0]
    ttnn.end_trace_capture(two_queues, trace, cq_id=0)


def test_a_program_must_be_compiled_before(card, toys, tensor):
    x = tensor(card)
    allocated = card.memory_view(ttnn.BufferType.DRAM)
    trace = ttnn.begin_trace_capture(card)
    with pytest.raises(RuntimeError, match=r"Cannot load new binaries during trace capture"):
        toys.plus(x)
    ttnn.end_trace_capture(card, trace)
    assert card.memory_view(ttnn.BufferType.DRAM) == allocated
    toys.plus(x)
    trace = ttnn.begin_trace_capture(card)
    toys.plus(x)
    ttnn.end_trace_capture(card, trace)


def test_program_cache_first_call_cached_call_clear_disable(card, toys, tensor):
    x = tensor(card)
    with card.record_commands() as commands:
        toys.plus(x)
        toys.plus(x)
        assert card.num_program_cache_entries() == 1
        card.clear_program_cache()
        toys.plus(x)
        card.disable_and_clear_program_cache()
        toys.plus(x)
        toys.plus(x)
        assert card.num_program_cache_entries() == 0
        card.enable_program_cache()
        toys.plus(x)
        toys.plus(x)
    assert [c.cached for c in commands] == [False, True, False, False, False, False, True]


def test_ids_and_wrong_use(card):
    first = ttnn.begin_trace_capture(card, cq_id=0)
    assert repr(first) == "MeshTraceId(1)" and int(first) == 1 and first != 1
    with pytest.raises(RuntimeError, match=r"CQ 0 is already being used for tracing tid 1"):
        ttnn.begin_trace_capture(card, cq_id=0)
    with pytest.raises(RuntimeError, match=r"CQ 0 is not being used for tracing tid 7"):
        ttnn.end_trace_capture(card, ttnn.MeshTraceId(7), cq_id=0)
    ttnn.end_trace_capture(card, first, cq_id=0)
    with pytest.raises(RuntimeError, match=r"Trace instance 7 must exist on Mesh device"):
        ttnn.execute_trace(card, ttnn.MeshTraceId(7))
    ttnn.release_trace(card, first)
    ttnn.release_trace(card, first)  # TT-NN says nothing either


def test_execute_after_release(traced):
    card, _, _, trace = traced
    ttnn.release_trace(card, trace)
    expected = f"Trace instance {int(trace)} must exist on Mesh device {card.id()}'s active sub-device manager 0"
    with pytest.raises(RuntimeError, match=expected):
        ttnn.execute_trace(card, trace)


def test_two_traces_replay_independently(card, toys, tensor):
    x = tensor(card, 1.0)
    toys.plus(x)
    made = []
    for _ in range(2):
        trace = ttnn.begin_trace_capture(card)
        y = toys.plus(x if not made else made[0][1])
        ttnn.end_trace_capture(card, trace)
        made.append((trace, y))
    for trace, _ in made:
        ttnn.execute_trace(card, trace, blocking=False)
    assert [_values(y) for _, y in made] == [[2.0], [3.0]]


def test_an_error_in_a_capture_leaves_it_open_until_it_is_ended(card, toys, tensor):
    x = tensor(card)
    toys.plus(x)
    trace = ttnn.begin_trace_capture(card)
    with pytest.raises(RuntimeError):
        toys.move(x)
    ttnn.end_trace_capture(card, trace)
    ttnn.release_trace(card, trace)
    assert _values(toys.plus(x)) == [1.0]


def test_a_card_closes_with_a_capture_open(open_card):
    card = open_card()
    ttnn.begin_trace_capture(card)
    ttnn.close_device(card)
    assert open_card().capturing is None


def test_a_trace_region_that_is_too_small(open_card, toys, tensor):
    card = open_card(trace_region_size=4096)
    x = tensor(card)
    for _ in range(3):
        x = toys.plus(x)
    trace = ttnn.begin_trace_capture(card)
    for _ in range(3):
        toys.plus(x)
    expected = rf"Creating trace buffers of size \d+B on MeshDevice {card.id()}, but only 4096B is allocated for trace"
    with pytest.raises(RuntimeError, match=expected):
        ttnn.end_trace_capture(card, trace)
    assert card.capturing is None and not card.traces
    assert _values(toys.plus(x)) == [4.0]


def test_the_trace_region_fills_and_empties(open_card, toys, tensor):
    card = open_card(trace_region_size=65536)
    x = tensor(card)
    toys.plus(x)
    made = []
    with pytest.raises(RuntimeError, match=r"Creating trace buffers"):
        for _ in range(100):
            trace = ttnn.begin_trace_capture(card)
            toys.plus(x)
            ttnn.end_trace_capture(card, trace)
            made.append(trace)
    assert made
    for trace in made:
        ttnn.release_trace(card, trace)
    assert card.memory_view(ttnn.BufferType.TRACE).total_bytes_allocated_per_bank == 0
    trace = ttnn.begin_trace_capture(card)
    toys.plus(x)
    ttnn.end_trace_capture(card, trace)


def test_without_a_region_the_trace_goes_to_the_top_of_dram(traced, caplog):
    card, _, _, trace = traced
    place = card.traces[int(trace)].place
    view = card.memory_view(ttnn.BufferType.DRAM)
    assert place.address + place.bank_bytes == card.card.dram_base + view.total_bytes_per_bank


def test_allocating_beside_a_live_trace_is_warned_of_once(traced, tensor, caplog):
    card, _, _, trace = traced
    with caplog.at_level(logging.WARNING, "tt_cnn.virtual"):
        kept = [tensor(card), tensor(card)]
    assert sum("potentially unsafe due to the existence of an active trace" in m for m in caplog.messages) == 1
    del kept
    ttnn.release_trace(card, trace)


def test_a_replay_over_a_tensor_that_came_later_is_reported(card, toys, tensor):
    """The first sum of the trace is dropped after the capture; its memory goes to another tensor."""
    x = tensor(card)
    toys.plus(toys.plus(x))
    trace = ttnn.begin_trace_capture(card)
    y = toys.plus(toys.plus(x))
    ttnn.end_trace_capture(card, trace)
    ttnn.execute_trace(card, trace)
    late = tensor(card, 1.0)
    with pytest.warns(HazardWarning, match=r"where a tensor allocated after the capture lives") as warned:
        ttnn.execute_trace(card, trace)
    assert str(late.buffer_address()) in str(warned[0].message)
    ttnn.deallocate(late)
    ttnn.execute_trace(card, trace)
    assert _values(y) == [2.0]


def test_a_temporary_of_the_trace_counts_too(card, toys, tensor):
    x = tensor(card)
    toys.plus(x, temporary=True)
    trace = ttnn.begin_trace_capture(card)
    y = toys.plus(x, temporary=True)
    ttnn.end_trace_capture(card, trace)
    late = tensor(card, 1.0)
    with pytest.warns(HazardWarning, match=r"a temporary of TestCopy"):
        ttnn.execute_trace(card, trace)
    assert late.buffer_address() != y.buffer_address()


def test_replays_are_commands_with_their_trace(traced):
    card, _, _, trace = traced
    with card.record_commands() as commands:
        ttnn.execute_trace(card, trace)
    assert [(c.name, c.trace_id) for c in commands] == [(f"replay of trace {int(trace)}", int(trace))]


def test_an_error_in_a_replay_comes_to_whoever_waits(card, toys, tensor):
    x = tensor(card)
    toys.broken(x)
    with pytest.raises(ArithmeticError):
        ttnn.synchronize_device(card)
    trace = ttnn.begin_trace_capture(card)
    toys.broken(x)
    ttnn.end_trace_capture(card, trace)
    with pytest.raises(ArithmeticError, match=r"broken numbers"):
        ttnn.execute_trace(card, trace)
    assert torch.equal(ttnn.to_torch(x), torch.zeros(1, 1, 32, 64, dtype=torch.bfloat16))
