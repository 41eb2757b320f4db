# SPDX-License-Identifier: Apache-2.0
"""Precision under the guard: fidelity, dtypes of weights, outputs and inputs, and the format of sums, all together.

They share one budget, the PCC that may be lost. One dial after the other would spend it on the first, so all moves of
all layers are weighed at once: gains by planning, losses by the guard's estimate, chosen by `select`, tried with one
run. What then is under the guard is taken back: with the losses scaled to what the run showed, or, where the run is far
from the estimate, by halving, until the layers that were misjudged stand alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.optimizer.guard import MeasuringGuard
from tt_cnn.optimizer.journal import Attempt, Outcome
from tt_cnn.optimizer.moves import DIALS, Dial, Move, changes_of, describe_moves, moves_of
from tt_cnn.optimizer.prediction import Prediction, Refusal
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.selection import Option, select, total_loss
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step

TRIES = 10
"""Selections that are tried, all together; each costs a run of the model."""
MISJUDGED = 5.0
"""Times by which a run's loss may exceed the estimate before a layer is looked for that was misjudged."""
CAREFUL = 0.9
"""Share of the allowed loss that is aimed at, once a run has shown how good the estimates are."""
CHANCE = 0.05
"""Share of 1 - PCC by which it goes up and down when roundings change that do not matter; aimed at is so much less.
(Seen of YOLOv4 and YOLOv8s: up to 0.001 of 0.018 and 0.033.)"""
LEAST_MOVE = 1e-4
"""Share of the device time that a move must gain to be tried."""
LEAST_CHOICE = 2e-3
"""Share of the device time that a selection must gain to be tried: a run takes seconds."""


@register_step
class PrecisionStep(OptimizationStep):
    """Does nothing without a guard that measures: the loss would not be known."""

    name = "precision"
    may_change = ", ".join(dial.setting for dial in DIALS)
    dials: tuple[Dial, ...] = DIALS

    def run(self, search: Search) -> None:
        if isinstance(search.guard, MeasuringGuard):
            _Choice(search, search.guard, self.name, self.dials).make()


class _Choice:
    """One joint choice of moves, on top of the best at its beginning."""

    def __init__(self, search: Search, guard: MeasuringGuard, step: str, dials: tuple[Dial, ...]) -> None:
        self.search, self.guard, self.step = search, guard, step
        self.base = search.best.assignment
        self.slack = dict(guard.slack(self.base))
        self.pcc = dict(guard.accepts(self.base).pcc)
        self.configurations = {
            name: search.configuration(name) for name in search.layers(ConvolutionConfiguration, LinearConfiguration)
        }
        self.allowed = {output: slack - CHANCE * (1.0 - self.pcc[output]) for output, slack in self.slack.items()}
        # Finer values elsewhere are worth their time only where an output has nothing left to lose.
        raising = min(self.allowed.values(), default=0.0) <= 0.0
        self.moves = [
            move
            for name, configuration in self.configurations.items()
            for move in moves_of(name, configuration, dials, raising)
        ]
        self.options: list[Option] = []
        self.made: list[Option] = []
        """What of the best differs from the base."""
        self.tried: dict[frozenset[Move], Outcome] = {}

    def make(self) -> None:
        gained = gains_of(self.search, self.moves)
        least = LEAST_MOVE * self.search.prediction.device_ns
        worth = [move for move, gain in gained.items() if gain > least or (move.raises and gain <= 0)]
        losses = self.guard.losses(self.base, worth, self.search.budget.check_time)
        self.options = [Option(move, gained[move], loss) for move, loss in losses.items()]
        while True:
            chosen = select(self.options, self.allowed)
            attempt = self._try(chosen)
            if attempt is None:
                return
            if attempt.outcome == "refused" or (attempt.outcome != "kept" and self._misjudged(chosen, attempt)):
                self._find(chosen)
                return
            if attempt.pcc is None:  # not faster after all
                return
            estimated, lost = total_loss(chosen, self.slack), self._lost(attempt)
            self.allowed = {
                output: rescaled(self.allowed[output], estimated[output], lost[output], limit)
                for output, limit in self.slack.items()
            }

    def _misjudged(self, chosen: Sequence[Option], attempt: Attempt) -> bool:
        """Whether the run lost far more than the estimates of what was turned coarser, finer values taken at theirs.

        Also where no PCC is too low: then the guard has another reason, which no estimate knows.
        """
        lost = self._lost(attempt)
        if all(lost[output] <= self.slack[output] for output in lost):
            return True
        coarser = total_loss([option for option in chosen if not option.move.raises], lost)
        finer = total_loss([option for option in chosen if option.move.raises], lost)
        return any(
            lost[output] > self.slack[output] and lost[output] - finer[output] > MISJUDGED * coarser[output]
            for output in lost
        )

    def _lost(self, attempt: Attempt) -> dict[str, float]:
        """By how much each output is under the base's PCC."""
        found = attempt.pcc or {}
        return {output: self.pcc[output] - found[output] for output in self.slack if output in found}

    def _try(self, chosen: Sequence[Option]) -> Attempt | None:
        """The chosen moves on top of the base, whatever of others the best has. None where it is not worth a run."""
        key = frozenset(option.move for option in chosen)
        gain = sum(option.gain_ns for option in chosen) - sum(option.gain_ns for option in self.made)
        promises = gain > LEAST_CHOICE * self.search.prediction.device_ns
        if key in self.tried or len(self.tried) >= TRIES or not promises:
            return None
        words = describe_moves(option.move for option in chosen)
        left = kept_fine(chosen, self.options)
        words = f"{words}; not in {', '.join(left)}" if left else words
        attempt = self.search.attempt(self.step, Candidate(self._changes(chosen), words, lossless=False))
        self.tried[key] = attempt.outcome
        if attempt.outcome == "kept":
            self.made = list(chosen)
        return attempt

    def _changes(self, chosen: Sequence[Option]) -> dict[str, dict[str, Any]]:
        """From the best to the chosen moves: those that the best has and that are not chosen are turned back."""
        keep = {option.move.group for option in chosen}
        changes: dict[str, dict[str, Any]] = {}
        for option in self.made:
            move = option.move
            if move.group not in keep:
                own = getattr(self.configurations[move.layer], move.dial.setting)
                changes.setdefault(move.layer, {})[move.dial.setting] = own
        for layer, settings in changes_of(option.move for option in chosen).items():
            changes.setdefault(layer, {}).update(settings)
        return changes

    def _find(self, failed: Sequence[Option]) -> None:
        """Keep what holds: halves that fail are halved again, down to single moves, which the journal then names.

        Finer values stay in both halves: they are there to make room for the others.
        """
        finer = [option for option in failed if option.move.raises]
        coarser = [option for option in failed if not option.move.raises]
        if len(coarser) < 2:
            return
        coarser.sort(key=lambda option: sum(option.loss.values()))
        middle = len(coarser) // 2
        for half in (coarser[:middle], coarser[middle:]):
            groups = {option.move.group for option in (*finer, *half)}
            others = [option for option in self.made if option.move.group not in groups]
            chosen = [*others, *finer, *half]
            self._try(chosen)
            if self.tried.get(frozenset(option.move for option in chosen)) in ("not accurate", "refused"):
                self._find([*finer, *half])


