# SPDX-License-Identifier: Apache-2.0
"""Where tensors between layers lie: skips and stage inputs, joins of branches, pooled images.

Everything out of DRAM at once is tried first, as a whole-network move; then each place by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import ConcatConfiguration, GlobalAvgPool2dConfiguration, PlacementConfiguration
from tt_cnn.builder.concat_configuration import PLACES
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.optimizer.words import described

_MEMORIES = (None, ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG)
"""Where it comes from, or interleaved. Shards of a placement are the sharding step's."""


@register_step
class MemoryStep(OptimizationStep):
    name = "memory"
    may_change = "L1 or DRAM for skips, stage inputs, joins and pooled images; moves that close holes in L1"

    def run(self, search: Search) -> None:
        search.attempt_in_turn(self.name, [partial(self._all_at_once, search)])
        layers = search.layers(PlacementConfiguration, ConcatConfiguration, GlobalAvgPool2dConfiguration)
        search.attempt_in_turn(self.name, [partial(_elsewhere, search, layer) for layer in layers])

    def _all_at_once(self, search: Search) -> Iterator[Candidate]:
        placements = search.layers(PlacementConfiguration)
        joins = search.layers(ConcatConfiguration)
        for words, memory, place in (
            ("shards and places of their producers", None, "shards"),
            ("L1, interleaved", ttnn.L1_MEMORY_CONFIG, "l1"),
        ):
            changes: dict[str, LayerSettings] = {name: {"memory_config": memory} for name in placements}
            changes |= {name: {"place": place} for name in joins}
            if changes:
                yield Candidate(changes, f"all placements and joins: {words}")


def _elsewhere(search: Search, layer: str) -> Iterator[Candidate]:
    for settings in _others(search.configuration(layer)):
        yield Candidate({layer: settings}, f"{layer}: {described(settings)}")


def _others(configuration: Any) -> Iterator[LayerSettings]:
    """Settings unlike the present ones."""
    if isinstance(configuration, ConcatConfiguration):
        for place in PLACES:
            for layout in (None, ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT):
                if (place, layout) != (configuration.place, configuration.layout):
                    yield {"place": place, "layout": layout}
    else:
        yield from ({"memory_config": one} for one in _MEMORIES if one != configuration.memory_config)
    if hasattr(configuration, "reallocate"):
        yield {"reallocate": not configuration.reallocate}
