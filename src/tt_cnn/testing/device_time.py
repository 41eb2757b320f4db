# SPDX-License-Identifier: Apache-2.0
"""How long a card computes: on the virtual card what the cost model predicts, on a real one the wall time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.runtime import is_virtual

PREDICTED = "kernel durations that the cost model predicts"
WALL_TIME = "wall time until the device was synchronized"


@dataclass
class DeviceTime:
    """Seconds in which a device worked, and what they are."""

    seconds: float = 0.0
    commands: int = 0
    """Device operations and replays of traces; transfers are not counted."""
    label: str = PREDICTED


@contextmanager
def measured(device: Any, total: DeviceTime | None = None) -> Iterator[DeviceTime]:
    """The time a device works inside the `with` block; it is complete when the block is left."""
    total = DeviceTime() if total is None else total
    with _predicted(device, total) if is_virtual() else _wall(device, total):
        yield total


@contextmanager
def _wall(device: Any, total: DeviceTime) -> Iterator[None]:
    total.label = WALL_TIME
    ttnn.synchronize_device(device)
    start = time.perf_counter()
    yield
    ttnn.synchronize_device(device)
    total.seconds += time.perf_counter() - start
    total.commands += 1


@contextmanager
def _predicted(device: Any, total: DeviceTime) -> Iterator[None]:
    """The kernel durations of every command that runs; those of a trace count at each of its replays."""
    from tt_cnn.virtual.cost.kernel import kernel_cost

    ran: list[Any] = []

    def note(command: Any, *_: Any) -> None:
        if command.plan is not None:
            ran.append((command,))
        elif command.trace_id is not None:
            ran.append(tuple(device.traces[command.trace_id].commands))

    device.timers.append(note)
    try:
        yield
        ttnn.synchronize_device(device)
    finally:
        device.timers.remove(note)
        steps = (placed.step for commands in ran for command in commands for placed in command.steps)
        total.seconds += sum(kernel_cost(step, device.card).ns for step in steps) / 1e9
        total.commands += len(ran)
