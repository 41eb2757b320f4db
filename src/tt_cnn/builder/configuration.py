# SPDX-License-Identifier: Apache-2.0
"""What all configurations share: they validate themselves, and they go to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, TypeVar

from tt_cnn.builder.codec import decode, encode
from tt_cnn.builder.rules import Rule, check

Self = TypeVar("Self", bound="Configuration")

KIND = "kind"
HAS_BIAS = "has_bias"
_KINDS: dict[str, type[Configuration]] = {}


class Configuration:
    """Base of the frozen dataclasses that describe a layer, a sharding or a slicing.

    Two configurations are equal when all their settings are, and their tensors are the same objects: comparing
    values would read them back from a card.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()
    pairs: ClassVar[tuple[str, ...]] = ()
    """Fields where one number stands for height and width, and a list for a tuple."""
    tensors: ClassVar[tuple[str, ...]] = ()
    """Fields that hold tensors: they are not part of the JSON form."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        for name in self.pairs:
            object.__setattr__(self, name, as_tuple(getattr(self, name)))
        check(self, self.rules)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tensors, as plain data for `json.dumps`."""
        settings = {f.name: encode(getattr(self, f.name)) for f in fields(self) if f.name not in self.tensors}  # type: ignore[arg-type]
        has_bias = {HAS_BIAS: getattr(self, "bias", None) is not None} if "bias" in self.tensors else {}
        return {KIND: type(self).__name__, **settings, **has_bias}

    @classmethod
    def from_dict(cls: type[Self], data: Mapping[str, Any], **tensors: Any) -> Self:
        """The configuration that `to_dict` described; `weight` and `bias` are given beside it.

        Those of a configuration inside are given as a mapping under its name.
        """
        settings = dict(data)
        kind = settings.pop(KIND, cls.__name__)
        if kind != cls.__name__:
            raise ValueError(f"{KIND} is {kind!r}; it must be {cls.__name__!r}.")
        known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
        has_bias = settings.pop(HAS_BIAS, None) if "bias" in cls.tensors else None
        if has_bias is not None and has_bias != (tensors.get("bias") is not None):
            wanted = "the layer's bias" if has_bias else "None: the stored layer has no bias"
            raise ValueError(f"bias is {tensors.get('bias')!r}; it must be {wanted}.")
        unknown = sorted((set(settings) - set(known)) | (set(settings) & set(cls.tensors)))
        if unknown:
            raise ValueError(f"{cls.__name__} has no setting {unknown[0]!r}; it may have {', '.join(sorted(known))}.")
        required = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
        missing = sorted(required - set(settings) - set(tensors))
        if missing:
            raise ValueError(f"{missing[0]} is missing; {cls.__name__} must be given {', '.join(sorted(required))}.")
        inside = {name: tensors.pop(name) for name in list(tensors) if name in settings}
        return cls(**{name: rebuilt(value, **inside.get(name, {})) for name, value in settings.items()}, **tensors)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        same_tensors = all(getattr(self, n) is getattr(other, n) for n in self.tensors)
        return same_tensors and self._inside() == other._inside() and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def _inside(self) -> list[Configuration]:
        """Configurations that are fields of this one: they may have tensors of their own."""
        values = [getattr(self, f.name) for f in fields(self)]  # type: ignore[arg-type]
        return [value for value in values if isinstance(value, Configuration)]


def configuration_from_dict(data: Mapping[str, Any], **tensors: Any) -> Any:
    """A configuration of the kind that the data names."""
    kind = data.get(KIND)
    if kind not in _KINDS:
        raise ValueError(f"{KIND} is {kind!r}; it must be one of {', '.join(sorted(_KINDS))}.")
    return _KINDS[kind].from_dict(data, **tensors)


def rebuilt(value: Any, **tensors: Any) -> Any:
    """A nested configuration names its kind; all else is for the codec."""
    return configuration_from_dict(value, **tensors) if isinstance(value, dict) and KIND in value else decode(value)


def as_tuple(value: Any) -> Any:
    """One number for both directions; anything else is left for the rules to judge."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, value)
    return tuple(value) if isinstance(value, (list, tuple, range)) else value
