# SPDX-License-Identifier: Apache-2.0
"""Dictionaries whose entries can also be reached as attributes (`ttnn.dot_access`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MissingEntry(KeyError, AttributeError):
    """There is no entry of this name. Both errors, since `p["x"]` and `p.x` are the same question."""

    def __str__(self) -> str:
        return str(self.args[0])


class DotAccessDict(dict):
    """A dictionary with `d.key` for `d["key"]`.

    As in TT-NN, `d.other = value` for a key that is not there makes an attribute and no entry: models hang their
    arguments on the tree of parameters (`parameters.conv_args = ...`) and go over the entries afterwards.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for methods that no dictionary has
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self:
            self[name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in vars(self):
            super().__delattr__(name)
        elif name in self:
            del self[name]
        else:
            raise self.__missing__(name)

    def __missing__(self, key: Any) -> MissingEntry:
        raise MissingEntry(f"no entry {key!r}; there are: {', '.join(str(each) for each in self) or 'none'}")


def make_dot_access_dict(
    dictionary: Mapping[Any, Any], *, ignore_types: type | tuple[type, ...] | None = None
) -> Mapping[Any, Any]:
    """`dictionary` and the dictionaries in it with attribute access; those of `ignore_types` are left as they are."""
    if isinstance(dictionary, DotAccessDict) or (ignore_types is not None and isinstance(dictionary, ignore_types)):
        return dictionary
    return DotAccessDict(
        {
            key: make_dot_access_dict(value, ignore_types=ignore_types) if isinstance(value, dict) else value
            for key, value in dictionary.items()
        }
    )
