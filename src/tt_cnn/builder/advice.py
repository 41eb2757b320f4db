# SPDX-License-Identifier: Apache-2.0
"""Advice in TT-NN's terms, said in those of a layer's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.sharding import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    ShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import (
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    SliceStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)

_STRATEGIES: dict[Any, type[Any]] = {
    kind.memory_layout: kind
    for kind in (
        HeightShardedStrategyConfiguration,
        WidthShardedStrategyConfiguration,
        BlockShardedStrategyConfiguration,
    )
}
_SLICES: dict[Any, type[SliceStrategyConfiguration]] = {
    kind.slice_type: kind
    for kind in (
        HeightSliceStrategyConfiguration,
        WidthSliceStrategyConfiguration,
        L1FullSliceStrategyConfiguration,
    )
}
_OF_STRATEGIES = ("shard_layout", "act_block_h_override", "reshard_if_not_optimal")
_GRID = ("override_sharding_config", "core_grid")
"""Advice only ever takes a grid back: a strategy of another layout has none of its own."""


def strategy_of(layout: Any, **options: Any) -> ShardedStrategyConfiguration:
    """The strategy of a layout, with those of the options that it has; None as layout leaves the choice to TT-NN."""
    kind = AutoShardedStrategyConfiguration if layout is None else _STRATEGIES[layout]
    known = {field.name for field in fields(kind)}
    made: ShardedStrategyConfiguration = kind(**{name: value for name, value in options.items() if name in known})
    return made


def settings_for(configuration: Configuration, change: Mapping[str, Any]) -> dict[str, Any] | None:
    """The change as settings of the layer; None where its configuration cannot say it.

    Where a convolution's output goes is not reported: the layer leaves it where its sharding puts it.
    """
    if isinstance(configuration, ConvolutionConfiguration):
        return _of_convolution(configuration, change)
    if not change or not _known(configuration, change):
        return None
    return {name: _as_setting(name, value) for name, value in change.items()}


def _of_convolution(configuration: ConvolutionConfiguration, change: Mapping[str, Any]) -> dict[str, Any] | None:
    ours = {"memory_config", "slice_config", "dtype", *_OF_STRATEGIES, *_GRID}
    settings = {name: value for name, value in change.items() if name not in ours}
    if "dtype" in change:
        settings["output_dtype"] = change["dtype"]
    if "slice_config" in change:
        cut = change["slice_config"]
        settings["slice_strategy"] = None if cut is None else _SLICES[cut.kind](cut.count)
    if any(name in change for name in _OF_STRATEGIES):
        strategy = _strategy(configuration.sharding_strategy, change)
        if strategy is None:
            return None
        settings["sharding_strategy"] = strategy
    return settings if settings and _known(configuration, settings) else None


def _strategy(now: ShardedStrategyConfiguration, change: Mapping[str, Any]) -> ShardedStrategyConfiguration | None:
    wanted = {name: change[name] for name in _OF_STRATEGIES if name in change}
    if "shard_layout" in wanted:
        layout = wanted.pop("shard_layout")
        kept = {"reshard_if_not_optimal": getattr(now, "reshard_if_not_optimal", False)}
        return strategy_of(layout, **{**kept, **wanted})
    changed: ShardedStrategyConfiguration | None = None
    if all(hasattr(now, name) for name in wanted):
        changed = replace(now, **wanted)  # type: ignore[type-var]
    return changed


def _as_setting(name: str, value: Any) -> Any:
    """A grid as TT-NN's op takes it is a pair."""
    return ttnn.CoreGrid(x=value[0], y=value[1]) if name == "core_grid" and isinstance(value, tuple) else value


def _known(configuration: Configuration, settings: Mapping[str, Any]) -> bool:
    names = {field.name for field in fields(configuration)} - set(configuration.tensors)  # type: ignore[arg-type]
    return set(settings) <= names
