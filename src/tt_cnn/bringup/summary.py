# SPDX-License-Identifier: Apache-2.0
"""Every op of the torch model in its order: where it stands, what it is given, how large it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tt_cnn.bringup.op_facts import (
    Shape,
    multiply_adds,
    parameter_paths,
    parameter_sizes,
    shape_text,
    shapes,
    short_arguments,
)
from tt_cnn.bringup.tables import count, markdown, markdown_table, text_table
from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode

_HEADINGS = ("#", "module", "class", "op", "arguments", "inputs", "outputs", "parameters", "MMACs", "line")
_NUMBERS = frozenset({"#", "parameters", "MMACs"})


@dataclass(frozen=True)
class SummaryRow:
    """One op."""

    number: int
    name: str
    """Unique in the graph: `conv2d_3`."""
    op: str
    target: str
    """torch's own name with its overload."""
    module: str
    """Path of the module that made the call; with a number where that is called more than once."""
    module_class: str
    arguments: str
    """Those that differ from torch's defaults."""
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    parameters: int
    """Of the model's parameters those that it reads; the totals count a shared one once."""
    multiply_adds: int
    line: str
    """File, number and text of the user's line."""


@dataclass(frozen=True)
class Summary:
    """All ops, and their totals."""

    title: str
    rows: tuple[SummaryRow, ...]
    parameters: int
    multiply_adds: int

    @property
    def totals(self) -> str:
        return f"{len(self.rows)} ops, {count(self.parameters)} parameters, {count(self.multiply_adds)} multiply-adds"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def to_text(self) -> str:
        return f"{self.title}: {self.totals}\n\n{text_table(_HEADINGS, self._cells(), _NUMBERS)}\n"

    def to_markdown(self) -> str:
        table = markdown_table(_HEADINGS, self._cells(), _NUMBERS)
        return f"# Summary of {markdown(self.title)}\n\n{self.totals}\n\n{table}\n"

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                str(row.number),
                row.module,
                row.module_class,
                row.op,
                row.arguments,
                " ".join(map(shape_text, row.inputs)),
                " ".join(map(shape_text, row.outputs)),
                f"{row.parameters:,}" if row.parameters else "",
                f"{row.multiply_adds / 1e6:.2f}" if row.multiply_adds else "",
                row.line,
            )
            for row in self.rows
        ]


def summary(graph: TorchGraph, *, title: str = "") -> Summary:
    """The graph as it was exported, or after the passes: then a row is what the card is to do in one op."""
    sizes = parameter_sizes(graph)
    kept = {path for path, _ in graph.model.named_parameters()}
    read = {path for node in graph.nodes for path in parameter_paths(node, sizes)}
    return Summary(
        title or type(graph.model).__name__,
        tuple(_row(number, node, sizes) for number, node in enumerate(graph.nodes, 1)),
        sum(sizes[path] for path in read & kept),
        sum(multiply_adds(node) for node in graph.nodes),
    )


def _row(number: int, node: TorchNode, sizes: dict[str, int]) -> SummaryRow:
    return SummaryRow(
        number=number,
        name=node.name,
        op=" + ".join([node.op, *drawn_in(node)]),
        target=node.target,
        module=node.call.name,
        module_class=node.call.kind,
        arguments=short_arguments(node),
        inputs=tuple(shapes(source)[0] for source in node.inputs()),
        outputs=shapes(node),
        parameters=sum(sizes[path] for path in parameter_paths(node, sizes)),
        multiply_adds=multiply_adds(node),
        line=node.line,
    )


def drawn_in(node: TorchNode) -> list[str]:
    """What passes have drawn into the op, as a reader calls it: `batch_norm`, `nn.ReLU()`, `pad`."""
    said = []
    if "extra_padding" in node.fused:
        said.append("pad")
    if "norm" in node.fused:
        said.append("batch_norm")
    if "activation" in node.fused:
        said.append(str(node.fused["activation"]))
    return said
