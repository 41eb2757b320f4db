# SPDX-License-Identifier: Apache-2.0
"""When what is enqueued happens: each queue in order, both side by side, events between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.between import Direction, transfer_ns
from tt_cnn.virtual.cost.figures import figures_of
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.planning.program import Step


@dataclass(frozen=True)
class Transfer:
    """A tensor between host and card."""

    direction: Direction
    bytes: int
    page_bytes: int


@dataclass(frozen=True)
class Enqueued:
    """A call on a queue: the steps it dispatches, or a transfer; after which others it may start.

    `after` counts the enqueued from 0, in the order of the list: what an event makes it wait for.
    """

    queue: int
    work: Sequence[Step] | Transfer
    after: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Timed:
    """A step or transfer with its place in time. `call` is the number of what was enqueued."""

    call: int
    queue: int
    name: str
    start_ns: float
    end_ns: float
    transfer: bool


def schedule(enqueued: Sequence[Enqueued], card: Card, traced: bool, chips: int = 1) -> list[Timed]:
    """Start and end of every step and transfer. Several chips do the same, each with tensors of its own.

    Steps need the cores, so those of both queues are one after the other, with a gap; transfers need the network and
    the host link only, and go on meanwhile. Without a trace a step also waits for the host, which dispatches one after
    the other and runs ahead of the card as far as it can.
    """
    figures = figures_of(card)
    queues: dict[int, float] = {}
    links: dict[Direction, float] = {}
    cores_free = host = 0.0
    ends: list[float] = []
    times: list[Timed] = []
    for number, call in enumerate(enqueued):
        now = max([queues.get(call.queue, 0.0), *(ends[other] for other in call.after)])
        if isinstance(call.work, Transfer):
            start = max(now, links.get(call.work.direction, 0.0))
            now = start + transfer_ns(card, call.work.direction, call.work.bytes, call.work.page_bytes, chips)
            links[call.work.direction] = now
            times.append(Timed(number, call.queue, call.name or call.work.direction, start, now, True))
        else:
            for step in call.work:
                if not traced:
                    host += figures.host_step_ns
                ready = max(now, cores_free) + figures.gap_traced_ns
                start = max(ready, host)
                now = start + kernel_cost(step, card).ns
                cores_free = now
                times.append(Timed(number, call.queue, step.op, start, now, False))
        queues[call.queue] = now
        ends.append(now)
    return times
