# SPDX-License-Identifier: Apache-2.0
"""L1 per core, one line per dispatched step: circular buffers from the left, tensors from the right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.planning.placement import PlacedStep
from tt_cnn.virtual.queues.queue import Command


@dataclass(frozen=True)
class L1Use:
    """What one step takes of a core's L1, in bytes."""

    call: str
    step: str
    cores: int
    buffers: int
    tensors: int
    free: int


def l1_use(commands: Iterable[Command], card: Card) -> list[L1Use]:
    """A row for each step of the commands, in order."""
    return [_row(command.name, placed, card) for command in commands for placed in command.steps]


def _row(call: str, placed: PlacedStep, card: Card) -> L1Use:
    pairs = zip(placed.step.buffers, placed.buffer_addresses, strict=True)
    end = max((address + b.bytes for b, address in pairs if b.alias is None), default=card.l1_base)
    lowest = card.l1_size if placed.lowest_l1 is None else placed.lowest_l1
    return L1Use(
        call,
        placed.step.op,
        placed.step.cores.num_cores(),
        buffers=end - card.l1_base,
        tensors=card.l1_size - lowest,
        free=lowest - end,
    )


def draw(rows: list[L1Use], card: Card, width: int = 48) -> list[str]:
    """The picture as text, `#` for circular buffers and `=` for tensors (and L1_SMALL, where any is in use)."""
    total = card.l1_size - card.l1_base
    names = max((len(r.call) for r in rows), default=0)
    steps = max((len(r.step) for r in rows), default=0)
    lines = []
    for row in rows:
        left, right = (_cells(b, total, width) for b in (row.buffers, row.tensors))
        bar = "#" * left + "." * (width - left - right) + "=" * right
        lines.append(
            f"{row.call:<{names}}  {row.step:<{steps}}  {row.cores:>3} cores |{bar}| "
            f"{row.buffers / 1024:6.1f} KB buffers {row.tensors / 1024:7.1f} KB tensors {row.free / 1024:7.1f} KB free"
        )
    return lines


def _cells(size: int, total: int, width: int) -> int:
    """At least one cell for what is there at all."""
    return max(1, round(size / total * width)) if size else 0
