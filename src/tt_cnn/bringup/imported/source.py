# SPDX-License-Identifier: Apache-2.0
"""A model file as the source of a bring-up, and the reference that is made from what the folder keeps of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from tt_cnn.bringup.imported.graph import UNNAMED, ImportedGraph, Unreadable, check_names
from tt_cnn.bringup.imported.modules import make_module
from tt_cnn.bringup.imported.onnx_file import check_shapes, open_sizes

SUFFIXES = (".pt2", ".onnx")
GRAPH = "reference/graph.json"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ImportedSource:
    """A `.pt2` or an ONNX file."""

    spec: str
    path: Path
    shapes: tuple[Shape, ...] = ()
    """Of the inputs, as the user says; those of the file where there are none."""

    whose = "the file's own"

    @property
    def name(self) -> str:
        """A name for the folder and the registry."""
        own = re.sub(r"\W", "_", self.path.name.removesuffix(self.path.suffix).lower()).strip("_")
        return own if own.isidentifier() else "model"

    @cached_property
    def graph(self) -> ImportedGraph:
        found = read_graph(self.path, self.shapes)
        if found.kind == UNNAMED:
            found.kind = "".join(word[:1].upper() + word[1:] for word in self.name.split("_"))
        return found

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Of all inputs."""
        if self.shapes:
            return self.shapes
        return tuple(tuple(size for size in shape if size is not None) for shape in self.graph.inputs.values())

    def create(self) -> nn.Module:
        return make_module(self.graph)

    def reference_code(self) -> str:
        """`reference/model.py`."""
        file = re.sub(r"[^\w.-]", "_", self.path.name)
        return f'''"""The PyTorch model with its weights, as {file} has it: what is right."""

from pathlib import Path

from torch import nn

from tt_cnn.bringup.imported.source import load_reference

HERE = Path(__file__).parent


def create() -> nn.Module:
    return load_reference(HERE / "graph.json", HERE / "weights.safetensors")
'''

    def files(self) -> dict[str, bytes]:
        """What the folder has of the file, beside the weights."""
        return {GRAPH: self.graph.to_json().encode()}


def imported_source(spec: str, shapes: Sequence[Shape] = ()) -> ImportedSource:
    """A file that is there; it is read when the model is made."""
    path = Path(spec)
    if not path.is_file():
        raise ValueError(f"MODEL is {spec!r}; there is no such file")
    return ImportedSource(spec, path, tuple(shapes))


def read_graph(path: Path, shapes: Sequence[Shape]) -> ImportedGraph:
    """The graph of a file, by what its name ends with."""
    if path.suffix.lower() == ".onnx":
        from tt_cnn.bringup.imported.onnx_graph import read_onnx

        graph = read_onnx(path, shapes or None)
    else:
        from tt_cnn.bringup.imported.pt2 import read_pt2

        graph = read_pt2(path)
        if shapes:
            check_shapes(str(path), graph.inputs, shapes)
        elif any(None in shape for shape in graph.inputs.values()):
            raise open_sizes(str(path), graph.inputs)
    if not graph.inputs:
        raise Unreadable(f"{path} takes no tensor; a model must be given one")
    if not graph.steps:
        raise Unreadable(f"{path} computes nothing")
    if any(len(shape) < 2 for shape in graph.inputs.values()):
        shown = ", ".join(f"{name} {list(shape)}" for name, shape in graph.inputs.items())
        raise Unreadable(f"{path} takes {shown}; an input must have two dimensions at least, the batch first")
    check_names(graph, str(path))
    _in_float32(graph)
    return graph


def _in_float32(graph: ImportedGraph) -> None:
    """Weights of other widths; shared ones stay shared. What the card computes in is chosen by the bring-up."""
    made: dict[int, torch.Tensor] = {}
    for name, tensor in graph.held.items():
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            graph.held[name] = made.setdefault(id(tensor), tensor.float())


def load_reference(graph: Path, weights: Path) -> nn.Module:
    """The module of a stored graph with its weights, in eval mode."""
    from tt_cnn.preprocessing.weights.checkpoints import load_into

    model = make_module(ImportedGraph.from_json(graph.read_text(encoding="utf-8")))
    load_into(model, weights)
    return model.eval()
