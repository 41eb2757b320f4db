# SPDX-License-Identifier: Apache-2.0
"""Slicing strategies: how a layer that does not fit L1 as a whole is cut up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, instance, whole


@dataclass(frozen=True, eq=False)
class SliceStrategyConfiguration(Configuration):
    """Base of the slicing strategies."""

    num_slices: int = 0

    slice_type: ClassVar[Any]
    rules = (whole("num_slices", at_least=0),)

    def get_slice_type(self) -> Any:
        """TT-NN's name for it."""
        return self.slice_type

    def get_num_slices(self) -> int:
        return self.num_slices


@dataclass(frozen=True, eq=False)
class HeightSliceStrategyConfiguration(SliceStrategyConfiguration):
    """The output is made band by band from an input in DRAM; 0 lets TT-NN find how many bands fit."""

    slice_type = ttnn.Conv2dDRAMSliceHeight


@dataclass(frozen=True, eq=False)
class WidthSliceStrategyConfiguration(SliceStrategyConfiguration):
    """The output is made column by column from an input in DRAM; 0 lets TT-NN find how many columns fit."""

    slice_type = ttnn.Conv2dDRAMSliceWidth


@dataclass(frozen=True, eq=False)
class L1FullSliceStrategyConfiguration(SliceStrategyConfiguration):
    """Nothing is cut: the whole layer runs in L1, and its output stays there."""

    slice_type = ttnn.Conv2dL1Full


@dataclass(frozen=True, eq=False)
class ChannelSliceStrategyConfiguration(SliceStrategyConfiguration):
    """The input channels are cut; the layer runs once for each part. TT-NN has no such op: the layer does it."""

    rules = (
        Rule(
            "num_slices",
            lambda c: whole("num_slices", at_least=2).holds(c),
            "a whole number, at least 2",
            "Channel slicing requires num_slices > 1: it cannot be chosen automatically.",
        ),
    )

    slice_type = ttnn.Conv2dL1Full


SliceStrategy = (
    HeightSliceStrategyConfiguration
    | WidthSliceStrategyConfiguration
    | ChannelSliceStrategyConfiguration
    | L1FullSliceStrategyConfiguration
)


def channel_slices(strategy: SliceStrategyConfiguration | None) -> int:
    """Into how many parts the channels are cut: 1 for every other strategy."""
    return strategy.num_slices if isinstance(strategy, ChannelSliceStrategyConfiguration) else 1


def any_slicing() -> Rule:
    return instance("slice_strategy", None, SliceStrategyConfiguration)


def divided_channels(field: str) -> Rule:
    return Rule(
        field,
        lambda c: getattr(c, field) % channel_slices(c.slice_strategy) == 0,
        lambda c: f"divisible by number of slices ({channel_slices(c.slice_strategy)})",
    )


def only_channel_slicing(layer: str) -> Rule:
    refused = (HeightSliceStrategyConfiguration, WidthSliceStrategyConfiguration)
    return Rule(
        "slice_strategy",
        lambda c: not isinstance(c.slice_strategy, refused),
        "None, a ChannelSliceStrategyConfiguration or a L1FullSliceStrategyConfiguration",
        f"Height and Width slicing are not supported for {layer}.",
    )
