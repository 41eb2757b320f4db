# SPDX-License-Identifier: Apache-2.0
"""Command queues: in order on each, in parallel between them, and errors that come to the one who waits."""

from __future__ import annotations

import gc
import threading
import time

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines import create_engine
from tt_cnn.virtual.queues.queue import Queue
from tt_cnn.virtual.threads.latch import Latch


@pytest.fixture
def queue():
    made = Queue(0, create_engine("cpu", "device"))
    yield made
    made.close()


def test_jobs_run_in_order_whoever_submits_them(queue):
    seen: list[int] = []
    gate = Latch()
    queue.submit(gate.wait)
    for i in range(50):
        queue.submit(lambda i=i: seen.append(i))
    opener = threading.Timer(0.02, gate.open)
    opener.start()
    queue.submit_and_wait(lambda: seen.append(50))
    assert seen == list(range(51))


def test_a_waiting_caller_of_an_idle_queue_runs_the_job_itself(queue):
    ran_on = []
    queue.submit_and_wait(lambda: ran_on.append(threading.current_thread()))
    assert ran_on == [threading.current_thread()]
    assert queue.pending == 0


def test_many_threads_never_overlap_on_one_queue(queue):
    inside, most, count = 0, 0, 0

    def job():
        nonlocal inside, most, count
        inside += 1
        most = max(most, inside)
        time.sleep(0)
        inside -= 1
        count += 1

    def host():
        for i in range(200):
            (queue.submit_and_wait if i % 3 == 0 else queue.submit)(job)

    hosts = [threading.Thread(target=host) for _ in range(4)]
    for one in hosts:
        one.start()
    for one in hosts:
        one.join()
    queue.finish()
    assert (most, count, queue.pending) == (1, 800, 0)


def test_a_failure_that_nobody_saw_is_raised_once_and_later_jobs_still_run(queue):
    ran = []
    queue.submit(lambda: 1 // 0)
    queue.submit(lambda: ran.append(1))
    queue.finish()
    with pytest.raises(ZeroDivisionError):
        queue.raise_unseen()
    queue.raise_unseen()
    assert ran == [1]


def test_an_idle_queue_holds_no_data(queue):
    class Data:
        pass

    data = Data()
    gone = []
    import weakref

    weakref.finalize(data, gone.append, 1)
    queue.submit(lambda data=data: None)
    queue.finish()
    del data
    gc.collect()
    assert gone == [1]


def test_close_does_what_is_pending_and_then_refuses(queue):
    ran = []
    queue.submit(lambda: time.sleep(0.02))
    queue.submit(lambda: ran.append(1))
    queue.close()
    assert ran == [1]
    with pytest.raises(RuntimeError, match=r"closed"):
        queue.submit(lambda: None)


def test_an_event_orders_two_queues():
    engine = create_engine("cpu", "device")
    first, second = Queue(0, engine), Queue(1, engine)
    seen = []
    first.submit(lambda: (time.sleep(0.03), seen.append("first")))
    event = first.record([0, 0])
    second.wait_for(event)
    second.submit(lambda: seen.append("second"))
    second.finish()
    assert seen == ["first", "second"]
    first.close()
    second.close()


# --- through TT-NN's functions ----------------------------------------------------------------------------------


def test_transfers_and_compute_of_two_queues_overlap(open_card, toys, tensor, monkeypatch):
    """Each side waits for the other to have begun: only queues that really run at the same time get through."""
    card = open_card(num_command_queues=2)
    x, y = tensor(card), tensor(card, shape=(1, 1, 32, 32))
    host = tensor(None, shape=(1, 1, 32, 32))
    ttnn.synchronize_device(card)
    meet = threading.Barrier(2, timeout=5)
    plus, upload = type(toys.plus).numbers, card.engine.upload
    monkeypatch.setattr(type(toys.plus), "numbers", lambda *a, **k: (meet.wait(), plus(*a, **k))[1])
    monkeypatch.setattr(card.engine, "upload", lambda v: (meet.wait(), upload(v))[1])
    toys.plus(x, queue_id=0)
    ttnn.copy_host_to_device_tensor(host, y, cq_id=1)
    ttnn.synchronize_device(card)


def test_command_queue_says_where_calls_go(two_queues, toys, tensor):
    x = tensor(two_queues)
    ttnn.synchronize_device(two_queues)
    with two_queues.record_commands() as commands, ttnn.command_queue(1):
        y = toys.plus(x)
        with ttnn.command_queue(0):
            toys.plus(x)
        y.cpu()
    assert [c.queue for c in commands] == [1, 0, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda d, x: ttnn.record_event(d, 5),
        lambda d, x: ttnn.synchronize_device(d, 5),
        lambda d, x: ttnn.begin_trace_capture(d, cq_id=5),
        lambda d, x: x.cpu(cq_id=5),
        lambda d, x: ttnn.wait_for_event(5, ttnn.record_event(d, 0)),
        lambda d, x: ttnn.copy_host_to_device_tensor(x.cpu(), x, cq_id=5),
    ],
)
def test_a_queue_that_is_not_there(card, tensor, call):
    with pytest.raises(RuntimeError, match=r"cq_id 5 is out of range"):
        call(card, tensor(card))


