"""Commands as they were enqueued, each with the memory that was in use then; and a card to record them on quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.devices.opening import recorded_devices
from tt_cnn.virtual.queues.queue import Command, InlineQueue
from tt_cnn.virtual.tensors.storage import LiveBuffer
from tt_cnn.virtual.types.geometry import MeshShape


@dataclass(frozen=True)
class Recorded:
    """A command without its data, and what was known when it was enqueued."""

    command: Command
    live: Mapping[int, LiveBuffer]
    """The buffers in use after the call was placed, by their serials."""
    after: tuple[int, ...]
    """For each queue the tick up to which it comes after, its own tick on its own queue: what events ordered."""


@contextmanager
def recorded(device: MeshDevice) -> Iterator[list[Recorded]]:
    """The commands enqueued inside, without what would keep their tensors alive."""
    notes: list[Recorded] = []

    def note(command: Command) -> None:
        bare = replace(command, run=_nothing, reads=(), writes=())
        notes.append(Recorded(bare, dict(device.live), tuple(device.hazards.order.at(command.queue))))

    device.listeners.append(note)
    recorded_devices.append(device)
    try:
        yield notes
    finally:
        recorded_devices.remove(device)
        device.listeners.remove(note)


class PlanningCard(MeshDevice):
    """Plans, allocates, traces and checks as any card does, and computes nothing: reads give zeros."""

    def __init__(self, name: str, l1_small_size: int = 0, trace_region_size: int = 0, chips: int = 1) -> None:
        super().__init__(
            card_by_name(name),
            shape=MeshShape(1, chips),
            device_ids=list(range(chips)),
            num_command_queues=2,
            l1_small_size=l1_small_size,
            trace_region_size=trace_region_size,
            engine="torch",
            hazards="off",
        )
        self.queues = [InlineQueue(queue.index, self.engine) for queue in self.queues]

    def enqueue(self, command: Command, wait: bool = False) -> int:
        if command.plan is not None or any(access.write for access in command.accesses):
            command.run = _nothing
        return super().enqueue(command, wait)


def _nothing() -> None:
    """What a command without data does."""
