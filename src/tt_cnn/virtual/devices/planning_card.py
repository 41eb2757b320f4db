# SPDX-License-Identifier: Apache-2.0
"""A card that computes nothing: what a program would do to memory and queues, quickly."""

from __future__ import annotations

from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.queues.queue import Command, InlineQueue
from tt_cnn.virtual.types.geometry import MeshShape


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
