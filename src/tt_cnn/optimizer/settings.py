# SPDX-License-Identifier: Apache-2.0
"""Readings of settings: all that are in force, those that differ from the model's own, those that change values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tt_cnn.builder.codec import encode
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import Assignment, LayerSettings, with_settings
from tt_cnn.optimizer.accuracy import PRECISION_SETTINGS

_SHAPE = frozenset(
    {
        *("input_height", "input_width", "in_channels", "out_channels", "channels", "batch_size"),
        *("in_features", "out_features", "kernel_size", "stride", "padding", "groups", "dilation", "activation"),
        *("padding_mode", "output_padding", "mirror_kernel", "ceil_mode", "count_include_pad", "divisor_override"),
        *("scale_factor", "mode", "upscale_factor", "downscale_factor"),
        *("heads", "head_dim", "scale", "epsilon", "num_parameters"),
    }
)
"""What the model says, and no search: which op it is."""
_OWNERSHIP = frozenset({"in_place", "deallocate_input", "deallocate_other"})
"""Who may take a tensor's place or give it back: another model's word says nothing about it."""


def settings_of(configuration: Configuration) -> dict[str, Any]:
    """All fields but the tensors, and but configurations that have some: their layers have settings of their own."""
    names = [f.name for f in fields(configuration) if f.name not in configuration.tensors]  # type: ignore[arg-type]
    found = {name: getattr(configuration, name) for name in names}
    return {name: value for name, value in found.items() if not (isinstance(value, Configuration) and value.tensors)}


def settings_in_force(configurations: Mapping[str, Configuration], assignment: Assignment) -> Assignment:
    """Every setting of every layer under an assignment."""
    return Assignment(
        {name: settings_of(with_settings(own, assignment.get(name, {}), name)) for name, own in configurations.items()}
    )


def changed_settings(
    configurations: Mapping[str, Configuration], assignment: Mapping[str, LayerSettings]
) -> Assignment:
    """Those of an assignment that differ from the model's own. Layers that the model has not are refused."""
    unknown = [name for name in assignment if name not in configurations]
    if unknown:
        raise ValueError(f"there are settings of {unknown[0]!r}; the model has no such layer")
    changed: dict[str, LayerSettings] = {}
    for name, given in assignment.items():
        own = settings_of(configurations[name])
        with_settings(configurations[name], given, name)  # refuses settings that there are not
        changed[name] = {key: value for key, value in given.items() if encode(value) != encode(own[key])}
    return Assignment(changed)


def tunable(settings: LayerSettings) -> dict[str, Any]:
    """Without what makes the layer the op that it is, and the model's own."""
    return {key: value for key, value in settings.items() if key not in _SHAPE | _OWNERSHIP}


def signature(configuration: Configuration) -> dict[str, Any]:
    """Which op on which shapes: layers with equal ones have the same ways to be configured. Plain data."""
    own = configuration.to_dict()
    return {key: value for key, value in own.items() if key in _SHAPE or key in ("kind", "has_bias")}


def is_lossless(changes: Mapping[str, LayerSettings], in_force: Mapping[str, LayerSettings]) -> bool:
    """Whether all values stay as they are under the settings in force."""
    return not any(
        key in PRECISION_SETTINGS and encode(value) != encode(in_force.get(name, {}).get(key))
        for name, settings in changes.items()
        for key, value in settings.items()
    )
