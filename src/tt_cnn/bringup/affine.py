# SPDX-License-Identifier: Apache-2.0
"""A pass that draws sums of parts together: heads of detectors make centers and sizes of boxes from their sides.

    left_top, right_bottom = x.chunk(2, dim=1)
    torch.cat((middles + (right_bottom - left_top) / 2, left_top + right_bottom), dim=1)

is `x` times a constant matrix along the dimension, and a constant that is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.bringup.conv_parts import CHUNKS, bounds
from tt_cnn.bringup.node_writer import NodeWriter, Tensor, become, constants_of
from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

MOST_NUMBERS = 64
"""Of the matrix, which is written into the code."""
FEWEST_OPS = 3


@dataclass(frozen=True)
class Affine:
    """Along the dimension, `matrix` (inputs by outputs) times the source, and a constant of the whole shape."""

    matrix: torch.Tensor
    constant: Tensor | None = None


def draw_sums_of_parts_together(graph: TorchGraph) -> None:
    for node in [each for each in graph.nodes if each.op == "cat"]:
        constant = constants_of(graph)
        if node in constant:
            continue
        writer = NodeWriter(graph, node)
        reading = _Reading(graph, writer, constant, node.arguments.get("dim", 0) % len(node.shape))
        found = reading.of(node)
        if found is None or reading.source is None or found.matrix.numel() > MOST_NUMBERS or not reading.saves():
            continue
        _write(writer, reading.source, reading.dim, found)


def _write(writer: NodeWriter, source: TorchNode, dim: int, found: Affine) -> None:
    node, rank = writer.node, len(source.shape)
    order = [each for each in range(rank) if each != dim]
    turned = writer.permute(source, [*order, dim])
    weight = found.matrix.T.contiguous()
    given = Parameter(f"{node.name}_matrix", tuple(weight.shape), weight)
    shape: Any = [*turned.shape[:-1], weight.shape[0]]
    product = writer.new("linear", "default", {"input": turned, "weight": given, "bias": None}, shape)
    order.insert(dim, rank - 1)
    back = [*range(dim), rank - 1, *range(dim, rank - 1)]
    if found.constant is None:
        writer.placed()
        become(node, "permute", "default", {"self": product, "dims": back})
        return
    turned_back = writer.permute(product, back)
    writer.placed()
    become(node, "add", "Tensor", {"self": turned_back, "other": found.constant, "alpha": 1})


class _Reading:
    """What a node is of parts of one source along one dimension."""

    def __init__(self, graph: TorchGraph, writer: NodeWriter, constant: set[TorchNode], dim: int) -> None:
        self.writer, self.constant, self.dim = writer, constant, dim
        self.users, self.outputs = graph.users(), set(graph.outputs)
        self.order = list(graph.nodes)
        self.source: TorchNode | None = None
        self.known: dict[TorchNode, Affine | None] = {}
        self.inside: set[TorchNode] = {writer.node}

    def saves(self) -> bool:
        """Whether several ops are left without readers."""
        gone = {self.writer.node}
        for node in reversed(self.order):
            if node in self.inside and node not in self.outputs and gone.issuperset(self.users[node]):
                gone.add(node)
        computing = [node for node in gone if node.op not in ("slice", "getitem")]
        return gone >= self.inside and len(computing) >= FEWEST_OPS

    def of(self, node: Any) -> Affine | None:
        if not isinstance(node, TorchNode) or node in self.constant:
            return None
        if node not in self.known:
            self.known[node] = self._read(node)
        return self.known[node]

    def _read(self, node: TorchNode) -> Affine | None:
        part = self._part(node)
        if part is not None:
            return part
        rules = {"add": self._sum, "sub": self._sum, "rsub": self._sum, "mul": self._scaled, "div": self._scaled}
        if node.op == "neg":
            found = self._scale(self.of(node.arguments["self"]), -1.0)
        elif node.op == "cat":
            found = self._joined(node)
        elif node.op in rules:
            found = rules[node.op](node)
        else:
            return None
        if found is not None:
            self.inside.add(node)
        return found

    # -- leaves

    def _part(self, node: TorchNode) -> Affine | None:
        """A cut along the dimension."""
        rank = len(node.shape)
        source = node.arguments.get("self")
        if not isinstance(source, TorchNode):
            return None
        if node.op == "slice" and node.arguments.get("step", 1) == 1:
            if node.arguments.get("dim", 0) % rank != self.dim:
                return None
            return self._from(source, node, *bounds(node))
        if node.op != "getitem" or source.op not in CHUNKS:
            return None
        if source.arguments.get("dim", 0) % rank != self.dim:
            return None
        sizes: list[int] = [shape[self.dim] for shape in source.shape]  # type: ignore[index]
        start = sum(sizes[: node.arguments["0"]])
        whole = source.arguments["self"]
        if not isinstance(whole, TorchNode):
            return None
        return self._from(whole, node, start, start + sizes[node.arguments["0"]])

    def _from(self, source: TorchNode, node: TorchNode, start: int, end: int) -> Affine | None:
        if self.source is None:
            self.source = source
        if self.source is not source:
            return None
        size: Any = source.shape[self.dim]
        if size > MOST_NUMBERS:
            return None
        self.inside.add(node)
        return Affine(torch.eye(size)[:, start:end])

    # -- ops

    def _sum(self, node: TorchNode) -> Affine | None:
        if node.arguments.get("alpha", 1) != 1:
            return None
        operands = [node.arguments["self"], node.arguments["other"]]
        if node.op == "rsub":
            operands.reverse()
        one, other = (self._term(each, node) for each in operands)
        if one is None or other is None:
            return None
        if node.op != "add":
            other = self._scale(other, -1.0)
            assert other is not None
        return Affine(one.matrix + other.matrix, self._added(one.constant, other.constant, node))

    def _term(self, value: Any, node: TorchNode) -> Affine | None:
        """An operand of a sum; numbers and constants are spread over the whole shape."""
        shape: Any = node.shape
        assert self.source is None or len(self.source.shape) == len(shape)
        if isinstance(value, (int, float)):
            filled = {"size": list(shape), "fill_value": float(value)}
            return self._constant(self.writer.new("full", "default", filled, shape), shape)
        if isinstance(value, Parameter) or value in self.constant:
            if tuple(value.shape) == tuple(shape):
                return self._constant(value, shape)
            expanded = {"self": value, "size": list(shape), "implicit": False}
            return self._constant(self.writer.new("expand", "default", expanded, shape), shape)
        found = self.of(value)
        return found if found is not None and tuple(value.shape) == tuple(shape) else None

    def _constant(self, value: Tensor, shape: Sequence[int]) -> Affine | None:
        """Without a share of the source, which must be known by now for its size."""
        source = self.source or self._first_source()
        return None if source is None else Affine(torch.zeros(source.shape[self.dim], shape[self.dim]), value)  # type: ignore[arg-type]

    def _first_source(self) -> TorchNode | None:
        """Where a constant comes before the part that it is added to."""
        for node in reversed(self.order[: self.order.index(self.writer.node)]):
            if self._part(node) is not None:
                self.inside.discard(node)
                return self.source
        return None

    def _added(self, one: Tensor | None, other: Tensor | None, node: TorchNode) -> Tensor | None:
        if one is None or other is None:
            return other if one is None else one
        return self.writer.new("add", "Tensor", {"self": one, "other": other, "alpha": 1}, node.shape)  # type: ignore[arg-type]

    def _scaled(self, node: TorchNode) -> Affine | None:
        one, other = node.arguments["self"], node.arguments["other"]
        if node.op == "mul" and isinstance(one, (int, float)):
            one, other = other, one
        if not isinstance(other, (int, float)) or node.arguments.get("rounding_mode") is not None:
            return None
        return self._scale(self.of(one), float(other) if node.op == "mul" else 1 / float(other))

    def _scale(self, value: Affine | None, factor: float) -> Affine | None:
        if value is None or value.constant is None:
            return value and Affine(value.matrix * factor)
        arguments = {"self": value.constant, "other": factor}
        scaled = self.writer.new("mul", "Tensor", arguments, value.constant.shape)  # type: ignore[arg-type]
        return Affine(value.matrix * factor, scaled)

    def _joined(self, node: TorchNode) -> Affine | None:
        if node.arguments.get("dim", 0) % len(node.shape) != self.dim:
            return None
        given = node.arguments["tensors"]
        parts = [self.of(each) for each in given]
        found = [each for each in parts if each is not None]
        if len(found) < len(parts):
            return None
        matrix = torch.cat([each.matrix for each in found], dim=1)
        if all(each.constant is None for each in found):
            return Affine(matrix)
        constants = [
            self.writer.new("zeros", "default", {"size": list(part.shape)}, part.shape)
            if each.constant is None
            else each.constant
            for part, each in zip(given, found, strict=True)
        ]
        return Affine(matrix, self.writer.cat(constants, self.dim))
