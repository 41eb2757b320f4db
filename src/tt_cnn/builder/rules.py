# SPDX-License-Identifier: Apache-2.0
"""Rules that a configuration's fields must keep, and the sentence for the first one that is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn

Holds = Callable[[Any], bool]


@dataclass(frozen=True)
class Rule:
    """One field and what it must be. Rules are checked in order, so a later one may trust the types of earlier ones."""

    field: str
    holds: Holds
    """Of the whole configuration: a rule may weigh fields against each other."""
    must_be: str | Callable[[Any], str]
    note: str | Callable[[Any], str] = ""
    """A sentence after the message, where there is more to say."""

    def sentence(self, configuration: Any) -> str:
        must_be, note = (
            part(configuration) if callable(part) else part
            for part in (self.must_be, self.note)  # either may depend on other fields
        )
        value = getattr(configuration, self.field)
        return f"{self.field} is {shown(value)}; it must be {must_be}." + (f" {note}" if note else "")


def check(configuration: Any, rules: Iterable[Rule]) -> None:
    """Raise for the first rule that does not hold."""
    for rule in rules:
        if not rule.holds(configuration):
            raise ValueError(rule.sentence(configuration))


def shown(value: Any) -> str:
    """A value as a message shows it: tensors by kind and shape, all else as Python writes it."""
    if isinstance(value, torch.Tensor):
        return f"a torch.Tensor of shape {tuple(value.shape)}"
    if isinstance(value, ttnn.Tensor):
        return f"a ttnn.Tensor of shape {tuple(value.shape)}"
    return repr(value)


def is_whole(value: Any, at_least: int) -> bool:
    """Booleans are integers to Python, but a batch size of True is a mistake."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def whole(field: str, at_least: int = 1) -> Rule:
    return Rule(field, lambda c: is_whole(getattr(c, field), at_least), f"a whole number, at least {at_least}")


def wholes(*fields: str) -> tuple[Rule, ...]:
    return tuple(whole(field) for field in fields)


def pair(field: str, at_least: int = 1) -> Rule:
    return Rule(
        field,
        lambda c: _are_whole(getattr(c, field), (2,), at_least),
        f"(height, width), whole numbers of at least {at_least}",
    )


def border(field: str) -> Rule:
    return Rule(
        field,
        lambda c: _are_whole(getattr(c, field), (2, 4), 0),
        "(height, width) or (top, bottom, left, right), whole numbers of at least 0",
    )


def _are_whole(values: Any, lengths: tuple[int, ...], at_least: int) -> bool:
    return isinstance(values, tuple) and len(values) in lengths and all(is_whole(v, at_least) for v in values)


def flags(*fields: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(field, lambda c, field=field: isinstance(getattr(c, field), bool), "True or False")  # type: ignore[misc]
        for field in fields
    )


def instance(field: str, *types: type | None) -> Rule:
    """The field holds one of the types; None among them allows None."""
    kinds = tuple(t for t in types if t is not None)
    names = " or ".join(
        ["None"] * (None in types) + [f"a ttnn.{t.__name__}" if _is_ttnn(t) else t.__name__ for t in kinds]
    )
    return Rule(
        field, lambda c: isinstance(getattr(c, field), kinds) or (None in types and getattr(c, field) is None), names
    )


def _is_ttnn(kind: type) -> bool:
    return getattr(ttnn, kind.__name__, None) is kind


def one_of(field: str, values: tuple[Any, ...], note: str = "") -> Rule:
    return Rule(field, lambda c: getattr(c, field) in values, " or ".join(repr(v) for v in values), note)
