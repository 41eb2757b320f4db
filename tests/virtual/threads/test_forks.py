# SPDX-License-Identifier: Apache-2.0
"""The child of a fork: the parent's card is refused there, and a card of its own works."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tt_cnn.virtual import ttnn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's, of forks beside threads


def in_child(work: Callable[[], str], seconds: int = 30) -> str:
    """What work says in the child of a fork; a child that hangs is killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    assert os.waitpid(child, 0)[1] == 0, "the child hung or crashed"
    return text


def refused(card: Any, use: Callable[[], Any]) -> None:
    text = in_child(lambda: f"no error: {use()}")
    assert "opened by the parent of this process" in text and text.startswith("CardError"), text


def test_every_use_of_the_parents_card_is_an_error_in_the_child(card: Any, tensor: Any) -> None:
    x = tensor(card, 2.0)
    host = ttnn.add(x, x).cpu(blocking=False)
    uses: list[Callable[[], Any]] = [
        lambda: ttnn.add(x, x),
        lambda: ttnn.to_torch(x),
        lambda: ttnn.to_torch(host),
        lambda: ttnn.synchronize_device(card),
        lambda: ttnn.record_event(card, 0),
        lambda: tensor(card, 1.0),
        lambda: ttnn.close_device(card),
    ]
    for use in uses:
        refused(card, use)
    assert float(ttnn.to_torch(host).flatten()[0]) == 4.0


def test_a_fork_while_another_thread_has_the_lock_does_not_hang(card: Any, tensor: Any) -> None:
    x = tensor(card, 2.0)
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with card.lock:
            held.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        refused(card, lambda: ttnn.add(x, x))
    finally:
        leave.set()
        thread.join()


def test_the_child_opens_a_card_of_its_own_and_drops_the_parents_tensors_quietly(card: Any, tensor: Any) -> None:
    x = tensor(card, 2.0)
    tensors = [ttnn.add(x, x)]

    def work() -> str:
        tensors.clear()
        own = ttnn.open_device(device_id=0)
        y = ttnn.from_torch(ttnn.to_torch(tensor(None, 3.0)), layout=ttnn.TILE_LAYOUT, device=own)
        found = float(ttnn.to_torch(ttnn.multiply(y, y)).flatten()[0])
        ttnn.close_device(own)
        return str(found)

    assert in_child(work) == "9.0"
    assert float(ttnn.to_torch(tensors[0]).flatten()[0]) == 4.0
