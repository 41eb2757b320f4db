# SPDX-License-Identifier: Apache-2.0
"""The card of a torch model: what it is, how large it is, what goes in and comes out, which weights it has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.op_facts import dtype_text, multiply_adds, shape_text, shapes
from tt_cnn.bringup.tables import count, markdown, markdown_table
from tt_cnn.bringup.task_guess import guess_task
from tt_cnn.bringup.torch_graph import TorchGraph

_PIECE = 1 << 20


@dataclass(frozen=True)
class TensorFacts:
    """An input or an output."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} {shape_text(self.shape)} {self.dtype}"


@dataclass(frozen=True)
class WeightsFacts:
    """Where the weights are from, and their checksum."""

    file: str
    """Name of the file; empty where none was given, and the checksum is that of the model's state_dict."""
    bytes: int
    sha256: str
    """Empty for a model without values (torch's meta device)."""


@dataclass(frozen=True)
class ModelCard:
    """All facts of a model that are there before it is brought up."""

    name: str
    class_name: str
    """With its module."""
    task: str
    task_guess: str
    """What the task was guessed from; empty where it was given."""
    parameters: int
    parameter_bytes: int
    buffers: int
    """Values that are no parameters: running statistics, position indices."""
    multiply_adds: int
    """Of one call with inputs of these shapes."""
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    weights: WeightsFacts
    licence: str = ""
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def facts(self) -> list[tuple[str, str]]:
        """What is known, as text; what is not known is left out."""
        guessed = f" (guessed: {self.task_guess})" if self.task_guess else ""
        batch = self.inputs[0].shape[0] if self.inputs and self.inputs[0].shape else 1
        images = f" for a batch of {batch}" if batch > 1 else ""
        weights = self.weights.file or "state_dict"
        checksum = self.weights.sha256 or "no values (meta device)"
        found = [
            ("class", self.class_name),
            ("task", f"{self.task}{guessed}"),
            ("parameters", f"{count(self.parameters)}, {self.parameter_bytes:,} B"),
            ("multiply-adds", f"{count(self.multiply_adds)}{images}"),
            *(("input", str(each)) for each in self.inputs),
            *(("output", str(each)) for each in self.outputs),
            ("weights", f"{weights}, {self.weights.bytes:,} B"),
            ("SHA-256", checksum),
            ("licence", self.licence),
            ("source", self.source),
        ]
        return [(what, said) for what, said in found if said]

    def to_text(self) -> str:
        facts = self.facts()
        width = max(len(what) for what, _ in facts)
        return "\n".join([self.name, *(f"  {what:<{width}}  {said}" for what, said in facts)])

    def to_markdown(self) -> str:
        return f"# {markdown(self.name)}\n\n{markdown_table(('', ''), self.facts())}\n"


def model_card(
    model: nn.Module,
    inputs: Sequence[torch.Tensor],
    graph: TorchGraph,
    *,
    name: str,
    task: str | None = None,
    licence: str = "",
    source: str = "",
    weights: Path | str | None = None,
) -> ModelCard:
    """The card of a model whose graph was exported for these inputs; before or after the passes, it is the same.

    `weights`: the file that the model's values are from. Without `task` it is guessed, and the card says so.
    """
    given = tuple(
        TensorFacts(node.name, tuple(tensor.shape), dtype_text(tensor.dtype))
        for node, tensor in zip(graph.inputs, inputs, strict=True)
    )
    made = tuple(
        TensorFacts(called, shapes(node)[0], dtype_text(node.dtype))
        for called, node in zip(graph.output_names, graph.outputs, strict=True)
    )
    guessed, reason = guess_task([each.shape for each in given], [each.shape for each in made])
    kind = type(model)
    parameters = list(model.parameters())
    return ModelCard(
        name=name,
        class_name=f"{kind.__module__}.{kind.__qualname__}",
        task=task or guessed,
        task_guess="" if task else reason,
        parameters=sum(each.numel() for each in parameters),
        parameter_bytes=sum(each.numel() * each.element_size() for each in parameters),
        buffers=sum(each.numel() for each in model.buffers()),
        multiply_adds=sum(multiply_adds(node) for node in graph.nodes),
        inputs=given,
        outputs=made,
        weights=_file_facts(Path(weights)) if weights is not None else state_dict_facts(model),
        licence=licence,
        source=source,
    )


def _file_facts(path: Path) -> WeightsFacts:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return WeightsFacts(path.name, path.stat().st_size, digest.hexdigest())


def state_dict_facts(model: nn.Module) -> WeightsFacts:
    """The same for the same names, dtypes, shapes and values, whatever order the model holds them in."""
    state = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    size = sum(prod(value.shape) * value.element_size() for value in state.values())
    if any(value.is_meta for value in state.values()):
        return WeightsFacts("", size, "")
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {dtype_text(value.dtype)} {shape_text(tuple(value.shape))}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return WeightsFacts("", size, digest.hexdigest())
