# SPDX-License-Identifier: Apache-2.0
"""New nodes in the place of one that a pass writes out as others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from tt_cnn.bringup.torch_graph import Parameter, Shape, TorchGraph, TorchNode

Tensor = TorchNode | Parameter


def shape_of(x: Tensor) -> Shape:
    """Of what is one tensor."""
    return cast(Shape, x.shape)


def written_values(x: Any) -> torch.Tensor | None:
    """The numbers of a constant that the model's code says."""
    while isinstance(x, TorchNode) and x.op in ("lift_fresh_copy", "lift_fresh", "clone", "detach", "to"):
        x = x.arguments["self"]
    return x.constant if isinstance(x, Parameter) else None


class NodeWriter:
    """Nodes as `node` would be called at its place; they stand before it once they are `placed`."""

    def __init__(self, graph: TorchGraph, node: TorchNode) -> None:
        self.graph, self.node = graph, node
        self.made: list[TorchNode] = []

    def new(self, op: str, overload: str, arguments: dict[str, Any], shape: Sequence[int]) -> TorchNode:
        node = self.node
        name = f"{node.name}_{op}{len(self.made)}"
        fused = {"made": True}
        made = TorchNode(
            name, op, f"aten.{op}.{overload}", arguments, tuple(shape), node.dtype, node.stack, node.line, fused
        )
        self.made.append(made)
        return made

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        if tuple(x.shape) == tuple(shape):
            return x
        return self.new("reshape", "default", {"self": x, "shape": list(shape)}, shape)

    def permute(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        if list(dims) == list(range(len(dims))):
            return x
        shape = [shape_of(x)[dim] for dim in dims]
        return self.new("permute", "default", {"self": x, "dims": list(dims)}, shape)

    def unsqueeze(self, x: Tensor, dim: int) -> TorchNode:
        shape = [*shape_of(x)[:dim], 1, *shape_of(x)[dim:]]
        return self.new("unsqueeze", "default", {"self": x, "dim": dim}, shape)

    def slice(self, x: Tensor, dim: int, start: int, end: int, step: int = 1) -> Tensor:
        before, after = shape_of(x)[:dim], shape_of(x)[dim + 1 :]
        if (start, end, step) == (0, shape_of(x)[dim], 1):
            return x
        shape = [*before, len(range(start, end, step)), *after]
        arguments = {"self": x, "dim": dim, "start": start, "end": end, "step": step}
        return self.new("slice", "Tensor", arguments, shape)

    def sum(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        if not dims:
            return x
        shape = [size for dim, size in enumerate(shape_of(x)) if dim not in dims]
        arguments = {"self": x, "dim": list(dims), "keepdim": False, "dtype": None}
        return self.new("sum", "dim_IntList", arguments, shape)

    def cat(self, parts: Sequence[Tensor], dim: int) -> TorchNode:
        shape = list(shape_of(parts[0]))
        shape[dim] = sum(shape_of(part)[dim] for part in parts)
        return self.new("cat", "default", {"tensors": list(parts), "dim": dim}, shape)

    def placed(self) -> None:
        place = self.graph.nodes.index(self.node)
        self.graph.nodes[place:place] = self.made


def become(node: TorchNode, op: str, overload: str, arguments: dict[str, Any]) -> None:
    """The node gives the same value by another op."""
    node.op, node.target, node.arguments = op, f"aten.{op}.{overload}", arguments


def constants_of(graph: TorchGraph) -> set[TorchNode]:
    """Nodes that do not depend on the model's input."""
    found: set[TorchNode] = set()
    changing = set(graph.inputs)
    for node in graph.nodes:
        if any(source in changing for source in node.inputs()):
            changing.add(node)
        else:
            found.add(node)
    return found
