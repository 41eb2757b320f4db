# SPDX-License-Identifier: Apache-2.0
"""Which modules a torch model calls, and what with: a tree of calls (`ttnn.torch_tracer`, as far as arguments need it).

Modules are named as TT-NN's tracer names them. The first call of a module that has no name yet gives it the empty one,
and all modules in it their path from there; names stay for as long as the modules do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

Shape = tuple[int, ...]

_names: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
_tracing = threading.Lock()
"""Held while calls are traced: the way modules are called is changed for the whole process."""


@dataclass
class ModuleCall:
    """One call of a module and the calls inside it, in order."""

    module: nn.Module
    path: str
    """The module's name from the one that was called first, as `named_modules` writes it."""
    shape: Shape
    """Of the first tensor among the arguments; empty where there is none."""
    calls: list[ModuleCall] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The module's own name in the one that holds it."""
        return self.path.rpartition(".")[2]

    def __iter__(self) -> Iterator[ModuleCall]:
        """This call and all inside it."""
        yield self
        for call in self.calls:
            yield from call


@contextmanager
def trace() -> Iterator[list[ModuleCall]]:
    """Note each call of a module while the block runs; the list has those that no other module made."""
    if not _tracing.acquire(blocking=False):
        raise RuntimeError("Cannot nest trace calls")
    outermost: list[ModuleCall] = []
    inside = [outermost]
    thread = threading.get_ident()
    call_module: Callable[..., Any] = nn.Module.__call__

    def traced(module: nn.Module, *arguments: Any, **named: Any) -> Any:
        if threading.get_ident() != thread:
            return call_module(module, *arguments, **named)
        if module not in _names:
            _give_names(module, "")
        first = next(_tensors((arguments, named)), None)
        call = ModuleCall(module, _names[module], () if first is None else tuple(int(size) for size in first.shape))
        inside.append(call.calls)
        try:
            result = call_module(module, *arguments, **named)
        finally:
            inside.pop()
        inside[-1].append(call)
        return result

    nn.Module.__call__ = traced  # type: ignore[method-assign]
    try:
        yield outermost
    finally:
        nn.Module.__call__ = call_module  # type: ignore[method-assign]
        _tracing.release()


def visualize(*_: Any, **__: Any) -> None:
    """A name that code imports beside `trace`."""
    raise NotImplementedError("the virtual card draws no graphs of torch models; torch.onnx and netron do")


def _give_names(module: nn.Module, name: str) -> None:
    """Members of a `ModuleList` count without repetitions, as the library's tracer counts them."""
    if module in _names:
        return
    _names[module] = name
    if isinstance(module, nn.ModuleList):
        for index, child in enumerate(module.children()):
            _give_names(child, f"{name}.{index}" if name else str(index))
    for child_name, child in module.named_children():
        _give_names(child, f"{name}.{child_name}" if name else child_name)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
