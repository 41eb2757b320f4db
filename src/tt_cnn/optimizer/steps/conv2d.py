# SPDX-License-Identifier: Apache-2.0
"""Convolutions one by one: rows of an activation block, double buffers, when memory is given back.

None of it changes a value. Layers that are alike are changed together first, then each by itself: what does not fit
beside one layer may fit beside another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.optimizer.alike import groups_of_alike, listed
from tt_cnn.optimizer.candidates import blocks, buffers, deallocations
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.optimizer.words import described

LEAST_SHARE = 1e-3
"""Of the goal that a layer must take to be searched by itself."""

Topic = Callable[[ConvolutionConfiguration, object], list[LayerSettings]]


@register_step
class Conv2dStep(OptimizationStep):
    name = "conv2d"
    may_change = "activation blocks, double buffers, deallocation of inputs and of halos"
    topics: ClassVar[tuple[Topic, ...]] = (blocks, buffers, deallocations)  # type: ignore[assignment]

    def run(self, search: Search) -> None:
        layers = search.layers(ConvolutionConfiguration)
        groups = groups_of_alike(search, layers)
        search.attempt_in_turn(
            self.name, [partial(_changed, search, group, topic) for group in groups for topic in self.topics]
        )
        total = search.prediction.device_ns

        def alone(layer: str, topic: Topic) -> Iterator[Candidate]:
            if search.prediction.layer_ns.get(layer, 0.0) >= LEAST_SHARE * total:
                yield from _changed(search, [layer], topic)

        layers = search.layers(ConvolutionConfiguration)
        search.attempt_in_turn(self.name, [partial(alone, layer, topic) for layer in layers for topic in self.topics])


def _changed(search: Search, layers: Sequence[str], topic: Topic) -> Iterator[Candidate]:
    """All of the layers with each setting that the topic has for the first."""
    configuration = search.configuration(layers[0])
    assert isinstance(configuration, ConvolutionConfiguration)
    for settings in topic(configuration, search.card):
        yield Candidate({layer: settings for layer in layers}, f"{listed(layers)}: {described(settings)}")
