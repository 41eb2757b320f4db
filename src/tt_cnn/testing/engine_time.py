"""How long a card computes: on the virtual card the engine's time for every command, on a real one the wall time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.runtime import is_virtual

ENGINE_TIME = "engine's measured time"
"""What the host needed to compute the card's numbers. It says how the host does, not how fast the card would be."""
WALL_TIME = "wall time until the device was synchronized"


@dataclass
class DeviceTime:
    """Seconds in which a device worked, and what they are."""

    seconds: float = 0.0
    commands: int = 0
    """Device operations and replays of traces; transfers are not counted."""
    label: str = ENGINE_TIME


@contextmanager
def measured(device: Any, total: DeviceTime | None = None) -> Iterator[DeviceTime]:
    """The time a device works inside the `with` block; it is complete when the block is left."""
    total = DeviceTime() if total is None else total
    with _engine(device, total) if is_virtual() else _wall(device, total):
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
def _engine(device: Any, total: DeviceTime) -> Iterator[None]:
    """The time of each command where it runs, on its queue's worker."""
    from tt_cnn.virtual.command_times import CommandTimes

    times = CommandTimes(device)
    times.start()
    try:
        yield
        ttnn.synchronize_device(device)
    finally:
        times.stop()
        total.seconds += times.compute
        total.commands += times.computations
