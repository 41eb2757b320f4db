# SPDX-License-Identifier: Apache-2.0
"""Making a refused candidate fit: the layer that the card refuses is given settings that take less of L1.

A move of a whole stage is often refused for the sake of one layer, whose blocks were as large as its old shards
allowed. What is given up here for room, the step for convolutions tries to win back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import LayerSettings, with_settings
from tt_cnn.builder.sharding import BlockShardedStrategyConfiguration, HeightShardedStrategyConfiguration
from tt_cnn.optimizer.prediction import Refusal
from tt_cnn.optimizer.search import Candidate, Search

MOST_PREDICTIONS = 24
"""Of one candidate."""
_BLOCKS = (512, 256, 128, 64, 32)
"""Rows of an activation block, from roomy to the least there is."""
FOR_ROOM = ("Out of Memory", "circular buffer")
"""What refusals for want of L1 say; nothing helps against others."""


def repaired(search: Search, candidate: Candidate) -> Candidate:
    """The candidate with room made in the layers that are refused; as it is where that does not help."""
    changes = {name: dict(settings) for name, settings in candidate.changes.items()}
    remedies: dict[str, Iterator[LayerSettings]] = {}
    for _ in range(MOST_PREDICTIONS):
        search.budget.check_time()
        predicted = search.predictor.predict(search.best.assignment.with_all(changes))
        if not isinstance(predicted, Refusal):
            return replace(candidate, changes=changes, words=_told(candidate, list(remedies)))
        layer = predicted.layer
        if not any(words in predicted.reason for words in FOR_ROOM) or not _is_convolution(search, layer):
            return candidate
        if layer not in remedies:
            present = with_settings(search.configuration(layer), changes.get(layer, {}), layer)
            remedies[layer] = _remedies(present)
        remedy = next(remedies[layer], None)
        if remedy is None:
            return candidate
        changes.setdefault(layer, {}).update(remedy)
    return candidate


def _is_convolution(search: Search, layer: str) -> bool:
    return isinstance(search.predictor.configurations.get(layer), ConvolutionConfiguration) and search.may_change(layer)


def _remedies(configuration: ConvolutionConfiguration) -> Iterator[LayerSettings]:
    """One on top of the other, those first that cost least time."""
    if not configuration.reallocate_halo_output:
        yield {"reallocate_halo_output": True}
    if configuration.enable_act_double_buffer:
        yield {"enable_act_double_buffer": False}
    if configuration.enable_weights_double_buffer:
        yield {"enable_weights_double_buffer": False}
    strategy = configuration.sharding_strategy
    if isinstance(strategy, (HeightShardedStrategyConfiguration, BlockShardedStrategyConfiguration)):
        height, width = configuration.output_size
        rows = strategy.act_block_h_override or configuration.batch_size * height * width
        for block in _BLOCKS:
            if block < rows:
                yield {"sharding_strategy": replace(strategy, act_block_h_override=block)}


def _told(candidate: Candidate, layers: list[str]) -> str:
    return f"{candidate.words}; room made in {', '.join(layers)}" if layers else candidate.words
