# SPDX-License-Identifier: Apache-2.0
"""Settings as a person would say them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import LayerSettings


def described(settings: LayerSettings) -> str:
    """`act_block_h_override=64, height sharded; enable_act_double_buffer=True`."""
    return "; ".join(_setting(name, value) for name, value in settings.items())


def _setting(name: str, value: Any) -> str:
    if isinstance(value, Configuration):
        return _kind(value)
    return f"{name}={_value(value)}"


def _kind(value: Configuration) -> str:
    """A strategy by its name, with what it says beyond its defaults."""
    words = type(value).__name__.removesuffix("StrategyConfiguration")
    own = [f for f in fields(value) if getattr(value, f.name) != f.default]  # type: ignore[arg-type]
    options = ", ".join(f"{f.name}={_value(getattr(value, f.name))}" for f in own)
    return f"{words}({options})" if options else words


def _value(value: Any) -> str:
    """Enumerations by their members, core ranges and memory configs by what tells them apart."""
    if isinstance(value, ttnn.CoreGrid):
        return f"{value.x}x{value.y} cores"
    if hasattr(value, "num_cores"):
        return f"{value.num_cores()} cores"
    if hasattr(value, "memory_layout") and hasattr(value, "buffer_type"):
        shard = getattr(value, "shard_spec", None)
        on = f" on {shard.grid.num_cores()} cores" if shard is not None else ""
        return f"{value.buffer_type.name} {value.memory_layout.name.lower()}{on}"
    return str(getattr(value, "name", value))
