# SPDX-License-Identifier: Apache-2.0
"""By how much the PCC of each output falls when one layer is turned coarser, for all layers without a run for each.

The noise that a move adds to its layer is measured (`layer_noise`), what it does to the outputs is the reference's
gradients (`propagation`). Where the reference has no tensor like the layer's, the model is run with the move.

Compared with runs in which only one layer is lowered, estimates are within a factor of 3 where the loss is between
0.0005 and 0.02 of PCC, too large above that (nothing is linear there), and order the layers as the runs do; below it,
runs go up and down by chance (docs/precision.md has the figures). What is chosen by them is measured by a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.accuracy import ModelOnCard, named_outputs
from tt_cnn.optimizer.layer_noise import LayerCall, difference, noise_of, record_calls
from tt_cnn.optimizer.moves import Losses, Move
from tt_cnn.optimizer.propagation import Gain, gains


class Sensitivity:
    """Of all layers under one assignment, on one input."""

    def __init__(self, model: ModelOnCard, assignment: Assignment, images: torch.Tensor) -> None:
        self.model = model
        self.assignment = assignment
        self.calls: Mapping[str, LayerCall] = record_calls(model, assignment, images)
        self.gains: Mapping[str, Gain] = gains(
            model.reference,
            images,
            lambda outputs: named_outputs(model.entry, model.model.outputs, outputs),
            {name: call.output for name, call in self.calls.items()},
        )
        self._own: dict[str, Losses] = {}

    @property
    def unknown(self) -> list[str]:
        """Layers that the reference has no counterpart of."""
        return [name for name in self.calls if name not in self.gains]

    def losses(
        self,
        moves: Sequence[Move],
        measure: Callable[[Assignment], Losses],
        between: Callable[[], None] = lambda: None,
    ) -> dict[Move, Losses]:
        """Of each move alone; without those that the card does not take.

        `measure` gives the falls of PCC in a run; `between` is called before each layer.
        """
        self.model.configure(self.assignment)
        found: dict[Move, Losses] = {}
        for move in moves:
            between()
            if move.layer not in self.calls:
                continue
            if move.layer in self.gains:
                loss = self._estimate(move)
            else:
                loss = measure(self.assignment.but(move.layer, **move.settings))
            if loss is not None:
                found[move] = {output: _signed(move, value) for output, value in loss.items()}
        return found

    def _estimate(self, move: Move) -> Losses | None:
        call, gain = self.calls[move.layer], self.gains[move.layer]
        noise = noise_of(self.model, move.layer, call, move.settings)
        if noise is None:
            return None
        if move.layer not in self._own:
            assert call.exact is not None  # made by noise_of
            self._own[move.layer] = gain.loss(difference(call.output, call.exact))
        own = self._own[move.layer]
        return {output: value - own[output] for output, value in gain.loss(noise).items()}


def _signed(move: Move, value: float) -> float:
    """Finer is no loss and coarser is no gain: where a measurement says so, it is chance.

    What is neither finer nor coarser is not counted as a gain either: nothing is made of it but time.
    """
    return min(value, 0.0) if move.raises else max(value, 0.0)
