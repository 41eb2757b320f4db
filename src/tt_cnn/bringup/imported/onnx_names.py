# SPDX-License-Identifier: Apache-2.0
"""Which module of the source an ONNX node was made in, as far as the file knows.

torch's newer exporter writes the modules and their classes beside each node; the older one names nodes
`/layer1/layer1.0/conv1/Conv`. Else the names of weights (`layer1.0.conv1.weight`) tell the module that holds them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from tt_cnn.bringup.imported.graph import UNNAMED, Call, Step, plain_kind, plain_path

_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_HOLDERS = {
    "Conv": "torch.nn.modules.conv.Conv2d",
    "ConvTranspose": "torch.nn.modules.conv.ConvTranspose2d",
    "Gemm": "torch.nn.modules.linear.Linear",
    "MatMul": "torch.nn.modules.linear.Linear",
    "BatchNormalization": "torch.nn.modules.batchnorm.BatchNorm2d",
    "LayerNormalization": "torch.nn.modules.normalization.LayerNorm",
    "GroupNormalization": "torch.nn.modules.normalization.GroupNorm",
    "InstanceNormalization": "torch.nn.modules.instancenorm.InstanceNorm2d",
    "PRelu": "torch.nn.modules.activation.PReLU",
}
"""Ops that a module with weights is made for."""


def scope_of(node: Any) -> tuple[Call, ...]:
    """The module calls around a node, the outermost first."""
    said = {each.key: each.value for each in node.metadata_props}
    paths, kinds = _listed(said.get(_SCOPES)), _listed(said.get(_CLASSES))
    if paths and len(paths) == len(kinds):
        pairs = list(zip(paths, kinds, strict=True))[:-1]
        return tuple(Call(plain_path(path), plain_kind(kind)) for path, kind in pairs if path)
    if node.name.startswith("/"):
        return _of_name(node.name)
    return ()


def class_of_model(nodes: Any, name: str) -> str:
    """The model's class where the file says it; else made of the graph's name."""
    for node in nodes:
        kinds = _listed({each.key: each.value for each in node.metadata_props}.get(_CLASSES))
        if len(kinds) > 1:
            return plain_kind(kinds[0])
    words = [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]
    named = "".join(word[:1].upper() + word[1:] for word in words)
    return UNNAMED if named in ("", "MainGraph", "TorchJit", "Graph") or named[0].isdigit() else named


def with_holder(scope: tuple[Call, ...], op: str, weight: str, alone: bool, taken: set[str]) -> tuple[Call, ...]:
    """The scope of an op with weights: its last call is the module that holds them.

    `alone` says that nothing else is in the scope's last call.
    """
    kind = _HOLDERS.get(op, "")
    if scope and scope[-1].kind == kind and scope[-1].path not in taken:
        return scope
    said = re.match(r"^((?:[A-Za-z_]\w*)(?:\.\w+)*)\.weight(?:_\w+)?$", weight, re.ASCII)
    if said is not None:
        path = plain_path(said.group(1))
        around = tuple(call for call in scope if path.startswith(call.path + ".") and call.path != path)
        same = scope and scope[-1].path == path
        return (*around, scope[-1] if same else Call(path, kind))
    if scope and alone:
        return scope if scope[-1].path not in taken else (*scope[:-1], Call(_free(scope[-1].path, taken), kind))
    inside = f"{scope[-1].path}." if scope else ""
    word = {"Gemm": "linear", "MatMul": "linear", "BatchNormalization": "norm"}.get(op, op.lower())
    return (*scope, Call(_free(inside + word.replace("normalization", "_norm"), taken), kind))


def with_classes(steps: Sequence[Step]) -> list[Step]:
    """Classes where the file says none: what only calls numbered modules is a sequence, what does one op a layer, and
    modules with the same ops in the same places are of one class."""
    steps = _with_one_class(steps)
    sequences: dict[str, bool] = {}
    layers: dict[str, int] = {}
    for step in steps:
        for index, call in enumerate(step.scope):
            below = step.scope[index + 1].path if index + 1 < len(step.scope) else ""
            numbered = below.startswith(call.path + ".") and below[len(call.path) + 1 :].partition(".")[0].isdigit()
            sequences[call.path] = sequences.get(call.path, True) and numbered and call.number == 0
            layers[call.path] = layers.get(call.path, 0) + (2 if below else call.number == 0)

    def better(call: Call) -> Call:
        if "." in call.kind:
            return call
        if sequences[call.path]:
            return replace(call, kind="torch.nn.modules.container.Sequential")
        return replace(call, kind=f"torch.nn.modules.{call.kind}") if layers[call.path] == 1 else call

    return [replace(step, scope=tuple(map(better, step.scope))) for step in steps]


def _with_one_class(steps: Sequence[Step]) -> Sequence[Step]:
    """`inception3a` and `inception3b` are two of one class, where the same is done in both."""
    kinds: dict[str, str] = {}
    done: dict[str, list[tuple[str, str]]] = {}
    for step in steps:
        inner = step.scope[-1].path if step.scope else ""
        for call in step.scope:
            if "." not in call.kind and not call.path.rpartition(".")[2].isdigit():
                kinds[call.path] = call.kind
                done.setdefault(call.path, []).append((inner[len(call.path) :], step.target))
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for path, ops in done.items():
        alike.setdefault(tuple(ops), []).append(path)
    for paths in alike.values():
        words = [re.findall("[A-Z][a-z]*|[a-z]+", kinds[path]) for path in paths]
        common = "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False)))
        kinds |= dict.fromkeys(paths, common or kinds[paths[0]])
    named = [tuple(replace(call, kind=kinds.get(call.path, call.kind)) for call in step.scope) for step in steps]
    return [replace(step, scope=scope) for step, scope in zip(steps, named, strict=True)]


def _free(path: str, taken: set[str]) -> str:
    found, number = path, 2
    while found in taken:
        found, number = f"{path}_{number}", number + 1
    return found


def _of_name(name: str) -> tuple[Call, ...]:
    """`/layer1/layer1.0/conv1/Conv`: items of lists are named with the list, all else by themselves."""
    calls: list[Call] = []
    before = ""
    for part in name.split("/")[1:-1]:
        parent = calls[-1].path if calls else ""
        if before and part.startswith(before + "."):
            path = parent + part[len(before) :]
        else:
            path = f"{parent}.{part}" if parent else part
        path = plain_path(path)
        calls.append(Call(path, _guessed(path)))
        before = part
    return tuple(calls)


def _guessed(path: str) -> str:
    """A class for a module that the file has no class of: `Block` for items of lists, else after its own name."""
    last = path.rpartition(".")[2]
    if last.isdigit():
        return "Block"
    words = [word for word in re.split(r"[^A-Za-z]+", last) if word]
    return "".join(word[:1].upper() + word[1:] for word in words) or "Block"


def _listed(text: str | None) -> list[str]:
    if not text:
        return []
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else []
