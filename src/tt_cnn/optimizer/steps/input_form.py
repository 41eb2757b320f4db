# SPDX-License-Identifier: Apache-2.0
"""The form in which images come to the card: planes through `convert_to_hwc`, or padded channels and a permutation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.models.picture import FORMS, PictureConfiguration
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.optimizer.words import described

_CHANNELS = (8, 16)
"""Of a padded pixel: 16 and 32 bytes."""
TILE = 32


@register_step
class InputFormStep(OptimizationStep):
    name = "input"
    may_change = "how images wait on the card and become pixels: form, cores, padded channels"

    def run(self, search: Search) -> None:
        layers = search.layers(PictureConfiguration)
        search.attempt_in_turn(self.name, [partial(_other_forms, search, layer) for layer in layers])


def _other_forms(search: Search, layer: str) -> Iterator[Candidate]:
    configuration = search.configuration(layer)
    assert isinstance(configuration, PictureConfiguration)
    for settings in _forms(configuration, search.card.grid):
        yield Candidate({layer: settings}, f"{layer}: {described(settings)}")


def _forms(configuration: PictureConfiguration, grid: tuple[int, int]) -> Iterator[LayerSettings]:
    for form in FORMS:
        for cores in _cores(configuration, form, grid):
            for channels in _CHANNELS if form == "pad" else (configuration.padded_channels,):
                for waits in (False, True) if form == "pad" else (False,):
                    settings: dict[str, Any] = {
                        "form": form,
                        "cores": cores,
                        "padded_channels": channels,
                        "waits_padded": waits,
                        "memory_config": None,
                    }
                    if replace(configuration, **settings) != configuration:
                        yield settings


def _cores(configuration: PictureConfiguration, form: str, grid: tuple[int, int]) -> list[Any]:
    """The most cores that the image can be distributed to evenly, with whole tiles of pixels and without; and the
    present ones."""
    height, width = configuration.input_height, configuration.input_width
    lines = configuration.batch_size * height * width if form == "hwc" else configuration.batch_size * 3 * height
    most = grid[0] * grid[1]
    counts = {max(n for n in range(1, most + 1) if lines % (n * step) == 0) for step in (1, TILE) if lines % step == 0}
    made = [
        ttnn.num_cores_to_corerangeset(count, ttnn.CoreCoord(*grid), True) for count in sorted(counts, reverse=True)
    ]
    return [configuration.cores, *(one for one in made if one != configuration.cores)]
