# SPDX-License-Identifier: Apache-2.0
"""Averages of whole images: by TT-NN's pool, which brings pixels to rows first, or as products of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tt_cnn.builder.avg_pool2d_configuration import AvgPool2dConfiguration
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.optimizer.words import described


@register_step
class PoolsStep(OptimizationStep):
    name = "pools"
    may_change = "averages of whole images: a pool, or a product of tiles"

    def run(self, search: Search) -> None:
        pools = search.layers(AvgPool2dConfiguration)
        search.attempt_in_turn(self.name, [partial(_otherwise, search, layer) for layer in pools])


def _otherwise(search: Search, layer: str) -> Iterator[Candidate]:
    """Sums are added up in another order, and in more bits."""
    configuration = search.configuration(layer)
    assert isinstance(configuration, AvgPool2dConfiguration)
    if configuration.averages_images:
        settings = {"as_mean": not configuration.as_mean}
        yield Candidate({layer: settings}, f"{layer}: {described(settings)}", lossless=False)
