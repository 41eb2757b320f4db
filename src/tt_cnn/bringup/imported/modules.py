# SPDX-License-Identifier: Apache-2.0
"""A torch module made of the ops of a file: a tree of modules as the source had it, which run the ops in their place.

A module is called as often as it was in the source; what it does then may differ from call to call (shapes are written
into the ops), so it has a program for each. Convolutions, linear layers, norms and pools that are nothing else are
torch's own modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn

from tt_cnn.bringup.imported.graph import Call, Held, ImportedGraph, Ref, Step, Unreadable, refs
from tt_cnn.bringup.imported.ops import op_of
from tt_cnn.bringup.imported.torch_modules import torch_class, torch_module


@dataclass
class Program:
    """One call of a module: its steps and the calls inside it."""

    call: Call
    items: list[Step | Program] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    variant: int = 0
    """Which of its module's programs it is."""

    def steps(self) -> list[Step]:
        return [step for item in self.items for step in ([item] if isinstance(item, Step) else item.steps())]


class ImportedModule(nn.Module):
    """Runs the ops of a file that were made in this module."""

    _imported_programs: list[Program]
    _imported_root: list[nn.Module]
    """In a list, so that it is no submodule."""

    def forward(self, *inputs: Any, variant: int = 0) -> Any:
        program = self._imported_programs[variant]
        if len(inputs) != len(program.inputs):
            raise ValueError(f"{len(inputs)} inputs were given; the model has {len(program.inputs)}")
        known = dict(zip(program.inputs, inputs, strict=True))
        for item in program.items:
            made = self._call(item, known) if isinstance(item, Program) else self._run(item, known)
            results = item.outputs if isinstance(item, Program) else item.results
            if len(results) == 1 and not isinstance(made, (list, tuple)):
                known[results[0]] = made
            else:
                known.update(zip(results, made, strict=False))
        return self._returned([known[name] for name in program.outputs])

    def _returned(self, values: list[Any]) -> Any:
        return values[0] if len(values) == 1 else tuple(values)

    def _call(self, program: Program, known: dict[str, Any]) -> Any:
        module = self._imported_root[0].get_submodule(program.call.path)
        given = [known[name] for name in program.inputs]
        return module(*given, variant=program.variant) if isinstance(module, ImportedModule) else module(*given)

    def _run(self, step: Step, known: dict[str, Any]) -> Any:
        def value(of: Any) -> Any:
            if isinstance(of, Ref):
                return known[of.name]
            if isinstance(of, Held):
                return _attribute(self._imported_root[0], of.path)
            return [value(each) for each in of] if isinstance(of, (list, tuple)) else of

        return op_of(step.target)(*map(value, step.arguments), **{k: value(v) for k, v in step.keywords.items()})


class _Root(ImportedModule):
    _imported_keys: tuple[str, ...]

    def _returned(self, values: list[Any]) -> Any:
        if self._imported_keys:
            return dict(zip(self._imported_keys, values, strict=True))
        return super()._returned(values)


