# SPDX-License-Identifier: Apache-2.0
"""Times of commands: told by the device, summed and overlapped by `CommandTimes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.command_times import CommandTimes
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.queues.queue import Command


def test_every_command_that_runs_is_told_once(card: Any, tensor: Any) -> None:
    told: list[tuple[str, Any, Any]] = []
    x = tensor(card, 1.0)
    ttnn.relu(x)
    ttnn.synchronize_device(card)
    card.timers.append(lambda command, start, stop: told.append((command.name, start, stop)))
    ttnn.relu(x)
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    kept = ttnn.relu(x)
    ttnn.end_trace_capture(card, trace, cq_id=0)
    ttnn.execute_trace(card, trace, cq_id=0, blocking=False)
    ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
    ttnn.to_torch(kept)
    card.timers.clear()
    ttnn.relu(x)
    ttnn.synchronize_device(card)
    names = [name for name, _, _ in told]
    assert names == ["ttnn.relu", "replay of trace 1", "replay of trace 1", "ttnn.from_device"]
    stamps = [stamp for _, start, stop in told for stamp in (start, stop)]
    assert stamps == sorted(stamps)


def test_a_command_that_fails_is_not_told(card: Any, tensor: Any, toys: Any) -> None:
    told: list[Any] = []
    x = tensor(card)
    ttnn.synchronize_device(card)
    card.timers.append(lambda *given: told.append(given))
    toys.broken(x)
    with pytest.raises(ArithmeticError):
        ttnn.synchronize_device(card)
    assert told == []


def transfer(queue: int) -> Command:
    return Command("write", queue, lambda: None)


def compute(queue: int, plan: Any = Plan) -> Command:
    return Command("op", queue, lambda: None, plan=plan)


@pytest.fixture
def times(open_card: Callable[..., Any]) -> CommandTimes:
    return CommandTimes(open_card(num_command_queues=2))


def test_overlap_is_counted_between_queues_and_kinds(times: CommandTimes) -> None:
    for command, start, stop in (
        (transfer(1), 0.0, 4.0),
        (compute(0), 1.0, 3.0),  # 2 with the first transfer
        (compute(0), 3.0, 6.0),  # 1 with the first
        (transfer(1), 5.0, 9.0),  # 1 with the second computation
        (transfer(0), 6.0, 8.0),  # transfers beside transfers do not count
        (compute(0), 8.0, 10.0),  # 1 with the second transfer
    ):
        times._note(command, start, stop)
    times.collect()
    assert (times.transfer, times.compute, times.overlapped, times.computations) == (10.0, 7.0, 5.0, 3)


def test_what_can_overlap_no_more_is_forgotten(times: CommandTimes) -> None:
    for i in range(3 * CommandTimes.KEPT):
        times._note(compute(0), float(i), i + 1.0)
    times._note(transfer(1), 0.0, 1e6)
    assert len(times._told) < CommandTimes.KEPT
    times.collect()
    assert not times._recent[0] and len(times._recent[1]) == 1
    assert times.overlapped == CommandTimes.KEPT


def test_one_queue_overlaps_nothing(card: Any) -> None:
    times = CommandTimes(card)
    times._note(compute(0), 0.0, 1.0)
    times._note(transfer(0), 0.0, 1.0)
    times.stop()
    times.stop()
    assert (times.compute, times.transfer, times.overlapped) == (1.0, 1.0, 0.0)
