# SPDX-License-Identifier: Apache-2.0
"""A card that plans, allocates, traces and checks as any does, and computes nothing."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tt_cnn import ttnn
from tt_cnn.models import ModelEntry, create_tt
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.queues.queue import Command


class PlanningCard(MeshDevice):
    def __init__(self, name: str, l1_small_size: int) -> None:
        super().__init__(
            card_by_name(name),
            shape=ttnn.MeshShape(1, 1),
            device_ids=[0],
            num_command_queues=2,
            l1_small_size=l1_small_size,
            hazards="raise",
        )

    def enqueue(self, command: Command, wait: bool = False) -> int:
        command.run = _nothing
        return super().enqueue(command, wait)


def _nothing() -> None:
    """All that is computed."""


def planned(entry: ModelEntry, card: str, **options: Any) -> tuple[Any, Any]:
    """The model on such a card, and pictures for it; values do not matter, so the weights are PyTorch's first ones."""
    device = PlanningCard(card, entry.l1_small_size)
    model = create_tt(entry.name, device, entry.reference().eval(), **options)
    return model, entry.example_input(batch_size=model.batch_size, resolution=model.resolution)


def in_use(device: MeshDevice) -> dict[str, int]:
    """Bytes allocated a bank, of each kind of memory."""
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL, ttnn.BufferType.DRAM)
    return {kind.name: device.memory_view(kind).total_bytes_allocated_per_bank for kind in kinds}


@contextmanager
def forgetting() -> Iterator[None]:
    """Where something fails inside, its tensors are given back, so that other tests find the card as it was."""
    try:
        yield
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise
