# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any point, and then going on as in a notebook: the card works, gives memory back and computes right."""

from __future__ import annotations

import dis
import linecache
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import pytest
import torch

from tests.pipeline.programs import DEVICE, EXECUTORS, host, pipeline, random_inputs, relu, to_torch
from tt_cnn import interrupts, ttnn
from tt_cnn.interrupts import Setting, uninterrupted
from tt_cnn.virtual.queues.queue import current_queue
from tt_cnn.virtual.types.enums import BufferType


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _leaves_a_block(frame: FrameType) -> bool:
    """At the end of a `with` tracing sees its line once more, behind what the block protects and before it is left.

    Python handles signals behind calls and jumps, so that none comes there.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    here = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return line.startswith("with ") and here in ("LOAD_CONST", "POP_BLOCK", "SWAP", "NOP", "ROT_TWO")


class InterruptAt:
    """Presses Ctrl-C when the main thread has run so many lines of the library."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "/tt_cnn/" not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename:
            return None
        if event == "line" and not _leaves_a_block(frame):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def interrupted(work: Callable[[], Any], lines: int) -> bool:
    """Run it with Ctrl-C after so many lines, which must come out of it; False where it has fewer this time."""
    press = InterruptAt(lines)
    sys.settrace(press)
    try:
        work()
        sys.settrace(None)
        with uninterrupted:  # what came in a destructor is raised after the next block
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    assert press.left > 0, "Ctrl-C was lost"
    return False


def lines_of(work: Callable[[], Any]) -> int:
    counter = InterruptAt(1 << 60)
    sys.settrace(counter)
    try:
        work()
    finally:
        sys.settrace(None)
    return (1 << 60) - counter.left


def in_use(card: Any) -> dict[str, int]:
    kinds = (BufferType.L1, BufferType.DRAM, BufferType.L1_SMALL)
    return {kind.name: card.memory_view(kind).total_bytes_allocated_per_bank for kind in kinds}


def works_from_another_thread(card: Any, work: Callable[[], Any]) -> None:
    """A lock that stayed held would stop it."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "the card hangs"


def test_calls_that_were_interrupted_leave_the_card_usable_and_its_memory_free(card: Any, tensor: Any) -> None:
    x = tensor(card, 2.0)

    def work() -> float:
        y = ttnn.add(ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG), x)
        z = ttnn.multiply(y, 3.0)
        ttnn.deallocate(y)
        with ttnn.command_queue(0):
            ttnn.event_synchronize(ttnn.record_event(card, 0))
        return float(ttnn.to_torch(z).flatten()[0])

    assert work() == 12.0
    lines, before, count = lines_of(work), in_use(card), 0
    chooser = random.Random(0)
    for _ in range(250):
        count += interrupted(work, chooser.randrange(1, lines))
        assert in_use(card) == before
        assert current_queue.get() == 0
    assert count > 200
    works_from_another_thread(card, work)
    assert work() == 12.0 and in_use(card) == before


def test_interrupts_from_outside_at_any_time_leave_the_card_usable(card: Any, tensor: Any) -> None:
    x = tensor(card, 2.0)
    before = in_use(card)
    chooser = random.Random(1)
    caught = 0
    for _ in range(150):
        timer = threading.Timer(
            chooser.random() * 0.01, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]
        )
        try:
            timer.start()
            for _ in range(50):
                y = ttnn.multiply(ttnn.add(x, x), 3.0)
                ttnn.to_torch(y)
            timer.join()
            with uninterrupted:
                pass
        except KeyboardInterrupt:
            caught += 1
        y = None
        timer.join()
        assert in_use(card) == before
    assert caught == 150
    works_from_another_thread(card, lambda: ttnn.to_torch(ttnn.add(x, x)))
    assert float(ttnn.to_torch(ttnn.add(x, x)).flatten()[0]) == 4.0


@pytest.mark.parametrize("executor", EXECUTORS)
def test_pipelines_that_were_interrupted_go_on_with_right_outputs(open_card: Any, executor: Any) -> None:
    device = open_card(**DEVICE)
    inputs = random_inputs(4)
    hosts = [host(x) for x in inputs]

    def right(outputs: list[Any]) -> None:
        assert len(outputs) == 4
        assert all(torch.equal(to_torch(one), torch.relu(x)) for one, x in zip(outputs, inputs, strict=True))

    with pipeline(executor, relu, device) as pipe:
        pipe.compile(hosts[0])

        def batch() -> list[Any]:
            pipe.enqueue(hosts)
            return pipe.pop_all()

        def stream() -> list[Any]:
            return list(pipe.stream(hosts))

        right(batch())
        before = in_use(device)
        chooser = random.Random(2)
        for work in (batch, stream):
            lines = lines_of(work)
            for _ in range(30):
                stopped = interrupted(work, chooser.randrange(1, lines))
                if stopped and pipe._pending:
                    right(pipe.pop_all())  # it was enqueued, and only the wait was interrupted
                right(stream())
                right(batch())
                assert in_use(device) == before
        works_from_another_thread(device, batch)


def test_ctrl_c_waits_for_the_end_of_the_outermost_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted:
            with uninterrupted:
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")
        done.append("after")
    assert done == ["inner", "outer"]
    assert interrupts._depth == 0


def test_other_threads_are_not_held_up_and_hold_nobody_up() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with uninterrupted:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    leave.set()
    thread.join()


def test_a_handler_of_the_user_is_called_as_ever_also_when_it_is_set_later() -> None:
    calls: list[str] = []
    with uninterrupted:
        pass
    signal.signal(signal.SIGINT, lambda number, frame: calls.append("user"))
    signal.raise_signal(signal.SIGINT)
    with uninterrupted:
        signal.raise_signal(signal.SIGINT)
        assert calls == ["user"]
    assert calls == ["user", "user"]
    signal.raise_signal(signal.SIGINT)
    assert calls == ["user"] * 3


def test_a_handler_that_was_kept_and_is_set_again_handles_as_it_did() -> None:
    calls: list[str] = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append("first"))
    with uninterrupted:
        pass
    kept = signal.signal(signal.SIGINT, lambda number, frame: calls.append("second"))
    with uninterrupted:
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, kept)
    with uninterrupted:
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert calls == ["second", "first", "first"]


def test_a_setting_is_taken_back_wherever_it_is_interrupted() -> None:
    variable: ContextVar[int] = ContextVar("tested", default=0)

    def work() -> None:
        with Setting(variable, 1):
            assert variable.get() == 1

    for lines in range(1, lines_of(work) + 1):
        interrupted(work, lines)
        assert variable.get() == 0


OPENVINO = """
import signal
import torch
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.hosts import HOSTS

x = torch.randn(1, 4, 8, 8)
first, second = (HOSTS["openvino"](graph_of(lambda y: [torch.relu(y * 2)], [x]), 1) for _ in range(2))
first([x])
del first
del second
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_is_survived_after_models_of_openvino_are_gone() -> None:
    done = subprocess.run([sys.executable, "-c", OPENVINO], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", (done.returncode, done.stderr[-1000:])
