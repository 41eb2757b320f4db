# SPDX-License-Identifier: Apache-2.0
"""Which moves to make together: the most time for the PCC that may be lost.

Losses are taken to add up, which they do while they are small: the noises of different layers are independent, so their
energies add, and 1 - PCC is half the share of their energy in the output's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tt_cnn.optimizer.moves import Losses, Move

_LEAST_UNIT = 1e-4
"""Of PCC, in which losses are weighed where nothing may be lost."""
_HALVINGS = 50


@dataclass(frozen=True)
class Option:
    """A move, what it gains, and what it loses (below 0 where it makes values finer)."""

    move: Move
    gain_ns: float
    loss: Losses


def total_loss(options: Iterable[Option], outputs: Iterable[str]) -> dict[str, float]:
    chosen = list(options)
    return {output: sum(option.loss.get(output, 0.0) for option in chosen) for output in outputs}


def select(options: Sequence[Option], allowed: Mapping[str, float]) -> list[Option]:
    """At most one option of each group, with all losses of each output together within what is allowed.

    A price is set on losses, every group takes what is best at this price, and the price is lowered as far as the sum
    stays within the limits; what still fits is added. Nothing where even the finest options are too lossy.
    """
    groups: dict[tuple[str, str], list[Option]] = {}
    for option in options:
        groups.setdefault(option.move.group, []).append(option)
    units = {output: max(limit, _LEAST_UNIT) for output, limit in allowed.items()}

    def cost(option: Option) -> float:
        return sum(value / units[output] for output, value in option.loss.items() if output in units)

    def at(price: float) -> list[Option]:
        best = (max(group, key=lambda option: option.gain_ns - price * cost(option)) for group in groups.values())
        return [option for option in best if option.gain_ns - price * cost(option) > 0]

    def fits(chosen: Iterable[Option]) -> bool:
        lost = total_loss(chosen, allowed)
        return all(lost[output] <= limit for output, limit in allowed.items())

    if fits(at(0.0)):
        return at(0.0)
    low, high = 0.0, 1.0
    while not fits(at(high)):
        low, high = high, high * 16
        if high > 1e18:
            return []
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(at(middle)) else (middle, high)
    chosen = at(high)
    taken = {option.move.group for option in chosen}
    left = [option for option in options if option.move.group not in taken and option.gain_ns > 0]
    for option in sorted(left, key=lambda each: -each.gain_ns / max(cost(each), 1e-12)):
        if option.move.group not in taken and fits([*chosen, option]):
            chosen.append(option)
            taken.add(option.move.group)
    return chosen
