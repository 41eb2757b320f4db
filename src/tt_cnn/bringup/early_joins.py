# SPDX-License-Identifier: Apache-2.0
"""A pass that joins before it computes: heads of detectors take a map apart, treat the parts alike and stack them.

    torch.stack((sigmoid(x[:, 0]) + columns, sigmoid(x[:, 1]) + rows), dim=1)

is `sigmoid(x[:, 0:2]) + torch.stack((columns, rows))`, with the constants stacked when the model is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch

from tt_cnn.bringup.node_writer import NodeWriter, Tensor, constants_of
from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

ELEMENTWISE = frozenset(
    ["sigmoid", "tanh", "exp", "log", "sqrt", "neg", "abs", "square", "relu", "silu", "softplus", "clamp", "pow"]
)
"""Ops of one tensor; their other arguments must be the same for all parts."""
BINARY = frozenset(["add", "sub", "mul", "div", "rsub"])
_OPERANDS = ("self", "other")


def join_early(graph: TorchGraph) -> None:
    """Only where it leaves fewer ops: all parts lead back to parts of one tensor and to constants."""
    for node in [each for each in graph.nodes if each.op == "stack"]:
        if node not in graph.nodes:
            continue
        constant = constants_of(graph)
        if node in constant:
            continue
        writer = NodeWriter(graph, node)
        joins = _Joins(graph, writer, constant)
        found = joins.of(node.arguments["tensors"], node.arguments.get("dim", 0) % len(node.shape))
        if not isinstance(found, TorchNode) or not joins.saves():
            continue
        writer.placed()
        found.fused["result"] = node.name
        found.fused.pop("made", None)
        graph.replace(node, found)
        graph.drop(node)
        _drop_unread(graph)


def _drop_unread(graph: TorchGraph) -> None:
    while True:
        users = graph.users()
        unread = [node for node in graph.nodes if not users[node] and node not in graph.outputs]
        if not unread:
            return
        graph.drop(*unread)


class _Joins:
    """Stacks of nodes along a new dimension, each made once."""

    def __init__(self, graph: TorchGraph, writer: NodeWriter, constant: set[TorchNode]) -> None:
        self.writer, self.constant = writer, constant
        self.users, self.order = graph.users(), list(graph.nodes)
        self.outputs = set(graph.outputs)
        self.known: dict[tuple[Any, ...], Tensor | None] = {}
        self.replaced: set[TorchNode] = {writer.node}
        self.computing = 0

    def saves(self) -> bool:
        """Whether fewer ops are made than are left without readers."""
        gone = {self.writer.node}
        for node in reversed(self.order):
            if node in self.replaced and node not in self.outputs and gone.issuperset(self.users[node]):
                gone.add(node)
        return self.computing < len(gone) - 1

    def of(self, parts: Sequence[Tensor], dim: int) -> Tensor | None:
        """None where they are not alike."""
        key = (*map(id, parts), dim)
        if key not in self.known:
            self.known[key] = self._made(parts, dim)
        return self.known[key]

    def _made(self, parts: Sequence[Tensor], dim: int) -> Tensor | None:
        if all(self._is_constant(part) for part in parts):
            return self._of_constants(parts, dim)
        nodes = [part for part in parts if isinstance(part, TorchNode) and part not in self.constant]
        if len(nodes) < len(parts):
            return None
        if all(node.op == "select" for node in nodes):
            return self._of_neighbours(nodes, dim)
        runs = [list(run) for _, run in groupby(nodes, key=_kind)]
        if len(runs) == 1:
            return self._of_alike(nodes, dim)
        joined = [self.of(run, dim) if len(run) > 1 else None for run in runs]
        found = [each for each in joined if each is not None]
        return self.writer.cat(found, dim) if len(found) == len(runs) else None

    def _is_constant(self, part: Any) -> bool:
        return isinstance(part, Parameter) or part in self.constant

    def _of_constants(self, parts: Sequence[Tensor], dim: int) -> Tensor | None:
        shapes = {tuple(part.shape) for part in parts}
        if len(shapes) > 1:
            return None
        shape: Any = list(shapes.pop())
        shape.insert(dim, len(parts))
        return self.writer.new("stack", "default", {"tensors": list(parts), "dim": dim}, shape)

    def _of_neighbours(self, parts: Sequence[TorchNode], dim: int) -> Tensor | None:
        """Parts of one tensor that lie one after the other."""
        source = parts[0].arguments["self"]
        rank = len(source.shape)
        cut = parts[0].arguments["dim"] % rank
        if any(part.arguments["self"] is not source or part.arguments["dim"] % rank != cut for part in parts):
            return None
        places = [part.arguments["index"] % source.shape[cut] for part in parts]
        if places != list(range(places[0], places[0] + len(parts))):
            return None
        self.replaced.update(parts)
        whole = self.writer.slice(source, cut, places[0], places[-1] + 1)
        order = [each for each in range(rank) if each != cut]
        order.insert(dim, cut)
        return self.writer.permute(whole, order)

    def _of_alike(self, parts: Sequence[TorchNode], dim: int) -> Tensor | None:
        """One op on what all of them work on, joined."""
        first = parts[0]
        if first.op not in ELEMENTWISE | BINARY or any(part.shape != first.shape for part in parts):
            return None
        if first.arguments.get("alpha", 1) != 1 or first.arguments.get("rounding_mode") is not None:
            return None
        operands = _OPERANDS if first.op in BINARY else _OPERANDS[:1]
        if any(isinstance(value, Tensor) for name, value in first.arguments.items() if name not in operands):
            return None  # an exponent, or bounds, that would have to be joined, too
        shape: Any = list(first.shape)
        shape.insert(dim, len(parts))
        arguments = dict(first.arguments)
        for name in operands:
            operand = self._operand([part.arguments[name] for part in parts], dim, len(first.shape))
            if operand is None:
                return None
            arguments[name] = operand
        self.replaced.update(parts)
        self.computing += 1
        return self.writer.new(first.op, first.target.rpartition(".")[2], arguments, shape)

    def _operand(self, given: Sequence[Any], dim: int, rank: int) -> Any:
        """A number that all have, several as a constant, or tensors joined; None where they are not alike."""
        if all(isinstance(each, (int, float)) for each in given):
            return given[0] if len(set(given)) == 1 else self._numbers(given, dim, rank)
        if any(isinstance(each, (int, float)) for each in given):
            return None
        if all(self._is_constant(each) for each in given):
            aligned = [(1,) * (rank - len(each.shape)) + tuple(each.shape) for each in given]
            return self._of_constants(
                [self.writer.reshape(each, shape) for each, shape in zip(given, aligned, strict=True)], dim
            )
        if any(len(each.shape) != rank or each.shape != given[0].shape for each in given):
            return None
        return self.of(given, dim)

    def _numbers(self, given: Sequence[float], dim: int, rank: int) -> Parameter:
        shape = [1] * (rank + 1)
        shape[dim] = len(given)
        name = f"{self.writer.node.name}_numbers{len(self.known)}"
        return Parameter(name, tuple(shape), torch.tensor([float(each) for each in given]).reshape(shape))


def _kind(node: TorchNode) -> Any:
    """What nodes that one op can do have in common."""
    own = tuple((key, repr(value)) for key, value in sorted(node.arguments.items()) if key not in _OPERANDS)
    numbers = tuple(isinstance(node.arguments.get(name), (int, float)) for name in _OPERANDS)
    return node.op, own if node.op in ELEMENTWISE else (), numbers
