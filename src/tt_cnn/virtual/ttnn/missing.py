# SPDX-License-Identifier: Apache-2.0
"""Names that TT-NN 0.81.1 has and the virtual card does not have yet: said clearly, not guessed at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from typing import Any

from tt_cnn.virtual.ops import OPERATIONS

VERSION = "0.81.1"
"""The TT-NN that is imitated."""


class MissingName(NotImplementedError, AttributeError):
    """TT-NN has this name, the virtual card does not yet. An AttributeError too, so that `hasattr` says False."""


class MissingModule(ModuleNotFoundError, NotImplementedError):
    """TT-NN has this submodule, the virtual card does not yet."""


@cache
def real_names() -> dict[str, str]:
    """Every public name of the real library with its kind: op, type, function, value or module."""
    text = resources.files(__package__).joinpath("names.txt").read_text()
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: kind for kind, name in pairs}


def unknown(name: str) -> AttributeError:
    """The error for a name that was looked up in vain; `name` is dotted, without `ttnn.`"""
    kind = real_names().get(name)
    if kind is None:
        where, _, last = f"ttnn.{name}".rpartition(".")
        return AttributeError(f"module {where!r} has no attribute {last!r}")
    return MissingName(
        f"ttnn.{name} is a{'n' if kind == 'op' else ''} {kind} of TT-NN {VERSION} that the virtual card does not have "
        "yet (tt-cnn ops lists what it has)"
    )


def resolver(prefix: str, *sources: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: ops registered under `prefix`, then names of the modules `sources`, then the error.

    Sources are looked into when a name is asked for, so a module may come later than its namespace.
    """

    def resolve(name: str) -> Any:
        if f"{prefix}{name}" in OPERATIONS:
            return OPERATIONS[f"{prefix}{name}"]
        if not name.startswith("_"):
            for source in sources:
                if find_spec(source) is not None and hasattr(import_module(source), name):
                    return getattr(import_module(source), name)
        raise unknown(f"{prefix}{name}")

    return resolve
