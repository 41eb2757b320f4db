# SPDX-License-Identifier: Apache-2.0
"""What passes between kernels: gaps from step to step, and transfers between host and card."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import exp, log
from typing import Literal

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import figures_of

Direction = Literal["write", "read"]
_LIKELY_KERNEL_NS = 10_000


def gap_ns(card: Card, traced: bool) -> float:
    """From the end of a step's kernels to the start of the next one's.

    A trace is replayed by the card itself. Without one the host dispatches each step, and takes longer for it than a
    kernel of 10 us: what is left of its time is the gap that users see. `schedule` is exact about it.
    """
    figures = figures_of(card)
    if traced:
        return figures.gap_traced_ns
    return max(figures.gap_traced_ns, figures.host_step_ns - _LIKELY_KERNEL_NS)


def transfer_ns(card: Card, direction: Direction, size: int, page_bytes: int, chips: int = 1) -> float:
    """A tensor from host to card (`write`) or back (`read`), page by page: small pages are slow.

    Of several chips each has a tensor of `size` bytes. The host serves them side by side: what the chips of one link
    take goes over it, and what all but the first of them take over ethernet too, which is slower.
    """
    if direction not in ("write", "read"):
        raise ValueError(f"direction is {direction!r}; it must be 'write' or 'read'")
    figures = figures_of(card)
    start = figures.write_start_ns if direction == "write" else figures.read_start_ns
    rates = figures.write_gb_per_s if direction == "write" else figures.read_gb_per_s
    chips = min(chips, card.chips // card.links)
    over_link = chips * size / page_rate(rates, page_bytes)
    if chips == 1:
        return start + over_link
    remote = figures.remote_write_gb_per_s if direction == "write" else figures.remote_read_gb_per_s
    return start + max(over_link, (chips - 1) * size / page_rate(remote, page_bytes))


def page_rate(rates: Mapping[str, float], page_bytes: int) -> float:
    """GB/s (bytes a nanosecond) at a page size, between the measured sizes along straight lines in log scale.

    Below the smallest size a page takes as long as the smallest; above the largest the rate is the largest's.
    """
    points = sorted((int(size), rate) for size, rate in rates.items())
    smallest, rate = points[0]
    if page_bytes <= smallest:
        return rate * max(1, page_bytes) / smallest
    for (low, slow), (high, fast) in pairwise(points):
        if page_bytes <= high:
            share = log(page_bytes / low) / log(high / low)
            return exp(log(slow) + share * log(fast / slow))
    return points[-1][1]
