# SPDX-License-Identifier: Apache-2.0
"""Commands as they were enqueued, each with the memory that was in use then; `PlanningCard` records them quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.devices.opening import recorded_devices
from tt_cnn.virtual.devices.planning_card import PlanningCard
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import LiveBuffer


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


def _nothing() -> None:
    """What a command without data does."""


__all__ = ["PlanningCard", "Recorded", "recorded"]
