# SPDX-License-Identifier: Apache-2.0
"""What a file says of a model: calls of torch's ops in order, each in the module call that it was made in.

It is stored as JSON beside the weights, so that a folder needs neither the file nor the package that reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

FORMAT = 1
UNNAMED = "Model"
"""The class of a model that the file has no name for."""
MOST_NESTED = 64
_OF_MODULES = frozenset([*dir(nn.Sequential()), *dir(nn.ModuleList())])
"""Names that modules have a meaning for."""


class Unreadable(ValueError):
    """The file is not what its name says, or holds what is not read."""


class Ref(NamedTuple):
    """A value by its name."""

    name: str


class Held(NamedTuple):
    """A parameter, buffer or constant by its path in the model."""

    path: str


@dataclass(frozen=True)
class Call:
    """The call of a module: calls of one path with other numbers are calls of the same module."""

    path: str
    kind: str
    """Name of the class with its module."""
    number: int = 0


@dataclass(frozen=True)
class Step:
    """One op."""

    target: str
    """`aten.conv2d.default`, or a function of `operator` on sizes: `operator.mul`."""
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    results: tuple[str, ...]
    scope: tuple[Call, ...]
    """The module calls that it is in, the outermost first; the model's own is left out."""


@dataclass
class ImportedGraph:
    """A model as its file has it."""

    kind: str
    """Name of the model's class."""
    inputs: dict[str, tuple[int | None, ...]]
    """Shapes by names; a size that the file leaves open is None."""
    outputs: tuple[str, ...]
    """Names of values."""
    keys: tuple[str, ...]
    """Where the model returns a dictionary."""
    steps: list[Step]
    held: dict[str, torch.Tensor] = field(default_factory=dict)
    """By path. The same tensor under two paths is one parameter."""
    buffers: frozenset[str] = frozenset()
    """Of what is held, that which is no parameter."""

    def to_json(self) -> str:
        """All but the values of what is held, whose shapes are given."""
        paths: dict[int, str] = {}
        held = {}
        for path, tensor in self.held.items():
            held[path] = {"shape": list(tensor.shape), "dtype": _name(tensor.dtype), "buffer": path in self.buffers}
            if paths.setdefault(id(tensor), path) != path:
                held[path]["same_as"] = paths[id(tensor)]
        data = {
            "format": FORMAT,
            "kind": self.kind,
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "outputs": self.outputs,
            "keys": self.keys,
            "held": held,
            "steps": [_step_data(step) for step in self.steps],
        }
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ImportedGraph:
        data = json.loads(text)
        if data.get("format") != FORMAT:
            raise ValueError(f"the graph has format {data.get('format')}; this version reads {FORMAT}")
        held: dict[str, torch.Tensor] = {}
        for path, each in data["held"].items():
            same = each.get("same_as")
            held[path] = held[same] if same else torch.empty(each["shape"], dtype=getattr(torch, each["dtype"]))
        return cls(
            kind=data["kind"],
            inputs={name: tuple(shape) for name, shape in data["inputs"].items()},
            outputs=tuple(data["outputs"]),
            keys=tuple(data["keys"]),
            steps=[_step(each) for each in data["steps"]],
            held=held,
            buffers=frozenset(path for path, each in data["held"].items() if each["buffer"]),
        )


def check_names(graph: ImportedGraph, file: str) -> None:
    """Whether each value is made before it is read."""
    known: set[Any] = set(graph.inputs)
    for step in graph.steps:
        for name in refs([*step.arguments, *step.keywords.values()]):
            if name not in known:
                raise Unreadable(f"{file}: {step.target} reads {name!r}, which nothing gives before it")
        known |= set(step.results)
    missing = [name for name in graph.outputs if name not in known]
    if missing:
        raise Unreadable(f"{file}: the output {missing[0]!r} is not computed")


def refs(value: Any) -> Iterator[str]:
    """Names of the values in an argument."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, (list, tuple)) and not isinstance(value, Held):
        for each in value:
            yield from refs(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from refs(each)


def plain_path(path: str) -> str:
    """A path whose parts can stand in generated code: letters, digits, underscores."""
    parts = [re.sub(r"[^0-9A-Za-z_]", "_", part) or "_" for part in path.split(".")] if path else []
    if len(parts) > MOST_NESTED:
        raise Unreadable(f"a module is in {len(parts)} others; {MOST_NESTED} are read")
    return ".".join(f"{part}_" if part in _OF_MODULES else part for part in parts)


def plain_kind(kind: str) -> str:
    """The name of a class, with its module, of which generated code can be made."""
    parts = [re.sub(r"[^0-9A-Za-z_]", "_", part) for part in kind.split(".")]
    return ".".join(f"_{part}" if part[:1].isdigit() else part or "_" for part in parts)


# -- as data

_KINDS = {torch.dtype: "dtype", torch.memory_format: "memory_format", torch.layout: "layout"}


def _name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _data(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"value": value.name}
    if isinstance(value, Held):
        return {"held": value.path}
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, (list, tuple)):
        return [_data(each) for each in value]
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return {name: _name(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} cannot be an argument")


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return [_value(each) for each in data]
    if not isinstance(data, dict):
        return data
    ((kind, text),) = data.items()
    if kind == "value":
        return Ref(text)
    if kind == "held":
        return Held(text)
    if kind == "device":
        return torch.device(text)
    found = getattr(torch, text, None)
    if kind not in _KINDS.values() or type(found) not in _KINDS:
        raise ValueError(f"{data} is no argument")
    return found


def _step_data(step: Step) -> dict[str, Any]:
    return {
        "op": step.target,
        "arguments": _data(step.arguments),
        "keywords": {name: _data(value) for name, value in step.keywords.items()},
        "results": list(step.results),
        "scope": [[call.path, call.kind, call.number] for call in step.scope],
    }


def _step(data: Mapping[str, Any]) -> Step:
    return Step(
        target=data["op"],
        arguments=tuple(_value(data["arguments"])),
        keywords={name: _value(value) for name, value in data["keywords"].items()},
        results=tuple(data["results"]),
        scope=tuple(Call(path, kind, number) for path, kind, number in data["scope"]),
    )
