# SPDX-License-Identifier: Apache-2.0
"""Sums and their activations as one op, and sums in place of a summand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tt_cnn import ttnn
from tt_cnn.builder import AddConfiguration
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.optimizer.words import described


@register_step
class FusingStep(OptimizationStep):
    name = "fusing"
    may_change = "residual sums: activation fused or apart, result in place of a summand or its own"

    def run(self, search: Search) -> None:
        sums = search.layers(AddConfiguration)
        if sums:
            everywhere = {"fuse_activation": True, "in_place": True}
            lossless = all(_keeps_values(search, layer) for layer in sums)
            changes = dict.fromkeys(sums, everywhere)
            search.attempt(self.name, Candidate(changes, f"all sums: {described(everywhere)}", lossless))
        search.attempt_in_turn(self.name, [partial(_turned, search, layer) for layer in sums])


def _turned(search: Search, layer: str) -> Iterator[Candidate]:
    configuration = search.configuration(layer)
    assert isinstance(configuration, AddConfiguration)
    for setting in ("fuse_activation", "in_place"):
        settings = {setting: not getattr(configuration, setting)}
        lossless = setting == "in_place" or _keeps_values(search, layer)
        yield Candidate({layer: settings}, f"{layer}: {described(settings)}", lossless)


def _keeps_values(search: Search, layer: str) -> bool:
    """A ReLU behind a rounded sum gives the same as one before the rounding; other activations do not."""
    activation = getattr(search.configuration(layer), "activation", None)
    return activation is None or getattr(activation, "op_type", activation) == ttnn.UnaryOpType.RELU
