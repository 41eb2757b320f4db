# SPDX-License-Identifier: Apache-2.0
"""The threads that run programs of the kernels: they come and go with the thread that calls, and not with a fork."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Kernels

THREADS = Path("/proc/self/task")
ON_LINUX = pytest.mark.skipif(not THREADS.exists(), reason="the system does not tell its threads so")


def network(seed: int) -> tuple[Node, torch.Tensor]:
    """Two convolutions with a residual, so that steps read what other threads wrote."""
    torch.manual_seed(seed)
    x = torch.randn(1, 32, 19, 23)
    node = image = Node("input", (), (0,), tuple(x.shape))
    for _ in range(4):
        weight = torch.randn(32, 32, 3, 3) / 17
        weights = Node("constant", (), (), tuple(weight.shape), weight)
        node = Node("conv", (node, weights), ((1, 1), (1, 1, 1, 1), (1, 1), 1), tuple(x.shape))
    return Node("binary", (node, image), ("add",), tuple(x.shape)), x


def ran(threads: int, times: int = 3, seed: int = 0) -> bool:
    """Whether a program gives what torch gives, again and again."""
    node, x = network(seed)
    host, (expected,) = Kernels([node], threads), evaluated([node], [x])
    first = host([x])[0]
    torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-4)
    return all(torch.equal(host([x])[0], first) for _ in range(times))


def in_threads(work: Callable[[int], bool], count: int) -> list[bool]:
    found: list[bool] = []
    threads = [threading.Thread(target=lambda i=i: found.append(work(i))) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_crews_of_any_size_give_the_same_one_after_the_other() -> None:
    assert all(ran(threads, seed=threads) for threads in (2, 5, 1, 3, 2, 8))


def test_many_threads_have_a_crew_each() -> None:
    assert in_threads(lambda i: ran(1 + i % 4, times=20, seed=i), 8) == [True] * 8


@ON_LINUX
def test_a_crew_ends_with_the_thread_that_called_it() -> None:
    assert ran(3)
    before = len(list(THREADS.iterdir()))
    assert in_threads(lambda i: ran(4, seed=i), 6) == [True] * 6
    end = time.monotonic() + 10
    while len(list(THREADS.iterdir())) > before and time.monotonic() < end:
        time.sleep(0.01)
    assert len(list(THREADS.iterdir())) <= before


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_gets_a_crew_of_its_own() -> None:
    node, x = network(7)
    host = Kernels([node], 3)
    expected = host([x])[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(host([x])[0], expected) else 1)
    end, done = time.monotonic() + 30, (0, 0)
    while done[0] == 0 and time.monotonic() < end:
        done = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if done[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == (child, 0)
    assert torch.equal(host([x])[0], expected)


def test_a_crew_that_slept_is_woken() -> None:
    node, x = network(9)
    host = Kernels([node], 2)
    first = host([x])[0]
    for seconds in (0.0, 0.0005, 0.002, 0.05):
        time.sleep(seconds)
        assert torch.equal(host([x])[0], first)
