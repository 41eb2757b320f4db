# SPDX-License-Identifier: Apache-2.0
"""Profiles as JSON files: `profile.json` in a profile's folder, with a schema version, checked when read."""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tt_cnn.reports.findings import find
from tt_cnn.reports.records import IN_MEMORY, Profile
from tt_cnn.virtual.arch import card_by_name

SCHEMA = 1
FILE = "profile.json"
PROFILE_KIND = "tt-cnn profile"


def save_profile(profile: Profile, path: Path) -> Path:
    """With its findings: what is read back has no calls that could be planned again."""
    complete = replace(profile, findings=tuple(find(profile)))
    data = {"kind": PROFILE_KIND, "schema": SCHEMA, "profile": complete}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=as_plain)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def as_plain(record: Any) -> dict[str, Any]:
    """One level of a record; `asdict` would copy all of it first."""
    kind: Any = type(record)
    return {name: getattr(record, name) for name in _written(kind)}


@cache
def _written(kind: Any) -> dict[str, Field[Any]]:
    """The fields that a file has."""
    return {one.name: one for one in fields(kind) if one.metadata != IN_MEMORY}


def load_profile(where: Path) -> Profile:
    """From a profile's folder, or from its profile.json. A file of another kind or version is a ValueError."""
    path = where / FILE if where.is_dir() else where
    if not path.is_file():
        raise ValueError(f"{where} is not a profile: there is no {path}; `tt-cnn profile MODEL -o DIR` makes one")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a profile: it is not JSON ({error})") from error
    if not isinstance(data, dict) or data.get("kind") != PROFILE_KIND:
        raise ValueError(f"{path} is not a profile: its kind is not {PROFILE_KIND!r}")
    if data.get("schema") != SCHEMA:
        raise ValueError(
            f"{path} has schema {data.get('schema')!r}; this version of tt-cnn reads {SCHEMA}. Make the profile again."
        )
    try:
        profile = _read(Profile, data.get("profile"), "profile")
        _check(profile)
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error
    return profile


def _check(profile: Profile) -> None:
    """What reports rely on when they look something up."""
    card_by_name(profile.card)
    buffers = len(profile.buffers)
    for place, row in enumerate(profile.rows):
        if row.index != place:
            raise ValueError(f"profile.rows[{place}].index is {row.index}; it must be {place}")
        if any(not 0 <= tensor.buffer < buffers for tensor in (*row.inputs, *row.outputs)):
            raise ValueError(f"profile.rows[{place}] has a tensor in a buffer that is not there")
    for place, span in enumerate(profile.timeline):
        if span.row is not None and not 0 <= span.row < len(profile.rows):
            raise ValueError(f"profile.timeline[{place}].row is {span.row}; there are {len(profile.rows)} rows")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of the annotated type from JSON, or a ValueError that says where it is wrong."""
    if is_dataclass(kind):
        return read_record(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _read(next(one for one in inner if one is not type(None)), value, where)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{where} is {value!r}; it must be one of {', '.join(map(repr, inner))}")
        return value
    if origin is tuple:
        return _read_tuple(inner, value, where)
    if origin is dict:
        return _read_settings(inner[1], value, where)
    if kind is Any:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} is {value!r}; it must be of type {kind.__name__}")
    return value


def read_record(kind: Any, value: Any, where: str) -> Any:
    """A record from its JSON form, or a ValueError that says where it is wrong."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {type(value).__name__}; it must be an object")
    known = _written(kind)
    strange = sorted(value.keys() - known.keys())
    missing = [
        n for n, one in known.items() if n not in value and one.default is MISSING and one.default_factory is MISSING
    ]
    if strange or missing:
        raise ValueError(f"{where} " + "; ".join([f"has no {n}" for n in missing] + [f"has {n}" for n in strange]))
    hints = _hints(kind)
    return kind(**{name: _read(hints[name], one, f"{where}.{name}") for name, one in value.items()})


def _read_settings(inner: Any, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {type(value).__name__}; it must be an object")
    return {name: _read(inner, one, f"{where}.{name}") for name, one in value.items()}


def _read_tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is {type(value).__name__}; it must be a list")
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_read(inner[0], one, f"{where}[{i}]") for i, one in enumerate(value))
    if len(value) != len(inner):
        raise ValueError(f"{where} has {len(value)} entries; it must have {len(inner)}")
    return tuple(_read(kind, one, f"{where}[{i}]") for i, (kind, one) in enumerate(zip(inner, value, strict=True)))
