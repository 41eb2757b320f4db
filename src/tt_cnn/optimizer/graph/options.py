# SPDX-License-Identifier: Apache-2.0
"""What a layer's call can become: its candidates as attributes of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.lowering import to_conv2d_config, to_slice_config
from tt_cnn.builder.overrides import LayerSettings, with_settings
from tt_cnn.builder.slicing import (
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    SliceStrategyConfiguration,
    WidthSliceStrategyConfiguration,
    channel_slices,
)
from tt_cnn.builder.strategy_candidates import strategies, with_blocks
from tt_cnn.optimizer.graph.calls import CONVOLUTIONS, CallGraph, GraphCall
from tt_cnn.optimizer.graph.plans import Plans, Request
from tt_cnn.virtual.arch import Card

_SLICES = (2, 4)

CandidatesOf = Callable[[str, ConvolutionConfiguration, Card], list[LayerSettings]]
"""Of a layer, by its name and its configuration."""


@dataclass(frozen=True)
class Option:
    """Settings of a layer, and the call that they make of it."""

    settings: LayerSettings
    """Empty: as it is."""
    request: Request


def layouts_and_blocks(layer: str, configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """Every strategy with every block; where the layer may be cut, also whole in L1, and cut along either side."""
    sharded: list[LayerSettings] = []
    for strategy in strategies(configuration, card.grid):
        for blocked in with_blocks(configuration, strategy, card.grid):
            sharded.append({"sharding_strategy": blocked})
    found = list(sharded)
    if not isinstance(configuration.slice_strategy, L1FullSliceStrategyConfiguration):
        for cut in (L1FullSliceStrategyConfiguration(), *_cuts(configuration)):
            slicing = {"slice_strategy": cut}
            found += [slicing, *({**settings, **slicing} for settings in sharded)]
    return found


def _cuts(configuration: ConvolutionConfiguration) -> Iterator[SliceStrategyConfiguration]:
    """Few slices: every one has the windows at its edges once more."""
    height, width = configuration.output_size
    yield from (HeightSliceStrategyConfiguration(n) for n in _SLICES if n <= height)
    yield from (WidthSliceStrategyConfiguration(n) for n in _SLICES if n <= width)


def blocks_and_buffers(layer: str, configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """The strategy as it is, with every block and single or double buffers: what is faster takes more L1."""
    blocked = with_blocks(configuration, configuration.sharding_strategy, card.grid)
    return _with_buffers([{"sharding_strategy": one} for one in blocked])


def layouts_blocks_and_buffers(layer: str, configuration: ConvolutionConfiguration, card: Card) -> list[LayerSettings]:
    """All of both: four times as much to plan."""
    return _with_buffers([{}, *layouts_and_blocks(layer, configuration, card)])


def _with_buffers(settings: list[LayerSettings]) -> list[LayerSettings]:
    return [
        {**one, "enable_act_double_buffer": activations, "enable_weights_double_buffer": weights}
        for one in settings
        for activations in (True, False)
        for weights in (True, False)
    ]


def options_of(
    graph: CallGraph, configurations: Mapping[str, Any], plans: Plans, candidates: CandidatesOf
) -> dict[int, list[Option]]:
    """By the numbers of the calls. A layer that is called several times, or in slices of its channels, stays."""
    found: dict[int, list[Option]] = {}
    for layer, configuration in configurations.items():
        if not isinstance(configuration, ConvolutionConfiguration) or channel_slices(configuration.slice_strategy) > 1:
            continue
        calls = [i for i in graph.calls_of(layer) if graph.calls[i].operation in CONVOLUTIONS]
        if len(calls) == 1:
            call = graph.calls[calls[0]]
            settings = [{}, *candidates(layer, configuration, plans.card)]
            found[calls[0]] = _distinct([_option(call, configuration, one, plans) for one in settings])
    return found


def _option(call: GraphCall, configuration: ConvolutionConfiguration, settings: LayerSettings, plans: Plans) -> Option:
    attributes: Mapping[str, Any] = call.attributes
    if settings:
        changed = with_settings(configuration, settings)
        slicing = to_slice_config(changed.slice_strategy)
        attributes = {
            **attributes,
            "settings": to_conv2d_config(changed).frozen(),
            "slicing": None if slicing is None else slicing.frozen(),
        }
    return Option(settings, plans.request(call.operation, call.numbering, attributes))


def _distinct(options: list[Option]) -> list[Option]:
    known: dict[int, Option] = {}
    for option in options:
        known.setdefault(option.request.number, option)
    return list(known.values())
