"""How long a card computes: on the virtual card the engine's time for every command, on a real one the wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.commands += 1


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
    total.add(time.perf_counter() - start)


@contextmanager
def _engine(device: Any, total: DeviceTime) -> Iterator[None]:
    """Time each command where it runs, on its queue's worker.

    Only the virtual card has commands to look at: `enqueue` takes one, a trace has one for its replay.
    """
    stop = attach(device, total)
    try:
        yield
        ttnn.synchronize_device(device)
    finally:
        stop()


def attach(device: Any, total: DeviceTime) -> Callable[[], None]:
    """Start timing a virtual device; the result stops it."""
    enqueue, execute_trace = device.enqueue, device.execute_trace
    replays: dict[int, tuple[Any, Callable[[], None]]] = {}

    def timed(run: Callable[[], None]) -> Callable[[], None]:
        def job() -> None:
            start = time.perf_counter()
            run()
            device.engine.finish(device.engine.mark())
            total.add(time.perf_counter() - start)

        return job

    def timed_enqueue(command: Any, wait: bool = False) -> int:
        trace = device.capturing
        captured = trace is not None and trace.queue == command.queue
        if command.plan is not None and not captured:
            command.run = timed(command.run)
        return int(enqueue(command, wait))

    def timed_replay(trace_id: Any, cq_id: int | None, blocking: bool) -> None:
        trace = device.traces.get(int(trace_id))
        if trace is not None:
            command = trace.command_on(device.queue(cq_id).index)
            if id(command) not in replays:
                replays[id(command)] = (command, command.run)
                command.run = timed(command.run)
        execute_trace(trace_id, cq_id, blocking)

    def stop() -> None:
        del device.enqueue, device.execute_trace
        for command, run in replays.values():
            command.run = run

    device.enqueue, device.execute_trace = timed_enqueue, timed_replay
    return stop
