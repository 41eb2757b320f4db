# SPDX-License-Identifier: Apache-2.0
"""Every program has a time, and is a value: frozen, typed, hashable. One without a time cannot be written."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Hashable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import pytest
from mypy import api

from tt_cnn.virtual import ops
from tt_cnn.virtual.planning.program import Program
from tt_cnn.virtual.types.geometry import CoreRangeSet

ops.load_all()

SNIPPET = """
from dataclasses import dataclass
from tt_cnn.virtual.planning.program import Program
from tt_cnn.virtual.types.geometry import CoreRangeSet

@dataclass(frozen=True, kw_only=True)
class Timeless(Program):
    rows: int

Timeless(op="Timeless", factory="Factory", cores=CoreRangeSet(), rows=1)
"""


def below(kind: type[Program]) -> Iterator[type[Program]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


PROGRAMS = sorted(
    {one for one in below(Program) if one.__module__.startswith("tt_cnn.")},
    key=lambda one: one.__qualname__,
)


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__qualname__)
def test_a_program_is_a_value_with_a_time(kind: type[Program]) -> None:
    assert "__dataclass_fields__" in vars(kind), "a dataclass of its own"
    assert kind.__dataclass_params__.frozen and kind.__dataclass_params__.eq  # type: ignore[attr-defined]
    assert kind.__subclasses__() or not inspect.isabstract(kind), "only a base of others may leave its time to them"
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        assert field.kw_only and hints[field.name] is not Any, field.name
        if field.compare:
            assert is_value(hints[field.name]), f"{field.name}: {field.type} cannot be hashed"
        if field.default is not MISSING:
            hash(field.default)


def is_value(hint: Any) -> bool:
    """Whether values of a type can be hashed, all the way down."""
    if hint in (None, Ellipsis, type(None)):
        return True
    parts = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType, tuple, frozenset):
        return all(is_value(part) for part in parts)
    if typing.get_origin(hint) is typing.Literal:
        return True
    if hint is Any:
        return False
    if is_dataclass(hint):
        inner = typing.get_type_hints(hint)
        return bool(hint.__hash__) and all(is_value(inner[one.name]) for one in fields(hint) if one.compare)
    return isinstance(hint, type) and (issubclass(hint, Enum) or issubclass(hint, Hashable))


def test_one_without_a_time_cannot_be_made() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Timeless(Program):
        rows: int

    with pytest.raises(TypeError, match="abstract"):
        Timeless(op="Timeless", factory="Factory", cores=CoreRangeSet(), rows=1)  # type: ignore[abstract]


@pytest.mark.long
def test_the_type_checker_refuses_one_without_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", "src")
    told, _, status = api.run(["--follow-imports=silent", "--config-file=", "-c", SNIPPET])
    assert status == 1
    assert 'Cannot instantiate abstract class "Timeless" with abstract attribute "time"' in told
