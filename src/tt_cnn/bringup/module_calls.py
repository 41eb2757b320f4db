# SPDX-License-Identifier: Apache-2.0
"""Calls of modules, and their names in the generated code: what is inside of a call is named after it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module: its path in the model, and the class."""

    path: str
    kind: str
    """Name of the class, without its module."""
    qualified: str
    """Name of the class with its module."""
    name: str = ""
    """Unique in the model: a module that is called again is named as another one, and what is inside of it with it
    (`head`, `head_2`, `head_2.conv`)."""


class CallNames:
    """Names of calls, each beginning with the name of the call that it is made in."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = {path for path, _ in model.named_modules(remove_duplicate=False)}
        self._known: dict[tuple[str, str, str], str] = {}

    def name(self, outer: ModuleCall, path: str, key: str) -> str:
        """Of the call that torch has under this key."""
        base = joined(outer.name, inner_path(path, outer.path))
        known = self._known.get((base, path, key))
        if known is not None:
            return known
        taken = {*self._known.values(), *(self._modules - {path})}
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        self._known[base, path, key] = name
        return name


def inner_path(path: str, outer: str) -> str:
    """The path of a module inside of another; its whole path where it is somewhere else in the model."""
    return path[len(outer) + 1 :] if outer and path.startswith(f"{outer}.") else path


def joined(*names: str) -> str:
    return ".".join(name for name in names if name)
