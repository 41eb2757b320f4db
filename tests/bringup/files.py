# SPDX-License-Identifier: Apache-2.0
"""Model files of small networks, and what their import is compared by."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.codegen.model_file import model_file
from tt_cnn.bringup.imported.modules import make_module
from tt_cnn.bringup.imported.source import read_graph
from tt_cnn.bringup.lowering import lower
from tt_cnn.bringup.torch_graph import export_graph


def save_pt2(model: nn.Module, inputs: Sequence[torch.Tensor], file: Path, **options: Any) -> Path:
    torch.export.save(torch.export.export(model.eval(), tuple(inputs), **options), file)
    return file


def save_onnx(model: nn.Module, inputs: Sequence[torch.Tensor], file: Path, **options: Any) -> Path:
    """By torch's older exporter, which needs no further package; batch norms stay where they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = torch.onnx.TrainingMode.PRESERVE
        options = {"opset_version": 17, "training": kept, **options}
        torch.onnx.export(model.eval(), tuple(inputs), file, dynamo=False, **options)
    return file


def imported(file: Path, *shapes: tuple[int, ...]) -> nn.Module:
    return make_module(read_graph(file, shapes))


def outputs_of(model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        found = model(*inputs)
    if isinstance(found, dict):
        return list(found.values())
    return list(found) if isinstance(found, (tuple, list)) else [found]


def code_of(model: nn.Module, inputs: Sequence[torch.Tensor]) -> str:
    return model_file(lower(export_graph(model, inputs)), "A test.").code


def layers_of(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Counter[str]:
    """How many layers of each kind the model becomes."""
    return Counter(layer.method for layer in lower(export_graph(model, inputs)).layers())


def without_names(code: str) -> str:
    """The code with its own names by number, in the order in which they are made, and without docstrings and line
    breaks: names of classes, of variables and of layers. What is called, read of the torch model and set stays."""
    tree = ast.parse(code)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    numbered = {made.name: f"Class{number}" for number, made in enumerate(classes)}
    for made in classes:
        _number_names(made, numbered)
        made.name, made.body = numbered[made.name], [each for each in made.body if not _is_text(each)]
    tree.body = [each for each in tree.body if not _is_text(each)]
    return ast.unparse(tree)


def _number_names(made: ast.ClassDef, classes: dict[str, str]) -> None:
    own: dict[str, str] = {}
    for node in ast.walk(made):
        name = node.attr if _is_own(node) else node.id if _is_variable(node) else ""
        if name:
            own.setdefault(name, f"n{len(own)}")
    for node in ast.walk(made):
        if _is_own(node):
            node.attr = own[node.attr]
        elif isinstance(node, ast.Name):
            node.id = own.get(node.id, classes.get(node.id, node.id))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = re.sub(r"\w+", lambda word: own.get(word[0], word[0]), node.value)


def _is_own(node: Any) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_variable(node: Any) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
