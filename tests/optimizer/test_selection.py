# SPDX-License-Identifier: Apache-2.0
"""Choosing moves: against all combinations, where that is possible."""

from __future__ import annotations

import itertools
import random

from tt_cnn.optimizer.moves import DIALS, Move
from tt_cnn.optimizer.selection import Option, select, total_loss

FIDELITY = DIALS[0]


def option(layer: str, gain: float, loss: dict[str, float], place: int = 3) -> Option:
    return Option(Move(layer, FIDELITY, FIDELITY.values[place], raises=gain < 0), gain, loss)


def brute_force(options: list[Option], allowed: dict[str, float]) -> float:
    """The largest gain of any combination that keeps to the limits."""
    groups: dict[str, list[Option | None]] = {}
    for each in options:
        groups.setdefault(each.move.layer, [None]).append(each)
    best = 0.0
    for combination in itertools.product(*groups.values()):
        chosen = [each for each in combination if each is not None]
        lost = total_loss(chosen, allowed)
        if all(lost[name] <= limit for name, limit in allowed.items()):
            best = max(best, sum(each.gain_ns for each in chosen))
    return best


def test_the_choice_is_within_the_limits_and_near_the_best_of_all_combinations() -> None:
    draw = random.Random(0)
    shares = []
    for _ in range(60):
        options = [
            option(f"layer{i}", draw.uniform(1, 10), {"a": draw.expovariate(100), "b": draw.expovariate(100)}, place)
            for i in range(6)
            for place in (2, 3)
        ]
        allowed = {"a": draw.uniform(0.005, 0.05), "b": draw.uniform(0.005, 0.05)}
        chosen = select(options, allowed)
        lost = total_loss(chosen, allowed)
        assert all(lost[name] <= limit for name, limit in allowed.items())
        assert len({each.move.group for each in chosen}) == len(chosen)
        best = brute_force(options, allowed)
        shares.append(1.0 if best == 0 else sum(each.gain_ns for each in chosen) / best)
    assert sum(shares) / len(shares) > 0.95
    assert min(shares) > 0.7


def test_two_that_fit_alone_and_not_together() -> None:
    options = [option("small", 5.0, {"a": 0.006}), option("large", 8.0, {"a": 0.007})]
    assert [each.move.layer for each in select(options, {"a": 0.01})] == ["large"]
    assert len(select(options, {"a": 0.0131})) == 2


def test_finer_values_make_room_where_nothing_may_be_lost() -> None:
    coarser = option("wide", 100.0, {"a": 0.004})
    finer = option("narrow", -2.0, {"a": -0.006}, place=0)
    assert select([coarser], {"a": 0.0}) == []
    assert {each.move.layer for each in select([coarser, finer], {"a": 0.0})} == {"wide", "narrow"}


def test_finer_values_are_not_bought_for_nothing() -> None:
    assert select([option("narrow", -2.0, {"a": -0.006}, place=0)], {"a": 0.01}) == []
