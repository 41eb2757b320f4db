# SPDX-License-Identifier: Apache-2.0
"""Settings that replace those of the layers' configurations, by the layers' names.

A model keeps its code: whoever builds it inside `overriding(settings)` gets layers with these settings. A stored result
of the optimiser is used this way, and so is every candidate of its search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from tt_cnn.builder.codec import encode
from tt_cnn.builder.configuration import Configuration, rebuilt

LayerSettings = Mapping[str, Any]
"""Fields of a layer's configuration and their values."""


class Assignment(Mapping[str, LayerSettings]):
    """Settings by the names of layers. Immutable; equal when their JSON forms are."""

    def __init__(self, layers: Mapping[str, LayerSettings] | None = None) -> None:
        self._layers = {name: dict(settings) for name, settings in (layers or {}).items() if settings}
        self._key = json.dumps(self.to_dict(), sort_keys=True)

    def __getitem__(self, name: str) -> LayerSettings:
        return self._layers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assignment) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Assignment({self._layers!r})"

    def but(self, name: str, **settings: Any) -> Assignment:
        """The same with some settings of one layer changed."""
        return self.with_all({name: settings})

    def with_all(self, layers: Mapping[str, LayerSettings]) -> Assignment:
        """The same with the settings of several layers changed."""
        return Assignment({**self._layers, **{name: {**self._layers.get(name, {}), **layers[name]} for name in layers}})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`, layers in the order in which they were given."""
        return {name: {key: encode(value) for key, value in own.items()} for name, own in self._layers.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, Any]]) -> Assignment:
        """What `to_dict` wrote."""
        if not isinstance(data, Mapping) or not all(isinstance(own, Mapping) for own in data.values()):
            raise ValueError("the settings of layers must be an object that has an object for each layer")
        return cls({name: {key: rebuilt(value) for key, value in own.items()} for name, own in data.items()})


def read_settings(path: Path | str, **wanted: Any) -> Assignment:
    """The settings in a file: an object of layers, alone or as `layers` of an object.

    `wanted` is what they are to be used for (`model`, `batch_size`, ...). A file that says in `made_for` that it was
    made for something else is refused.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no JSON file: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path} must hold an object of layers and their settings")
    made_for = data.get("made_for", {}) if "layers" in data else {}
    if not isinstance(made_for, dict):
        raise ValueError(f"made_for of {path} must be an object")
    for name, value in wanted.items():
        plain = encode(value)
        if made_for.get(name, plain) != plain:
            raise ValueError(f"{path} was made for {name} {made_for[name]}, and {name} is {plain} here")
    return Assignment.from_dict(data.get("layers", data))


@dataclass
class Overriding:
    """One building of a model: the settings, and the layers that were made meanwhile."""

    settings: Mapping[str, LayerSettings]
    layers: list[Any] = field(default_factory=list)
    """In the order in which they were made."""

    @property
    def unused(self) -> list[str]:
        """Names in the settings that no layer had."""
        made = {layer.name for layer in self.layers}
        return [name for name in self.settings if name not in made]


_CURRENT: ContextVar[Overriding | None] = ContextVar("overriding", default=None)


@contextmanager
def overriding(settings: Mapping[str, LayerSettings] | None = None) -> Iterator[Overriding]:
    """Layers that are made inside have these settings in place of their configurations' own."""
    current = Overriding(settings or {})
    token = _CURRENT.set(current)
    try:
        yield current
    finally:
        _CURRENT.reset(token)


def note_layer(layer: Any) -> None:
    """Tell the building that is under way, if any, of a layer."""
    current = _CURRENT.get()
    if current is not None:
        current.layers.append(layer)


def overridden(configuration: Any, name: str) -> Any:
    """The configuration with the settings that were given for the layer of this name."""
    current = _CURRENT.get()
    settings = current.settings.get(name) if current is not None and name else None
    return with_settings(configuration, settings, name) if settings else configuration


def with_settings(configuration: Any, settings: LayerSettings, name: str = "") -> Any:
    """The configuration with some fields changed; it validates itself again."""
    if not isinstance(configuration, Configuration) or not is_dataclass(configuration):
        raise ValueError(f"configuration is {type(configuration).__name__}; it must be a layer's configuration.")
    known = {f.name for f in fields(configuration)} - set(configuration.tensors)
    unknown = sorted(set(settings) - known)
    if unknown:
        where = f" of layer {name!r}" if name else ""
        raise ValueError(
            f"{type(configuration).__name__}{where} has no setting {unknown[0]!r}; "
            f"it may have {', '.join(sorted(known))}."
        )
    return replace(configuration, **settings)
