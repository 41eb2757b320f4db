# SPDX-License-Identifier: Apache-2.0
"""Passes that write ops out as others that the card has: stacks as joins, sums over named dimensions as matmuls."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tt_cnn.bringup.node_writer import NodeWriter, Tensor, become, constants_of, shape_of
from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

# -- stacks


def write_out_stacks(graph: TorchGraph) -> None:
    """`torch.stack` as a join of tensors that have one dimension more."""
    constant = constants_of(graph)
    for node in [each for each in graph.nodes if each.op == "stack" and each not in constant]:
        writer = NodeWriter(graph, node)
        dim = node.arguments.get("dim", 0) % len(node.shape)
        parts = [writer.unsqueeze(part, dim) for part in node.arguments["tensors"]]
        writer.placed()
        become(node, "cat", "default", {"tensors": parts, "dim": dim})


# -- products


def write_out_products(graph: TorchGraph) -> None:
    """Matmuls of a tensor and a matrix of parameters as linear layers."""
    constant = constants_of(graph)
    for node in [each for each in graph.nodes if each.op in ("matmul", "mm") and each not in constant]:
        one = node.arguments["self"]
        other: Any = node.arguments.get("other", node.arguments.get("mat2"))
        if not _is_constant(other, constant) or _is_constant(one, constant) or len(other.shape) != 2:
            continue
        if len(one.shape) < 2:
            continue
        writer = NodeWriter(graph, node)
        weight = writer.permute(other, (1, 0))
        writer.placed()
        become(node, "linear", "default", {"input": one, "weight": weight, "bias": None})


# -- sums over named dimensions


def write_out_einsums(graph: TorchGraph) -> None:
    """Sums over named dimensions as matmuls, linear layers, products and sums; others keep a reason why not."""
    constant = constants_of(graph)
    for node in [each for each in graph.nodes if each.op == "einsum" and each not in constant]:
        operands: Sequence[Tensor] = node.arguments["tensors"]
        try:
            labels, out = read_equation(node.arguments["equation"], [shape_of(each) for each in operands])
        except ValueError as error:
            node.fused["unsupported"] = str(error)
            continue
        writer = NodeWriter(graph, node)
        found, order = _Sums(writer, constant).of(list(operands), labels, out)
        writer.placed()
        become(node, "permute", "default", {"self": found, "dims": [order.index(label) for label in out]})


def read_equation(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The labels of each operand and those of the result; `ValueError` for what is no plain sum of products."""
    text = equation.replace(" ", "")
    if "." in text:
        raise ValueError("an einsum with an ellipsis")
    left, arrow, right = text.partition("->")
    labels = left.split(",")
    out = right if arrow else "".join(sorted(each for each in set(left) - {","} if left.count(each) == 1))
    if not out:
        raise ValueError("an einsum to a single number")
    if any(len(set(each)) < len(each) for each in labels):
        raise ValueError("an einsum with the diagonal of an operand")
    sizes: dict[str, int] = {}
    for own, shape in zip(labels, shapes, strict=True):
        for label, size in zip(own, shape, strict=True):
            if sizes.setdefault(label, size) != size:
                raise ValueError("an einsum that spreads a dimension of one")
    return labels, out


class _Sums:
    """Operands are taken together two at a time, from the left."""

    def __init__(self, writer: NodeWriter, constant: set[TorchNode]) -> None:
        self.writer, self.constant = writer, constant

    def of(self, operands: list[Tensor], labels: list[str], out: str) -> tuple[Tensor, str]:
        """The result, and its labels in their order."""
        tensor, own = operands[0], labels[0]
        for index in range(1, len(operands)):
            later = set(out).union(*labels[index + 1 :])
            tensor, own = self._pair(tensor, own, operands[index], labels[index], later)
        return self._summed(tensor, own, set(out))

    def _summed(self, x: Tensor, labels: str, kept: set[str]) -> tuple[Tensor, str]:
        """Without the dimensions that nobody reads."""
        gone = [dim for dim, label in enumerate(labels) if label not in kept]
        return self.writer.sum(x, gone), "".join(label for label in labels if label in kept)

    def _pair(self, x: Tensor, a: str, y: Tensor, b: str, later: set[str]) -> tuple[Tensor, str]:
        x, a = self._summed(x, a, later | set(b))
        y, b = self._summed(y, b, later | set(a))
        both = [label for label in a if label in b]
        batch = "".join(label for label in both if label in later)
        inner = "".join(label for label in both if label not in later)
        if not inner:
            return self._product(x, a, y, b)
        if _is_constant(x, self.constant):
            x, a, y, b = y, b, x, a
        rows, columns = ("".join(label for label in own if label not in both) for own in (a, b))
        sizes = {label: size for own, z in ((a, x), (b, y)) for label, size in zip(own, shape_of(z), strict=True)}
        shape = [sizes[label] for label in batch + rows + columns]
        if not batch and _is_constant(y, self.constant):
            return self._linear(x, a, y, b, rows, columns, inner, sizes), rows + columns
        left = self._matrices(x, a, (batch, rows, inner), sizes)
        right = self._matrices(y, b, (batch, inner, columns), sizes)
        made = (*shape_of(left)[:2], shape_of(right)[2])
        product = self.writer.new("bmm", "default", {"self": left, "mat2": right}, made)
        return self.writer.reshape(product, shape), batch + rows + columns

    def _linear(
        self, x: Tensor, a: str, y: Tensor, b: str, rows: str, columns: str, inner: str, sizes: dict[str, int]
    ) -> Tensor:
        """Of weights that are known when the model is made; the rows keep their dimensions."""
        before = [sizes[label] for label in rows]
        ready = self.writer.permute(x, [a.index(label) for label in rows + inner])
        ready = self.writer.reshape(ready, [*(before or [1]), _size(inner, sizes)])
        weight = self._matrices(y, b, (columns, inner), sizes)
        width = _size(columns, sizes)
        arguments = {"input": ready, "weight": weight, "bias": None}
        product = self.writer.new("linear", "default", arguments, [*(before or [1]), width])
        return self.writer.reshape(product, [*before, *(sizes[label] for label in columns)])

    def _matrices(self, x: Tensor, labels: str, groups: tuple[str, ...], sizes: dict[str, int]) -> Tensor:
        turned = self.writer.permute(x, [labels.index(label) for label in "".join(groups)])
        return self.writer.reshape(turned, [_size(group, sizes) for group in groups])

    def _product(self, x: Tensor, a: str, y: Tensor, b: str) -> tuple[Tensor, str]:
        """Without a sum: each spread over the dimensions of the other."""
        together = a + "".join(label for label in b if label not in a)
        x, y = (self._spread(z, own, together) for z, own in ((x, a), (y, b)))
        shape = [max(one, other) for one, other in zip(shape_of(x), shape_of(y), strict=True)]
        return self.writer.new("mul", "Tensor", {"self": x, "other": y}, shape), together

    def _spread(self, x: Tensor, labels: str, together: str) -> Tensor:
        turned = self.writer.permute(x, [labels.index(label) for label in together if label in labels])
        sizes = iter(shape_of(turned))
        return self.writer.reshape(turned, [next(sizes) if label in labels else 1 for label in together])


def _size(labels: str, sizes: dict[str, int]) -> int:
    return prod(sizes[label] for label in labels)


def _is_constant(x: Any, constant: set[TorchNode]) -> bool:
    return isinstance(x, Parameter) or x in constant
