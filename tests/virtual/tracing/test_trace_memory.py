# SPDX-License-Identifier: Apache-2.0
"""The memory that traces stand on: a replay reads and writes addresses, whoever holds them by then."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import HazardError
from tt_cnn.virtual.hazards.hazards import HazardWarning
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.queues.accesses import temporaries
from tt_cnn.virtual.types.enums import BufferType

ENGINES = [(engine, numerics) for engine in ("torch", "cpu") for numerics in ("device", "native")]


@pytest.fixture(params=ENGINES, ids="-".join)
def any_card(request: pytest.FixtureRequest, open_card: Callable[..., Any]) -> Any:
    engine, numerics = request.param
    return open_card(engine=engine, numerics=numerics)


@pytest.fixture(params=["warn", "off", "raise"])
def any_mode(request: pytest.FixtureRequest, open_card: Callable[..., Any]) -> Any:
    """What nobody knows is refused in every mode."""
    return open_card(hazards=request.param)


def value(tensor: Any) -> float:
    return float(ttnn.to_torch(tensor).float().unique())


def capture(card: Any, record: Callable[[], Any], warm_up: bool = True) -> tuple[Any, Any]:
    """What was recorded and its trace."""
    if warm_up:
        record()
    trace = ttnn.begin_trace_capture(card)
    result = record()
    ttnn.end_trace_capture(card, trace)
    return result, trace


# --- what a trace reads ------------------------------------------------------------------------------------------


def test_a_replay_reads_what_lies_where_its_input_lay(any_card, toys, tensor):
    x = tensor(any_card, 1.0)
    y, trace = capture(any_card, lambda: toys.plus(x))
    address = x.buffer_address()
    for given in (1.0, 5.0, 9.0):
        ttnn.deallocate(x)
        x = tensor(any_card, given)
        assert x.buffer_address() == address
        ttnn.execute_trace(any_card, trace)
        assert value(y) == given + 1


def test_the_result_of_a_call_can_lie_where_the_input_lay(any_card, toys, tensor):
    x, other = tensor(any_card, 1.0), tensor(any_card, 6.0)
    y, trace = capture(any_card, lambda: toys.plus(x))
    address = x.buffer_address()
    ttnn.deallocate(x)
    late = toys.plus(other)
    assert late.buffer_address() == address
    ttnn.execute_trace(any_card, trace)
    assert value(y) == 8.0


def test_an_input_moved_to_where_it_is_stays_the_input(any_card, tensor, toys):
    x = tensor(any_card, 1.0)
    y, trace = capture(any_card, lambda: toys.plus(x))
    address = x.buffer_address()
    x = ttnn.reallocate(x)
    assert x.buffer_address() == address
    ttnn.copy_host_to_device_tensor(tensor(None, 4.0), x)
    ttnn.execute_trace(any_card, trace)
    assert value(y) == 5.0


def test_an_input_that_was_dropped_is_freed_like_any_other(any_card, toys, tensor):
    held = {"x": tensor(any_card, 1.0)}
    held["itself"] = held  # for the garbage collector
    y, trace = capture(any_card, lambda held=held: toys.plus(held["x"]))
    address = held["x"].buffer_address()
    del held
    gc.collect()
    x = tensor(any_card, 3.0)
    assert x.buffer_address() == address
    ttnn.execute_trace(any_card, trace)
    assert value(y) == 4.0


def test_an_input_dropped_on_another_thread_while_the_books_are_open(card, toys, tensor):
    held = [tensor(card, 1.0)]
    y, trace = capture(card, lambda: toys.plus(held[0]))
    with card.lock:
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        assert len(card.live) == 2, "its memory is in use until the books are closed"
    x = tensor(card, 3.0)
    ttnn.execute_trace(card, trace)
    assert value(y) == 4.0 and len(card.live) == 2
    del x


def test_all_chips_of_a_mesh_read_what_lies_where_their_inputs_lay(toys):
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300")
    try:

        def parts(*given: float) -> Any:
            rows = torch.cat([torch.full((1, 1, 32, 64), one) for one in given])
            mapper = ttnn.ShardTensorToMesh(mesh, dim=0)
            return ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=mapper)

        x = parts(1.0, 2.0)
        y, trace = capture(mesh, lambda: toys.plus(x))
        for given in ((1.0, 2.0), (5.0, 7.0), (8.0, 8.0)):
            ttnn.deallocate(x)
            x = parts(*given)
            ttnn.execute_trace(mesh, trace)
            found = ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)).float()
            assert [float(part.unique()) for part in found] == [one + 1 for one in given]
    finally:
        ttnn.close_mesh_device(mesh)


def test_a_freed_input_that_nothing_overwrites_keeps_its_values(any_card, toys, tensor):
    x = tensor(any_card, 1.0)
    y, trace = capture(any_card, lambda: toys.plus(x))
    ttnn.deallocate(x)
    ttnn.execute_trace(any_card, trace)
    assert value(y) == 2.0
    empty = ttnn.allocate_tensor_on_device(y.spec, any_card)  # takes the memory, and writes nothing
    ttnn.execute_trace(any_card, trace)
    assert value(y) == 2.0
    with pytest.warns(HazardWarning, match=r"which nothing has written"):
        empty.cpu()


REFUSED = r"replaying trace \d+ reads a tensor of shape .* wrote over it, and nothing has written it since"


@pytest.mark.parametrize(
    "other", [{"shape": (1, 1, 64, 32)}, {"dtype": ttnn.bfloat8_b}, {"layout": ttnn.ROW_MAJOR_LAYOUT}]
)
def test_an_input_under_another_tensor_is_refused(any_mode, toys, tensor, other):
    x = tensor(any_mode, 1.0)
    y, trace = capture(any_mode, lambda: toys.plus(x))
    ttnn.execute_trace(any_mode, trace)
    address = x.buffer_address()
    ttnn.deallocate(x)
    late = tensor(any_mode, 7.0, **other)
    assert late.buffer_address() == address
    for _ in range(2):
        with pytest.raises(HazardError, match=REFUSED):
            ttnn.execute_trace(any_mode, trace)
    assert value(y) == 2.0, "a replay that was refused changes nothing"
    ttnn.deallocate(late)
    with pytest.raises(HazardError, match=r"ttnn\.to_device on queue 0 wrote over it"):
        ttnn.execute_trace(any_mode, trace)
    again = tensor(any_mode, 7.0)
    assert again.buffer_address() == address
    ttnn.execute_trace(any_mode, trace)
    assert value(y) == 8.0


def test_an_input_under_a_temporary_of_a_call_is_refused(any_mode, toys, tensor):
    x, other = tensor(any_mode, 1.0), tensor(any_mode, 1.0)
    _, trace = capture(any_mode, lambda: toys.plus(x))
    ttnn.deallocate(x)
    kept = toys.plus(other, temporary=True)
    with pytest.raises(HazardError, match=r"ttnn\.test_plus on queue 0 wrote over it"):
        ttnn.execute_trace(any_mode, trace)
    assert value(kept) == 2.0


def test_an_input_under_circular_buffers_is_refused(any_mode, toys, tensor):
    x, y = (tensor(any_mode, 1.0, memory_config=place) for place in (ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG))
    ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG, output_tensor=y)
    _, trace = capture(any_mode, lambda: ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG, output_tensor=y))
    ttnn.deallocate(x)
    ttnn.execute_trace(any_mode, trace)
    assert value(y) == 1.0
    toys.wide(y)
    with pytest.raises(HazardError, match=r"ttnn\.test_wide on queue 0 wrote over it"):
        ttnn.execute_trace(any_mode, trace)


def test_an_input_under_the_result_of_another_trace_is_refused(any_mode, toys, tensor):
    x = tensor(any_mode, 1.0)
    y, first = capture(any_mode, lambda: toys.plus(x))
    other, address = tensor(any_mode, 1.0), x.buffer_address()
    ttnn.deallocate(x)
    z, second = capture(any_mode, lambda: toys.plus(other), warm_up=False)
    assert z.buffer_address() == address
    ttnn.execute_trace(any_mode, first)
    assert value(y) == 2.0
    ttnn.execute_trace(any_mode, second)
    with pytest.raises(HazardError, match=r"a replay of trace 2 \(test_plus\) wrote over it"):
        ttnn.execute_trace(any_mode, first)
    ttnn.release_trace(any_mode, first)
    assert not any_mode.loose.cells


def test_an_input_allocated_again_is_the_one_that_is_read_whatever_else_was_written_there(any_card, toys, tensor):
    x, other = tensor(any_card, 1.0), tensor(any_card, 1.0)
    y, first = capture(any_card, lambda: toys.plus(x))
    address = x.buffer_address()
    ttnn.deallocate(x)
    place, _ = capture(any_card, lambda: toys.plus(other).buffer_address(), warm_up=False)
    assert place == address
    x = tensor(any_card, 5.0)
    assert x.buffer_address() == address
    ttnn.execute_trace(any_card, first)
    assert value(y) == 6.0


def test_a_trace_can_bring_back_what_another_reads(any_mode, toys, tensor):
    x = tensor(any_mode, 1.0)
    middle, first = capture(any_mode, lambda: toys.plus(x))
    y, second = capture(any_mode, lambda: toys.plus(middle), warm_up=False)
    ttnn.deallocate(middle)
    for given in (2.0, 3.0):
        ttnn.copy_host_to_device_tensor(tensor(None, given), x)
        ttnn.execute_trace(any_mode, first)
        ttnn.execute_trace(any_mode, second)
        assert value(y) == given + 2
        ttnn.deallocate(tensor(any_mode, 7.0, layout=ttnn.ROW_MAJOR_LAYOUT))
        with pytest.raises(HazardError, match=REFUSED):
            ttnn.execute_trace(any_mode, second)


def test_a_replay_that_reads_what_nothing_has_written_is_reported(card, toys, tensor):
    toys.plus(tensor(card))
    x = ttnn.allocate_tensor_on_device(tensor(None).spec, card)
    trace = ttnn.begin_trace_capture(card)
    y = toys.plus(x)
    ttnn.end_trace_capture(card, trace)
    with pytest.warns(HazardWarning, match=r"replaying trace 1 reads .* which nothing has written"):
        ttnn.execute_trace(card, trace)
    ttnn.copy_host_to_device_tensor(tensor(None, 2.0), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ttnn.execute_trace(card, trace)
    assert value(y) == 3.0


# --- what a trace writes -----------------------------------------------------------------------------------------


def test_a_tensor_that_lies_where_an_output_lay_has_what_the_replay_writes(any_card, toys, tensor):
    x = tensor(any_card, 1.0)
    (_, y), trace = capture(any_card, lambda: (first := toys.plus(x), toys.plus(first)))
    ttnn.execute_trace(any_card, trace)
    address = y.buffer_address()
    ttnn.deallocate(y)
    late = tensor(any_card, 50.0)
    assert late.buffer_address() == address and value(late) == 50.0
    with pytest.warns(HazardWarning, match=r"where a tensor allocated after the capture lives"):
        ttnn.execute_trace(any_card, trace)
    assert value(late) == 3.0
    for given in (4.0, 5.0):
        ttnn.copy_host_to_device_tensor(tensor(None, given), x)
        ttnn.execute_trace(any_card, trace)
        assert value(late) == given + 2


def test_a_tensor_that_lies_where_an_intermediate_lay_has_what_the_replay_writes(any_card, toys, tensor):
    """A compiled replay has no values of its intermediates, until a tensor holds one."""
    x = tensor(any_card, 1.0)
    y, trace = capture(any_card, lambda: toys.plus(toys.plus(x)))
    for given in (2.0, 3.0, 4.0):
        ttnn.copy_host_to_device_tensor(tensor(None, given), x)
        ttnn.execute_trace(any_card, trace)
        assert value(y) == given + 2
    late = tensor(any_card, 50.0)
    with pytest.warns(HazardWarning, match=r"where a tensor allocated after the capture lives"):
        ttnn.execute_trace(any_card, trace)
    assert (value(late), value(y)) == (5.0, 6.0)
    ttnn.copy_host_to_device_tensor(tensor(None, 7.0), x)
    ttnn.execute_trace(any_card, trace)
    assert (value(late), value(y)) == (8.0, 9.0)


def test_a_tensor_allocated_in_the_capture_has_what_the_replay_writes_there(any_card, toys, tensor):
    """Its buffer is another than that of the call which wrote it."""
    x = tensor(any_card, 1.0)
    toys.plus(x)
    trace = ttnn.begin_trace_capture(any_card)
    y = toys.plus(x)
    spec, address = y.spec, y.buffer_address()
    ttnn.deallocate(y)
    again = ttnn.allocate_tensor_on_device(spec, any_card)
    ttnn.end_trace_capture(any_card, trace)
    assert again.buffer_address() == address
    for given in (2.0, 3.0, 4.0):
        ttnn.copy_host_to_device_tensor(tensor(None, given), x)
        ttnn.execute_trace(any_card, trace)
        assert value(again) == given + 1


def test_a_tensor_that_a_replay_wrote_over_cannot_be_read(open_card, toys, tensor):
    for mode in ("warn", "off"):  # with raise there is no such replay
        card = open_card(hazards=mode)
        x = tensor(card, 1.0)
        _, trace = capture(card, lambda x=x: toys.plus(toys.plus(x)))
        late = tensor(card, 5.0, layout=ttnn.ROW_MAJOR_LAYOUT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HazardWarning)
            ttnn.execute_trace(card, trace)
        with pytest.raises(HazardError, match=r"ttnn\.from_device reads .* a replay of trace 1 \(test_plus\) wrote"):
            late.cpu()
        allocated = card.memory_view(ttnn.BufferType.DRAM)
        with pytest.raises(HazardError, match=r"ttnn\.test_bump reads .* a replay of trace 1 \(test_plus\) wrote"):
            toys.bump(late)
        with pytest.raises(HazardError, match=r"ttnn\.test_move reads"):
            toys.move(late)
        assert late.is_allocated() and card.memory_view(ttnn.BufferType.DRAM) == allocated
        host = tensor(None, 6.0, layout=ttnn.ROW_MAJOR_LAYOUT)
        ttnn.copy_host_to_device_tensor(host, late)
        assert value(late) == 6.0
        ttnn.close_device(card)


def test_a_hazard_that_is_raised_leaves_the_tensor_as_it_was(two_queues, toys, tensor):
    x = tensor(two_queues, 1.0)
    _, trace = capture(two_queues, lambda: toys.plus(toys.plus(x)))
    late = tensor(two_queues, 5.0, layout=ttnn.ROW_MAJOR_LAYOUT)
    for _ in range(2):
        with pytest.raises(HazardError, match=r"where a tensor allocated after the capture lives"):
            ttnn.execute_trace(two_queues, trace)
    assert value(late) == 5.0
    ttnn.deallocate(late)
    ttnn.execute_trace(two_queues, trace)


# --- inputs that the trace itself overwrites ---------------------------------------------------------------------


def overwriting(card: Any, toys: Any, tensor: Any, value: float = 1.0) -> tuple[Any, Any, Any]:
    """x + 3; x is freed after the first step, the second writes there, and x is allocated again in the capture."""
    toys.plus(tensor(card))
    x = tensor(card, value)
    spec, address = x.spec, x.buffer_address()
    trace = ttnn.begin_trace_capture(card)
    first = toys.plus(x)
    ttnn.deallocate(x)
    second = toys.plus(first)
    assert second.buffer_address() == address
    third = toys.plus(second)
    ttnn.deallocate(second)
    x = ttnn.allocate_tensor_on_device(spec, card)
    assert x.buffer_address() == address
    ttnn.end_trace_capture(card, trace)
    return x, third, trace


def test_an_input_that_the_trace_overwrites_is_written_before_every_replay(any_card, toys, tensor):
    x, y, trace = overwriting(any_card, toys, tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (1.0, 4.0, 9.0):
            ttnn.copy_host_to_device_tensor(tensor(None, given), x)
            ttnn.execute_trace(any_card, trace)
            assert value(y) == given + 3


def test_an_input_that_the_trace_overwrites_must_be_written_again(any_mode, toys, tensor):
    x, y, trace = overwriting(any_mode, toys, tensor)
    ttnn.execute_trace(any_mode, trace)  # on what was there before the capture
    assert value(y) == 4.0
    with pytest.raises(HazardError, match=r"a replay of trace \d+ \(test_plus\) wrote over it"):
        ttnn.execute_trace(any_mode, trace)
    with pytest.raises(HazardError, match=r"ttnn\.from_device reads .* a replay of trace"):
        x.cpu()
    ttnn.copy_host_to_device_tensor(tensor(None, 7.0), x)
    assert value(x) == 7.0
    ttnn.execute_trace(any_mode, trace)
    assert value(y) == 10.0


def test_an_input_written_by_a_call_that_comes_again_and_again(any_card, toys, tensor, monkeypatch):
    """As pipelines stage their inputs: one command serves every time, though the replay has written over its target."""
    source, found = tensor(any_card), []
    x, y, trace = overwriting(any_card, toys, tensor)
    find = any_card.repeats.find
    monkeypatch.setattr(any_card.repeats, "find", lambda *given: found.append(find(*given)) or found[-1])
    for given in (1.0, 2.0, 3.0, 4.0):
        ttnn.copy_host_to_device_tensor(tensor(None, given), source)
        toys.into(source, x)
        ttnn.execute_trace(any_card, trace)
        assert value(y) == given + 3
    assert [one is not None for one in found] == [False, False, True, True]


def test_an_input_freed_in_the_capture_and_never_allocated_again(any_mode, toys, tensor):
    toys.plus(tensor(any_mode))
    x = tensor(any_mode, 1.0)
    trace = ttnn.begin_trace_capture(any_mode)
    first = toys.plus(x)
    del x
    y = toys.plus(first)  # where x was
    ttnn.end_trace_capture(any_mode, trace)
    ttnn.execute_trace(any_mode, trace)
    assert value(y) == 3.0
    with pytest.raises(HazardError, match=REFUSED):
        ttnn.execute_trace(any_mode, trace)


def test_an_input_changed_in_place_and_freed_counts_on(any_card, toys, tensor):
    """Every replay reads what the one before it has left, though no buffer holds that."""
    other, x = tensor(any_card, 1.0), tensor(any_card, 1.0)
    toys.plus(toys.bump(toys.into(other, x)))
    trace = ttnn.begin_trace_capture(any_card)
    toys.bump(x)
    y = toys.plus(x)
    ttnn.deallocate(x)
    ttnn.end_trace_capture(any_card, trace)
    for count in range(5):
        ttnn.execute_trace(any_card, trace)
        assert value(y) == 4.0 + count


def test_a_trace_cannot_read_a_tensor_allocated_in_it_where_it_wrote_something_else(any_mode, toys, tensor):
    rows = {"layout": ttnn.ROW_MAJOR_LAYOUT}
    x, y = tensor(any_mode, 1.0), tensor(any_mode, 1.0, **rows)
    toys.plus(x), toys.into(tensor(any_mode, **rows), y)
    trace = ttnn.begin_trace_capture(any_mode)
    address = toys.plus(x).buffer_address()
    late = ttnn.allocate_tensor_on_device(y.spec, any_mode)
    assert late.buffer_address() == address
    toys.into(late, y)
    ttnn.end_trace_capture(any_mode, trace)
    ttnn.copy_host_to_device_tensor(tensor(None, 5.0, **rows), late)
    for _ in range(2):
        with pytest.raises(
            HazardError, match=r"which was allocated during the capture, after it has written test_plus"
        ):
            ttnn.execute_trace(any_mode, trace)
    assert value(late) == 5.0


def test_the_other_queue_may_allocate_where_a_capture_has_freed(two_queues, toys, tensor):
    x = tensor(two_queues, 1.0)
    toys.plus(x)
    ttnn.synchronize_device(two_queues)
    trace = ttnn.begin_trace_capture(two_queues, cq_id=0)
    y, address = toys.plus(x), x.buffer_address()
    ttnn.deallocate(x)
    with ttnn.command_queue(1):
        x = tensor(two_queues, 4.0)
    ttnn.end_trace_capture(two_queues, trace, cq_id=0)
    assert x.buffer_address() == address
    ttnn.wait_for_event(0, ttnn.record_event(two_queues, 1))
    ttnn.execute_trace(two_queues, trace)
    assert value(y) == 5.0

    trace = ttnn.begin_trace_capture(two_queues, cq_id=0)
    y = toys.plus(x)
    ttnn.deallocate(x)
    with ttnn.command_queue(1):
        x = tensor(two_queues, 4.0, layout=ttnn.ROW_MAJOR_LAYOUT)
    ttnn.end_trace_capture(two_queues, trace, cq_id=0)
    assert x.buffer_address() == address
    ttnn.wait_for_event(0, ttnn.record_event(two_queues, 1))
    with pytest.raises(HazardError, match=REFUSED):
        ttnn.execute_trace(two_queues, trace)
    del y


# --- the books ---------------------------------------------------------------------------------------------------


def test_replays_look_at_nothing_while_memory_stays_as_it_is(card, toys, tensor, monkeypatch):
    x, y, trace = overwriting(card, toys, tensor)
    ttnn.execute_trace(card, trace)
    memory = card.traces[int(trace)].memory
    for name in ("_last_over", "_look_at_buffers", "_look_at_loose"):
        monkeypatch.setattr(memory, name, None)
    for given in (2.0, 3.0):
        ttnn.copy_host_to_device_tensor(tensor(None, given), x)
        ttnn.execute_trace(card, trace)
        assert value(y) == given + 3


def test_what_traces_hold_goes_with_them(card, toys, tensor):
    x = tensor(card, 1.0)
    y, trace = capture(card, lambda: toys.plus(x))
    ttnn.deallocate(x)
    assert len(card.loose.cells) == 1
    ttnn.release_trace(card, trace)
    assert not card.loose.cells
    late = tensor(card, 1.0)
    assert late._buffer.cell is not x._buffer.cell and list(card.cells) == list(card.live)
    del y, late
    assert not card.live and not card.cells


def test_a_capture_that_fails_leaves_nothing_behind(open_card, toys, tensor):
    card = open_card(trace_region_size=2048)
    x = tensor(card)
    toys.plus(x)
    trace = ttnn.begin_trace_capture(card)
    toys.plus(x)
    toys.plus(x)
    del x
    with pytest.raises(RuntimeError, match=r"Creating trace buffers"):
        ttnn.end_trace_capture(card, trace)
    assert not card.loose.cells and not card.live


def test_a_temporary_beyond_the_output_that_starts_where_it_did_is_written_too():
    """DRAM grows up: a temporary that is freed before the output is allocated leaves its place to it."""

    written = Place(BufferType.DRAM, 1024, 64)

    class Step:
        op = "Toy"

    step = PlacedStep(Step(), (), [(None, Place(BufferType.DRAM, 1024, 256)), (None, written)])
    assert [(a.start, a.end) for a in temporaries([step], {written})] == [(1024, 1280)]
