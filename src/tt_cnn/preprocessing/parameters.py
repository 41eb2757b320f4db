# SPDX-License-Identifier: Apache-2.0
"""The tree of converted parameters: `p["encoder1"][0]["weight"]` and `p.encoder1[0].weight` are the same tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.preprocessing.dot_access import DotAccessDict
from tt_cnn.preprocessing.module_args import ModuleArgs


class ParameterDict(DotAccessDict):
    """Parameters of a module by name; children with a number for a name have the number as their key."""

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


class ParameterList(list):
    """Parameters of the members of a `ModuleList`."""

    def __contains__(self, index: object) -> bool:
        """Whether there is a member of this number, so that `i in parameters` asks the same of a list and of a dict."""
        return isinstance(index, int) and 0 <= index < len(self)

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


def make_parameter_dict(dictionary: Mapping[Any, Any]) -> ParameterDict:
    """A dictionary and those in it as `ParameterDict`; arguments of modules stay what they are."""
    if isinstance(dictionary, ParameterDict):
        return dictionary
    return ParameterDict(
        {
            key: make_parameter_dict(value) if isinstance(value, dict) and not isinstance(value, ModuleArgs) else value
            for key, value in dictionary.items()
        }
    )


def _lines(value: Any) -> Iterator[str]:
    """The text of a tree: tensors by shape, layout and dtype instead of their numbers."""
    if isinstance(value, (ParameterDict, ModuleArgs)):
        yield from _block("{", ((f"{key}: ", child) for key, child in value.items()), "}")
    elif isinstance(value, ParameterList):
        yield from _block("[", (("", child) for child in value), "]")
    elif isinstance(value, ttnn.Tensor):
        yield f"ttnn.Tensor(shape={value.shape}, layout={value.layout}, dtype={value.dtype})"
    elif isinstance(value, torch.Tensor):
        yield f"torch.Tensor(shape={tuple(value.shape)}, dtype={value.dtype})"
    else:
        yield repr(value)


def _block(opening: str, children: Iterator[tuple[str, Any]], closing: str) -> Iterator[str]:
    blocks = [(label, list(_lines(child))) for label, child in children]
    if not blocks:
        yield opening + closing
        return
    yield opening
    for index, (label, lines) in enumerate(blocks):
        comma = "," if index < len(blocks) - 1 else ""
        first, *rest = [label + lines[0], *lines[1:]]
        *body, last = [first, *rest]
        yield from (f"  {line}" for line in body)
        yield f"  {last}{comma}"
    yield closing
