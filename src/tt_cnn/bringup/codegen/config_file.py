# SPDX-License-Identifier: Apache-2.0
"""`tt/config.py`: the table of settings by layer."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

from tt_cnn import ttnn
from tt_cnn.bringup.lowering.program import Code, Program
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.optimizer.python_form import python_module

_NAMES = {
    "ttnn.L1_MEMORY_CONFIG": ttnn.L1_MEMORY_CONFIG,
    "ttnn.TILE_LAYOUT": ttnn.TILE_LAYOUT,
    "ttnn.float32": ttnn.float32,
}


def settings_of(program: Program, optional: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """What the lowering decided, by layer; layers that the code asks for are there even where nothing was."""
    return {
        layer.name: {key: _value(value) for key, value in layer.settings.items()}
        for layer in program.layers()
        if layer.settings or layer.name in optional
    }


def _value(value: Any) -> Any:
    return _NAMES[value.text] if isinstance(value, Code) else value


def with_changes(table: Mapping[str, LayerSettings], changes: Mapping[str, LayerSettings]) -> dict[str, dict[str, Any]]:
    """The table with settings of some layers changed."""
    merged = {name: dict(own) for name, own in table.items()}
    for name, own in changes.items():
        merged.setdefault(name, {}).update(own)
    return merged


def config_code(table: Mapping[str, LayerSettings], title: str) -> str:
    return python_module(table, title, {})


def layers_named(code: str) -> frozenset[str]:
    """The layers that a `tt/config.py` has settings of; it is read and not run."""
    for node in ast.parse(code).body:
        named = isinstance(node, ast.Assign) and [getattr(each, "id", "") for each in node.targets] == ["LAYERS"]
        if named and isinstance(node.value, ast.Dict):  # type: ignore[attr-defined]
            keys = node.value.keys  # type: ignore[attr-defined]
            return frozenset(str(key.value) for key in keys if isinstance(key, ast.Constant))
    return frozenset()