def test_wrong_types_are_type_errors(card):
    for call in (
        lambda: ttnn.record_event(card, "x"),
        lambda: ttnn.record_event(card, -1),
        lambda: ttnn.wait_for_event(0, None),
        lambda: ttnn.synchronize_device(None),
        lambda: ttnn.execute_trace(card, 3),
        lambda: ttnn.release_trace(card, 3),
    ):
        with pytest.raises(TypeError, match=r"incompatible function arguments"):
            call()


def test_an_event_prints_as_in_ttnn(card):
    event = ttnn.record_event(card, 0)
    assert repr(event) == (
        f"MeshEvent(id=0, device_id={card.id()}, mesh_cq_id=0, device_range=MeshCoordinateRange(start="
        "MeshCoordinate([0, 0]), end=MeshCoordinate([0, 0])))"
    )
    ttnn.event_synchronize(event)


def test_errors_of_the_worker_come_to_whoever_waits(card, toys, tensor):
    x = tensor(card)
    for wait in (
        lambda y: ttnn.synchronize_device(card),
        lambda y: y.cpu(),
        lambda y: ttnn.to_torch(y.cpu(blocking=False)),
    ):
        y = toys.broken(x)
        with pytest.raises(ArithmeticError, match=r"broken numbers"):
            wait(y)
    ttnn.synchronize_device(card)
    assert torch.equal(ttnn.to_torch(toys.plus(x)), torch.ones(1, 1, 32, 64, dtype=torch.bfloat16))


def test_a_tensor_dropped_while_its_command_waits_keeps_its_values(card, toys, tensor):
    gate = Latch()
    card.queues[0].submit(gate.wait)
    x = tensor(card, 1.0)
    y = toys.plus(toys.plus(x))
    ttnn.deallocate(x)
    z = tensor(card, 9.0)  # takes the memory of x
    assert z.buffer_address() <= y.buffer_address()
    gate.open()
    assert ttnn.to_torch(y).float().unique().tolist() == [3.0]


def test_several_host_threads_use_one_card(card, toys, tensor):
    before = card.memory_view(ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    wrong = []

    def host(value: float) -> None:
        try:
            for _ in range(60):
                x = tensor(card, value)
                y = toys.plus(toys.plus(x, temporary=True))
                if ttnn.to_torch(y).float().unique().tolist() != [value + 2]:
                    wrong.append(value)
        except BaseException as error:
            wrong.append(error)

    hosts = [threading.Thread(target=host, args=(float(i),)) for i in range(4)]
    for one in hosts:
        one.start()
    for one in hosts:
        one.join()
    assert not wrong
    gc.collect()
    assert card.memory_view(ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == before


def test_closing_a_card_does_its_pending_work(open_card, toys, tensor):
    card = open_card()
    gate = Latch()
    x = tensor(card, 1.0)
    card.queues[0].submit(gate.wait)
    y = toys.plus(x)
    host = y.cpu(blocking=False)
    threading.Timer(0.02, gate.open).start()
    ttnn.close_device(card)
    assert host._host.values[0].unique().tolist() == [2.0]
    with pytest.raises(RuntimeError, match=r"closed"):
        toys.plus(y)
    with pytest.raises(RuntimeError, match=r"closed"):
        ttnn.synchronize_device(card)


def test_workers_end_with_their_card(open_card, toys, tensor):
    before = threading.active_count()
    card = open_card(num_command_queues=2)
    x = tensor(card)
    ttnn.synchronize_device(card)
    toys.plus(x, queue_id=1)
    ttnn.close_device(card)
    assert threading.active_count() == before
