# SPDX-License-Identifier: Apache-2.0
"""The result on inputs that no choice was made on; what is under the guard there is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, with_settings
from tt_cnn.optimizer.accuracy import PRECISION_SETTINGS
from tt_cnn.optimizer.guard import PccGuard
from tt_cnn.optimizer.moves import DIALS, Move, changes_of, describe_moves
from tt_cnn.optimizer.search import Candidate, Search, Verdict

STEP = "verification"
"""What the journal calls it."""


def verify(search: Search, guard: PccGuard) -> Verdict:
    """Judge the best on the guard's unseen inputs.

    Where it fails, changes of precision are taken back, those first that are estimated to have lost most: one, then
    two, four and so on, until it holds. At the worst all are, and the values are those of the start. The journal has
    each try.
    """
    verdict = guard.verify(search.best.assignment)
    if verdict.accepted:
        return verdict
    reason = f"on unseen inputs: {verdict.failed}"
    moves = _worst_first(search, guard)
    count = 1
    while moves:
        taken = moves[:count]
        candidate = Candidate(changes_of(taken), f"back to {describe_moves(taken)}", lossless=False)
        attempt = search.take_back(STEP, candidate, reason, guard.verify)
        if attempt.outcome == "kept":
            return Verdict(True, attempt.pcc or {})
        if count >= len(moves):
            break
        count = min(2 * count, len(moves))
    return guard.verify(search.best.assignment)


def verify_whole(name: str, assignment: Assignment, numerics: str = "device", **options: Any) -> Verdict:
    """Judge an assignment once more by a run of the whole model with the whole batch, on unseen inputs.

    A search measures values on the smallest batch, with what of an assignment decides precision; this run has all of
    it. `options` are those of `PccGuard.for_model`. In `exact` numerics it takes as long as the kernels' order of sums
    takes to follow, minutes for a large model. It opens a card of its own: the search's must be closed before.
    """
    with PccGuard.for_model(name, numerics=numerics, whole_batch=True, **options) as guard:
        return guard.verify(assignment)


def _worst_first(search: Search, guard: PccGuard) -> list[Move]:
    """The moves from the best back to the start, those first that should better the outputs most."""
    moves = moves_back(search.best.assignment, guard.start, search.predictor.configurations)
    losses = guard.losses(search.best.assignment, moves)
    return sorted(moves, key=lambda move: sum(losses.get(move, {}).values()))


def moves_back(assignment: Assignment, start: Assignment, configurations: Mapping[str, Configuration]) -> list[Move]:
    """All dials that stand differently in two assignments, as moves to the second."""
    found: list[Move] = []
    for layer in assignment:
        now, then = (_configured(configurations[layer], each.get(layer, {}), layer) for each in (assignment, start))
        for dial in DIALS:
            value = getattr(then, dial.setting, None)
            if dial.setting in PRECISION_SETTINGS and value is not None and value != getattr(now, dial.setting):
                places = dial.place(then), dial.place(now)
                finer = None not in places and dial.ordered and places[0] < places[1]  # type: ignore[operator]
                found.append(Move(layer, dial, value, raises=finer))
    return found


def _configured(own: Configuration, settings: Mapping[str, Any], layer: str) -> Any:
    return with_settings(own, settings, layer) if settings else own