def rescaled(allowed: float, estimated: float, lost: float, limit: float) -> float:
    """The sum of estimates to aim at, so that the next run loses no more than `limit`.

    Where both are losses, estimates are off by a factor; else by a sum, and half of what is left is given away.
    """
    if estimated > 0 and lost > 0 and limit > 0:
        return CAREFUL * limit * estimated / lost
    if lost <= limit:
        return estimated + (limit - lost) / 2
    return min(allowed, estimated) - (lost - limit) / CAREFUL


def kept_fine(chosen: Iterable[Option], options: Iterable[Option], at_most: int = 3) -> list[str]:
    """Layers whose moves would gain time but are not chosen, the most sensitive first."""
    taken = {option.move.group for option in chosen}
    worst: dict[str, float] = {}
    for option in options:
        if option.move.group not in taken and option.gain_ns > 0:
            worst[option.move.layer] = max(worst.get(option.move.layer, 0.0), sum(option.loss.values()))
    return sorted(worst, key=lambda layer: -worst[layer])[:at_most]


def gains_of(search: Search, moves: Sequence[Move]) -> dict[Move, float]:
    """Nanoseconds that each move alone saves; without those that the card refuses.

    Moves that make only their own layer faster are planned together, one dial and value at a time.
    """
    found: dict[Move, float] = {}
    together: dict[tuple[str, object], list[Move]] = {}
    alone = [move for move in moves if not move.dial.local]
    for move in moves:
        if move.dial.local:
            together.setdefault((move.dial.name, move.value), []).append(move)
    search.expect(changes_of(group) for group in (*([move] for move in alone), *together.values()))
    for move in alone:
        found |= _gain_of_one(search, move)
    for group in together.values():
        found |= _gains_of_group(search, group)
    return found


def _gain_of_one(search: Search, move: Move) -> dict[Move, float]:
    search.budget.check_time()
    predicted = search.predictor.predict(search.best.assignment.with_all(changes_of([move])))
    return {move: search.prediction.device_ns - predicted.device_ns} if isinstance(predicted, Prediction) else {}


def _gains_of_group(search: Search, moves: list[Move]) -> dict[Move, float]:
    left = list(moves)
    while left:
        search.budget.check_time()
        predicted = search.predictor.predict(search.best.assignment.with_all(changes_of(left)))
        if isinstance(predicted, Refusal):
            rest = [move for move in left if move.layer != predicted.layer]
            if len(rest) == len(left):  # it is not said which one: each for itself
                return {move: gain for one in left for move, gain in _gain_of_one(search, one).items()}
            left = rest
            continue
        before, after = search.prediction.layer_ns, predicted.layer_ns
        return {move: before.get(move.layer, 0.0) - after.get(move.layer, 0.0) for move in left}
    return {}
