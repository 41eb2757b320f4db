# SPDX-License-Identifier: Apache-2.0
"""Commands that fail on their queue: whoever reads what they should have written gets the error, and nobody else."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.failures import Failure
from tt_cnn.virtual.queues.queue import Command


class BrokenCommand(Exception):
    """What the tests make commands raise."""


def broken() -> None:
    raise BrokenCommand("broken on purpose")


def fail_next(card: Any, count: int = 1) -> None:
    """Make the next commands of a card fail when they run."""
    left = [count]

    def listener(command: Command) -> None:
        if left[0]:
            left[0] -= 1
            command.run = broken

    original = card.enqueue

    def enqueue(command: Command, wait: bool = False) -> int:
        listener(command)
        return int(original(command, wait))

    card.enqueue = enqueue


def value(x: Any) -> float:
    return float(ttnn.to_torch(x).flatten()[0])


def test_reading_what_a_failed_command_should_have_written_raises_its_error_every_time(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    y = ttnn.add(x, x)
    for _ in range(3):
        with pytest.raises(BrokenCommand):
            ttnn.to_torch(y)
    assert value(x) == 2.0


def test_what_is_computed_from_it_raises_the_same_error_and_everything_else_is_right(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    y = ttnn.add(x, x)
    z, other = ttnn.multiply(y, x), ttnn.multiply(x, x)
    both = ttnn.add(z, other)
    for one in (y, z, both):
        with pytest.raises(BrokenCommand):
            ttnn.to_torch(one)
    assert value(other) == 4.0


def test_a_transfer_that_failed_raises_too_and_the_next_one_mends_it(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    ttnn.copy_host_to_device_tensor(tensor(None, 5.0), x)
    with pytest.raises(BrokenCommand):
        value(x)
    ttnn.copy_host_to_device_tensor(tensor(None, 6.0), x)
    assert value(x) == 6.0


def test_a_read_that_failed_raises_whenever_the_host_tensor_is_used(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    host = x.cpu(blocking=False)
    ttnn.event_synchronize(ttnn.record_event(card, 0))
    for _ in range(2):
        with pytest.raises(BrokenCommand):
            ttnn.to_torch(host)
    assert value(x) == 2.0
    ttnn.copy_device_to_host_tensor(x, into := tensor(None, 0.0))
    assert value(into) == 2.0


def test_all_threads_that_read_it_get_the_error(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    y = ttnn.add(x, x)
    seen: list[str] = []

    def read() -> None:
        try:
            ttnn.to_torch(y)
        except BrokenCommand as error:
            seen.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == ["broken on purpose"] * 8


def test_a_failure_that_nobody_read_is_raised_by_synchronize_and_only_once(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    y = ttnn.add(x, x)
    with pytest.raises(BrokenCommand):
        ttnn.synchronize_device(card)
    ttnn.synchronize_device(card)
    with pytest.raises(BrokenCommand):
        ttnn.to_torch(y)


def test_a_failure_that_was_read_is_not_raised_again_by_synchronize_or_close(card, tensor):
    x = tensor(card, 2.0)
    fail_next(card)
    y = ttnn.add(x, x)
    with pytest.raises(BrokenCommand):
        ttnn.to_torch(y)
    ttnn.synchronize_device(card)
    ttnn.close_device(card)


def test_a_failure_that_nobody_saw_is_raised_when_the_card_is_closed(card, tensor):
    fail_next(card)
    ttnn.add(tensor(card, 2.0), 1.0)  # the write of its input fails
    with pytest.raises(BrokenCommand):
        ttnn.close_device(card)


@pytest.mark.parametrize("engine", ["torch", "cpu", "kernels", "openvino"])
def test_a_replay_fails_only_in_what_follows_from_a_failed_input(open_card, tensor, engine):
    card = open_card(trace_region_size=65536, numerics="native", engine=engine)
    x, y = tensor(card, 2.0), tensor(card, 3.0)

    def model() -> tuple[Any, Any]:
        return ttnn.add(x, 1.0), ttnn.multiply(y, 2.0)

    model()
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    first, second = model()
    ttnn.end_trace_capture(card, trace, cq_id=0)

    def replay(a: float, b: float) -> None:
        ttnn.copy_host_to_device_tensor(tensor(None, a), x)
        ttnn.copy_host_to_device_tensor(tensor(None, b), y)
        ttnn.execute_trace(card, trace, cq_id=0, blocking=False)

    for i in range(3):
        replay(i, i)
        assert (value(first), value(second)) == (i + 1, 2 * i)
    fail_next(card)
    replay(7, 8)
    with pytest.raises(BrokenCommand):
        value(first)
    assert value(second) == 16
    replay(9, 10)
    assert (value(first), value(second)) == (10, 20)


def test_state_that_carries_over_stays_failed_until_it_is_written_again(open_card, tensor):
    card = open_card(trace_region_size=65536)
    x, total = tensor(card, 1.0), tensor(card, 0.0)
    ttnn.add_(total, x)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    ttnn.add_(total, x)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    ttnn.execute_trace(card, trace, cq_id=0)
    assert value(total) == 2
    fail_next(card)
    ttnn.copy_host_to_device_tensor(tensor(None, 5.0), x)
    with pytest.raises(BrokenCommand):
        ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
    ttnn.copy_host_to_device_tensor(tensor(None, 1.0), x)
    ttnn.execute_trace(card, trace, cq_id=0, blocking=False)
    with pytest.raises(BrokenCommand):
        value(total)
    ttnn.copy_host_to_device_tensor(tensor(None, 10.0), total)
    ttnn.execute_trace(card, trace, cq_id=0)
    assert value(total) == 11


def test_an_engine_that_fails_in_a_replay_is_replaced_by_the_commands(open_card, tensor, caplog):
    card = open_card(trace_region_size=65536, numerics="native", engine="kernels")
    x = tensor(card, 2.0)
    ttnn.add(x, 1.0)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    y = ttnn.add(x, 1.0)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    for i in range(2):
        ttnn.copy_host_to_device_tensor(tensor(None, float(i)), x)
        ttnn.execute_trace(card, trace, cq_id=0)
        assert value(y) == i + 1
    (part,) = card.traces[int(trace)].replay.parts

    def fails(values: Any) -> Any:
        raise BrokenCommand("the engine broke")

    part.run.host = fails
    ttnn.copy_host_to_device_tensor(tensor(None, 5.0), x)
    ttnn.execute_trace(card, trace, cq_id=0)
    assert value(y) == 6
    assert "the engine broke" in caplog.text


def test_an_interrupted_command_is_not_read_as_an_interrupt_later():
    failure = Failure("ttnn.add on queue 0", KeyboardInterrupt())
    with pytest.raises(RuntimeError, match=r"ttnn.add on queue 0 was interrupted"):
        failure.reveal()


def test_long_runs_of_failures_do_not_grow(card, tensor):
    x = tensor(card, 2.0)
    for _ in range(200):
        fail_next(card)
        ttnn.add(x, x)
        del card.enqueue
    ttnn.event_synchronize(ttnn.record_event(card, 0))
    assert len(card.queues[0]._failures) <= 64
    with pytest.raises(BrokenCommand):
        ttnn.synchronize_device(card)
    assert torch.equal(ttnn.to_torch(ttnn.add(x, x)).float().unique(), torch.tensor([4.0]))
    card.queues[0]._failures.clear()


def test_an_error_that_was_raised_keeps_nobodys_tensors(card, tensor):
    def reads() -> None:
        x = tensor(card, 2.0)
        fail_next(card)
        y = ttnn.add(x, x)
        with pytest.raises(BrokenCommand):
            ttnn.to_torch(y)

    reads()
    gc.collect()
    assert not card.live
