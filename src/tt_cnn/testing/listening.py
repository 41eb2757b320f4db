# SPDX-License-Identifier: Apache-2.0
"""The outputs of a TT model's layers while it runs.

A layer is found by its path (`encoder1.0` is `model.encoder1[0]`), or else by its own `name`, wherever it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence
from contextlib import contextmanager
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.testing.pcc import as_torch

Outputs = dict[str, torch.Tensor]
Undo = Callable[[], None]

_NOT_SEARCHED = ("torch", "numpy", "ttnn", "tt_cnn.virtual")
"""Packages whose objects hold no layers of a model: tensors, devices. A torch module is the reference."""


@contextmanager
def listening(model: Any, wanted: list[str], outputs: Outputs) -> Iterator[None]:
    """What layers of the wanted names give is noted in `outputs`, the last call's where there are several."""
    undo: list[Undo] = []
    found: set[str] = set()
    try:
        for name in sorted(wanted, key=lambda each: -each.count(".")):  # the innermost first
            one = _listened_in_place(model, name, outputs)
            if one is not None:
                undo.append(one)
                found.add(name)
        for layer in _named(model, set(wanted) - found):
            undo.append(_listened_itself(layer, layer.name, outputs))
        yield
    finally:
        for each in reversed(undo):
            each()


def layers_of(model: Any, wanted: list[str]) -> dict[str, Any]:
    """The layers that `listening` would listen to, by name."""
    by_path = {name: _at(model, name) for name in wanted}
    found = {name: layer for name, layer in by_path.items() if callable(layer)}
    return {**{layer.name: layer for layer in _named(model, set(wanted) - set(found))}, **found}


def _at(model: Any, name: str) -> Any:
    for part in name.split("."):
        model = _member(model, part)
    return model


class _Listener:
    """Stands in for a layer: the same in all, but its output is noted at once, since it may be deallocated later."""

    def __init__(self, layer: Any, name: str, outputs: Outputs) -> None:
        self._layer = layer
        self._name = name
        self._outputs = outputs

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _noted(self._layer(*arguments, **named), self._name, self._outputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def _noted(result: Any, name: str, outputs: Outputs) -> Any:
    output = result[0] if isinstance(result, (tuple, list)) and result else result
    if isinstance(output, (ttnn.Tensor, torch.Tensor)):
        outputs[name] = as_torch(output).float().clone()
    return result


# --- by path --------------------------------------------------------------------------------------------------------


def _listened_in_place(model: Any, name: str, outputs: Outputs) -> Undo | None:
    """A listener where the layer is: a layer that is in several places is listened to in this one."""
    *path, key = name.split(".")
    parent = model
    for part in path:
        parent = _member(parent, part)
    layer = None if parent is None else _member(parent, key)
    if not callable(layer):
        return None
    if isinstance(parent, tuple):
        return _listened_itself(layer, name, outputs) if _can_change(layer) else None
    _put(parent, key, _Listener(layer, name, outputs))
    return lambda: _put(parent, key, layer)


def _member(parent: Any, key: str) -> Any:
    if isinstance(parent, Mapping):
        return parent.get(key, parent.get(int(key)) if key.isdigit() else None)
    if isinstance(parent, (list, tuple)):
        return parent[int(key)] if key.isdigit() and int(key) < len(parent) else None
    return getattr(parent, key, None)


def _put(parent: Any, key: str, value: Any) -> None:
    if isinstance(parent, MutableMapping):
        parent[key if key in parent else int(key)] = value
    elif isinstance(parent, MutableSequence):
        parent[int(key)] = value
    else:
        setattr(parent, key, value)


# --- by name --------------------------------------------------------------------------------------------------------


def _named(model: Any, wanted: set[str]) -> Iterator[Any]:
    """The callables with one of these names that attributes, lists, tuples and dictionaries lead to, each once."""
    seen: set[int] = set()
    left = [model]
    while left and wanted:
        one = left.pop()
        if id(one) in seen or isinstance(one, (str, bytes, type)):
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            left.extend(one.values())
        elif isinstance(one, (list, tuple, set, frozenset)):
            left.extend(one)
        elif _is_searched(one):
            own = _attributes(one)
            name = own.get("name")
            if one is not model and isinstance(name, str) and name in wanted and _can_change(one):
                yield one
            left.extend(own.values())


def _attributes(one: Any) -> Mapping[str, Any]:
    return vars(one) if hasattr(one, "__dict__") else {}


def _is_searched(one: Any) -> bool:
    module = f"{type(one).__module__}."
    known = any(module.startswith(f"{package}.") for package in _NOT_SEARCHED)
    return not known and not isinstance(one, torch.nn.Module)


def _can_change(layer: Any) -> bool:
    """Whether it is an object with a `__call__` of its own class, not a function."""
    return callable(layer) and bool(type(layer).__flags__ & _HEAP_TYPE) and hasattr(layer, "__dict__")


_HEAP_TYPE = 1 << 9
"""Python's flag of classes that are defined in Python."""


def _listened_itself(layer: Any, name: str, outputs: Outputs) -> Undo:
    """The layer itself, wherever it is kept: its class has another `__call__` for a while."""
    own = type(layer)

    def called(self: Any, *arguments: Any, **named: Any) -> Any:
        return _noted(own.__call__(self, *arguments, **named), name, outputs)

    layer.__class__ = type(own.__name__, (own,), {"__call__": called, "__module__": own.__module__})

    def undo() -> None:
        layer.__class__ = own

    return undo