def make_module(graph: ImportedGraph) -> nn.Module:
    """The model with its weights, in eval mode."""
    root = _program(graph)
    calls: dict[str, list[Program]] = {}
    _number(root, calls)
    try:
        return _Maker(graph, calls).made().eval()
    except (KeyError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        raise Unreadable(f"no torch module can be made of the file's ops: {error!r}") from error


def _program(graph: ImportedGraph) -> Program:
    root = Program(Call("", graph.kind), [], tuple(graph.inputs), graph.outputs)
    opened = [root]
    for step in graph.steps:
        depth = 0
        while depth < min(len(step.scope), len(opened) - 1) and step.scope[depth] == opened[depth + 1].call:
            depth += 1
        del opened[depth + 1 :]
        for call in step.scope[depth:]:
            inner = Program(call)
            opened[-1].items.append(inner)
            opened.append(inner)
        opened[-1].items.append(step)
    _connect(root, frozenset(graph.outputs))
    return root


def _connect(program: Program, read_after: frozenset[str]) -> None:
    """Which values go into each call and which come out."""
    needed = set(read_after)
    for item in reversed(program.items):
        if isinstance(item, Program):
            steps = item.steps()
            made = [name for step in steps for name in step.results]
            item.outputs = tuple(name for name in made if name in needed)
            read = [name for step in steps for name in _read(step)]
            item.inputs = tuple(dict.fromkeys(name for name in read if name not in set(made)))
            _connect(item, frozenset(item.outputs))
            needed |= set(item.inputs)
        else:
            needed |= set(_read(item))


def _read(step: Step) -> list[str]:
    return list(refs([*step.arguments, *step.keywords.values()]))


def _number(program: Program, calls: dict[str, list[Program]]) -> None:
    same = calls.setdefault(program.call.path, [])
    program.variant = len(same)
    same.append(program)
    for item in program.items:
        if isinstance(item, Program):
            _number(item, calls)


class _Maker:
    def __init__(self, graph: ImportedGraph, calls: dict[str, list[Program]]) -> None:
        self.graph, self.calls = graph, calls
        self.children: dict[str, list[str]] = {}
        """Names of what is in each module, in order of their first use."""
        self.parameters: dict[int, nn.Parameter] = {}
        """By tensor, so that shared ones stay shared."""
        for path in [*calls, *(held.rpartition(".")[0] for held in graph.held)]:
            self._note(path)

    def _note(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition(".")
            names = self.children.setdefault(parent, [])
            if name not in names:
                names.append(name)
            path = parent

    def made(self) -> nn.Module:
        root = self._module("", [])
        for path in self.graph.held:
            self._hold(root, path)
        return root

    def _module(self, path: str, root: list[nn.Module]) -> nn.Module:
        programs = self.calls.get(path, [])
        names = self.children.get(path, [])
        if programs and path and not names:
            own = torch_module(path, [program.items for program in programs], self.graph.held)
            if own is not None:
                return own
        module = self._derived(path, programs, names) or self._empty(path, programs, names)
        if not path:
            root.append(module)
        if isinstance(module, ImportedModule):
            module._imported_programs, module._imported_root = programs, root
        if isinstance(module, _Root):
            module._imported_keys = self.graph.keys
        for name in self._ordered(module, names):
            inner = f"{path}.{name}" if path else name
            module.add_module(name, self._module(inner, root) if name in names else nn.Identity())
        return module

    def _derived(self, path: str, programs: Sequence[Program], names: list[str]) -> nn.Module | None:
        """A module with the weights of one of torch's, which does more than that."""
        base = torch_class(path, [program.items for program in programs], self.graph.held) if not names else None
        if base is None or not path:
            return None
        where, _, name = programs[0].call.kind.rpartition(".")
        base.__class__ = type(name, (ImportedModule, type(base)), {"__module__": where or __name__})
        return base

    def _empty(self, path: str, programs: Sequence[Program], names: list[str]) -> nn.Module:
        listed = bool(names) and all(name.isdigit() and str(int(name)) == name for name in names)
        if not programs:
            return nn.ModuleList() if listed else nn.Module()
        where, _, name = programs[0].call.kind.rpartition(".")
        base = ImportedModule if path else _Root
        bases = (base, nn.Sequential) if listed else (base,)
        kind = type(name, bases, {"__module__": where or __name__})
        return cast(nn.Module, kind())

    def _ordered(self, module: nn.Module, names: list[str]) -> list[str]:
        """Of a list all numbers, since an exporter leaves out what does nothing."""
        if not isinstance(module, (nn.Sequential, nn.ModuleList)):
            return names
        return [str(index) for index in range(max(map(int, names)) + 1)]

    def _hold(self, root: nn.Module, path: str) -> None:
        tensor = self.graph.held[path]
        owner, _, name = path.rpartition(".")
        module = root.get_submodule(owner)
        if path in self.graph.buffers or not tensor.is_floating_point():
            if name in module._buffers:
                module._buffers[name] = tensor
            else:
                module.register_buffer(name, tensor)
            return
        parameter = self.parameters.setdefault(id(tensor), nn.Parameter(tensor, requires_grad=False))
        module.register_parameter(name, parameter)


def _attribute(root: nn.Module, path: str) -> torch.Tensor:
    owner, _, name = path.rpartition(".")
    return cast(torch.Tensor, getattr(root.get_submodule(owner), name))
