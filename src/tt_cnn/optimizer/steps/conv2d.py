# SPDX-License-Identifier: Apache-2.0
"""Convolutions one by one: rows of an activation block, double buffers, when memory is given back.

None of it changes a value. Layers that are alike are changed together first, then each by itself: what does not fit
beside one layer may fit beside another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        for group in groups_of_alike(search, layers):
            self._attempt(search, group)
        total = search.prediction.device_ns
        for layer in search.layers(ConvolutionConfiguration):
            if search.prediction.layer_ns.get(layer, 0.0) >= LEAST_SHARE * total:
                self._attempt(search, [layer])

    def _attempt(self, search: Search, layers: Sequence[str]) -> None:
        for topic in self.topics:
            configuration = search.configuration(layers[0])
            assert isinstance(configuration, ConvolutionConfiguration)
            for settings in topic(configuration, search.card):
                words = f"{listed(layers)}: {described(settings)}"
                search.attempt(self.name, Candidate({layer: settings for layer in layers}, words))
