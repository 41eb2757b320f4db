# SPDX-License-Identifier: Apache-2.0
"""What one convolution can be set to, by topic: few settings of each, the likely ones first.

Every topic changes settings of its own and leaves all others as they are, so that steps can put topics together. What
the card refuses is found out by planning; here is only what makes sense for the layer's sizes and the card's grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.overrides import LayerSettings, with_settings
from tt_cnn.builder.slicing import (
    ChannelSliceStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    SliceStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)
from tt_cnn.builder.strategy_candidates import strategies, with_blocks
from tt_cnn.virtual.arch import Card

_SLICES = (0, 2, 4, 8, 16)
"""0 lets TT-NN find how many fit."""
_CHANNEL_SLICES = (2, 4)


def convolution_candidates(configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """All topics one after the other, without the settings that the layer has."""
    topics = (shardings, blocks, buffers, deallocations, slices)
    return [settings for topic in topics for settings in topic(configuration, card)]


def shardings(configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """Layouts and cores, with whole blocks."""
    return _others(configuration, ({"sharding_strategy": one} for one in strategies(configuration, card.grid)))


def blocks(configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """Activation blocks of the sharding that the layer has."""
    found = with_blocks(configuration, configuration.sharding_strategy, card.grid)
    return _others(configuration, ({"sharding_strategy": one} for one in found))


def buffers(configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """Double buffers of activations and weights."""
    return _others(
        configuration,
        (
            {"enable_act_double_buffer": activations, "enable_weights_double_buffer": weights}
            for activations in (True, False)
            for weights in (True, False)
        ),
    )


def deallocations(configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """When the input's memory is given back, and whether the halo's is moved up. An input that is read again later
    must stay: planning the whole model finds out."""
    return _others(
        configuration,
        (
            {"deallocate_activation": gives_back, "reallocate_halo_output": moves}
            for gives_back in (True, False)
            for moves in (True, False)
        ),
    )


def slices(configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """Whole in L1, as TT-NN chooses, or cut along one side."""
    return _others(configuration, ({"slice_strategy": one} for one in _slicings(configuration)))


def _slicings(configuration: ConvolutionConfiguration) -> Iterator[SliceStrategyConfiguration | None]:
    yield L1FullSliceStrategyConfiguration()
    yield None
    height, width = configuration.output_size
    yield from (HeightSliceStrategyConfiguration(n) for n in _SLICES if n <= height)
    yield from (WidthSliceStrategyConfiguration(n) for n in _SLICES if n <= width)
    if configuration.groups == 1:
        whole = [n for n in _CHANNEL_SLICES if configuration.in_channels % (32 * n) == 0]
        yield from (ChannelSliceStrategyConfiguration(n) for n in whole)


def _others(configuration: ConvolutionConfiguration, candidates: Iterator[dict[str, Any]]) -> list[LayerSettings]:
    """Those that change something and that the configuration's rules take."""
    return [one for one in candidates if with_settings(configuration, one) != configuration]
