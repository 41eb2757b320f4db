# SPDX-License-Identifier: Apache-2.0
"""Whether an assignment's values are good enough.

An assignment is accepted when, for each calibration input and each output apart, the PCC against PyTorch in float32 is

- at least `min_pcc` (0.99; maybe a number of its own for each output), or
- not lower than the PCC of the configuration that the search started from, on the same input.

The second half is there for models that never reached 0.99: a hand-written one whose scores have 0.985 would else be
refused everything, even what changes nothing. It may become faster, but not worse. It is compared input by input,
because the PCC of one input says nothing of another's: some are 0.01 harder. `ModelEntry.gates` is not used: a gate is
what a model must reach with any seed, so it lies under what it reaches with this one, and would let the search spend
accuracy that the hand-written configuration has. An output with a NaN or an infinity is never accepted.

Inputs that a choice was made on do not show how it does on others. `PccGuard.verify` measures the inputs that were
kept apart, by the same rule but for `CHANCE`: a layer in other shards rounds in other places, which is as likely to
help an input as to harm it, and no choice was made for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.registry import Resolution
from tt_cnn.models.tt_model import Precision
from tt_cnn.optimizer.accuracy import NOT_FINITE, ModelOnCard, model_on_card, pcc
from tt_cnn.optimizer.moves import Losses, Move
from tt_cnn.optimizer.search import Guard, Verdict
from tt_cnn.optimizer.sensitivity import Sensitivity
from tt_cnn.virtual.errors.card_error import CardError

DEFAULT_LEAST = 0.99
"""Of outputs that a mapping does not name."""
UNSEEN_SEEDS = 1000
"""Added to the seed of the calibration inputs: generated inputs that no choice is made on."""


CHANCE = 0.05
"""Share of the start's own loss, 1 - PCC, by which an output under `min_pcc` may lose more than the start does on an
input that no choice was made on."""


class Model(Protocol):
    """What a guard needs of a model."""

    def relevant(self, assignment: Assignment) -> Assignment: ...

    def run(self, assignment: Assignment, images: torch.Tensor) -> Mapping[str, torch.Tensor]: ...

    def expected(self, images: torch.Tensor) -> Mapping[str, torch.Tensor]: ...


@runtime_checkable
class MeasuringGuard(Guard, Protocol):
    """A guard that also says how much may be lost, and what a move would cost: what the precision step needs."""

    def slack(self, assignment: Assignment) -> Mapping[str, float]: ...

    def losses(
        self, assignment: Assignment, moves: Sequence[Move], between: Callable[[], None]
    ) -> Mapping[Move, Losses]: ...


class PccGuard:
    """Measures every output on the calibration inputs, and remembers what it measured."""

    def __init__(
        self,
        model: Model,
        inputs: Sequence[torch.Tensor],
        unseen: Sequence[torch.Tensor] = (),
        min_pcc: float | Mapping[str, float] = 0.99,
        start: Assignment | None = None,
    ) -> None:
        if not inputs:
            raise ValueError("inputs is empty; there must be at least one to measure the PCC on")
        self.model = model
        self.inputs = list(inputs)
        self.unseen = list(unseen)
        self.min_pcc = min_pcc
        self.start = start or Assignment()
        """What an output under `min_pcc` is compared with."""
        self._expected: dict[int, tuple[torch.Tensor, Mapping[str, torch.Tensor]]] = {}
        """By the input's id, with the input, so that no other tensor gets the same."""
        self._known: dict[tuple[Assignment, int], Mapping[str, float]] = {}

    @classmethod
    @contextmanager
    def for_model(
        cls,
        name: str,
        *,
        card: str | None = None,
        resolution: Resolution | None = None,
        batch_size: int = 1,
        precision: Precision = "tuned",
        reference: nn.Module | None = None,
        min_pcc: float | Mapping[str, float] = 0.99,
        inputs: Sequence[torch.Tensor] | None = None,
        unseen: Sequence[torch.Tensor] | None = None,
        seed: int = 0,
        count: int = 1,
        start: Assignment | None = None,
        numerics: str = "device",
        whole_batch: bool = False,
    ) -> Iterator[PccGuard]:
        """A guard with a card of its own, which is closed at the end.

        `inputs` and `unseen` are batches as the reference takes them, of as many images as one run has
        (`ModelOnCard.images_per_run`); where they are None, `count` of each are generated. The arguments before
        `min_pcc`, `numerics` and `whole_batch` are those of `model_on_card`.
        """
        with model_on_card(
            name,
            card=card,
            resolution=resolution,
            batch_size=batch_size,
            precision=precision,
            reference=reference,
            numerics=numerics,
            whole_batch=whole_batch,
        ) as model:
            made = cls.with_examples(model, min_pcc, start, seed, count)
            made.inputs = made.inputs if inputs is None else list(inputs)
            made.unseen = made.unseen if unseen is None else list(unseen)
            yield made

    @classmethod
    def with_examples(
        cls,
        model: ModelOnCard,
        min_pcc: float | Mapping[str, float],
        start: Assignment | None,
        seed: int = 0,
        count: int = 1,
    ) -> PccGuard:
        """On generated images, `count` inputs to choose by and as many others to verify."""
        chosen, unseen = ([model.example(first + i) for i in range(count)] for first in (seed, seed + UNSEEN_SEEDS))
        return cls(model, chosen, unseen, min_pcc, start)

    def accepts(self, assignment: Assignment) -> Verdict:
        return self.judge(assignment, self.inputs)

    def verify(self, assignment: Assignment) -> Verdict:
        """On the inputs that no choice was made on."""
        return self.judge(assignment, self.unseen, CHANCE)

    def judge(self, assignment: Assignment, inputs: Sequence[torch.Tensor], chance: float = 0.0) -> Verdict:
        """The rule above on some inputs; the first that fails is the last that is run."""
        lowest: dict[str, float] = {}
        for images in inputs:
            floors = self.floors(images)
            try:
                measured = self.measure(assignment, images)
            except (CardError, ValueError) as error:
                reason = str(error.args[0] if error.args else error).split("\n")[0]
                return Verdict(False, dict.fromkeys(floors, NOT_FINITE), f"the card refused it: {reason}")
            for output, value in measured.items():
                lowest[output] = min(value, lowest.get(output, 1.0))
            for output, value in measured.items():
                if value == NOT_FINITE:
                    return Verdict(False, lowest, f"{output} is not finite")
                below = floors[output] < self.least(output)
                if value < floors[output] - (chance * (1 - floors[output]) if below else 0.0):
                    return Verdict(False, lowest, f"PCC of {output} {value:.5f} under {floors[output]:.5f}")
        return Verdict(True, lowest)

    def floors(self, images: torch.Tensor) -> dict[str, float]:
        """What each output must reach on this input."""
        return {output: min(self.least(output), value) for output, value in self.measure(self.start, images).items()}

    def least(self, output: str) -> float:
        """The PCC that is good enough for an output, whatever the start has."""
        return self.min_pcc.get(output, DEFAULT_LEAST) if isinstance(self.min_pcc, Mapping) else self.min_pcc

    def slack(self, assignment: Assignment) -> dict[str, float]:
        """How much each output's PCC may still fall, the least of all calibration inputs; below 0 if it has to rise."""
        found: dict[str, float] = {}
        for images in self.inputs:
            floors = self.floors(images)
            for output, value in self.measure(assignment, images).items():
                found[output] = min(value - floors[output], found.get(output, 1.0))
        return found

    def losses(
        self, assignment: Assignment, moves: Sequence[Move], between: Callable[[], None] = lambda: None
    ) -> dict[Move, Losses]:
        """What each move alone would cost, estimated on the first calibration input (`tt_cnn.optimizer.sensitivity`).

        `between` is called now and then, and may raise to end it.
        """
        model = self.model
        if not isinstance(model, ModelOnCard):
            raise TypeError(f"the model is a {type(model).__name__}; sensitivities are measured of a ModelOnCard")
        images = self.inputs[0]
        before = self.measure(assignment, images)

        def measured(candidate: Assignment) -> Losses:
            after = self.measure(candidate, images)
            return {output: before[output] - value for output, value in after.items()}

        return Sensitivity(model, assignment, images).losses(moves, measured, between)

    def measure(self, assignment: Assignment, images: torch.Tensor) -> Mapping[str, float]:
        """The PCC of each output; a second time from memory."""
        key = (self.model.relevant(assignment), id(images))
        if key not in self._known:
            if id(images) not in self._expected:
                self._expected[id(images)] = images, self.model.expected(images)
            _, expected = self._expected[id(images)]
            found = self.model.run(assignment, images)
            self._known[key] = {output: pcc(expected[output], values) for output, values in found.items()}
        return self._known[key]
