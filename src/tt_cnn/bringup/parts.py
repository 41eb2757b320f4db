# SPDX-License-Identifier: Apache-2.0
"""Ops that write a part of a tensor or cut its border, as slices that are joined; and tensors filled with a number."""

from __future__ import annotations

from typing import Any

from tt_cnn.bringup.node_writer import NodeWriter, Tensor, shape_of, written_values
from tt_cnn.bringup.torch_graph import TorchNode

Becomes = tuple[str, str, dict[str, Any]]
MOST_STEPS = 4
"""Of a slice with steps that is written: all that lie between are cut out, too."""


def slice_written(writer: NodeWriter, node: TorchNode) -> Becomes | None:
    """`x[:, start:end:step] = src`."""
    own = node.arguments
    x, part = own["self"], own["src"]
    dim, step = own.get("dim", 0) % len(node.shape), own.get("step", 1)
    size = shape_of(x)[dim]
    start, end = (_place(own.get(name), default, size) for name, default in (("start", 0), ("end", size)))
    if _is_slice(part, x, dim, (start, end, step)):
        return "reshape", "default", {"self": x, "shape": list(node.shape)}
    if step == 1:
        return _put(writer, x, part, dim, start) if end - start == shape_of(part)[dim] else None
    if step > MOST_STEPS or size % step or start >= step or end <= size - step + start:
        return None
    others = [writer.slice(x, dim, first, size, step) for first in range(step)]
    others[start] = part
    turns = writer.cat([writer.unsqueeze(each, dim + 1) for each in others], dim + 1)
    return "reshape", "default", {"self": turns, "shape": list(node.shape)}


def _is_slice(part: Tensor, x: Tensor, dim: int, places: tuple[int, int, int]) -> bool:
    """Whether the part is what `x` has there already: an op in place is followed by a copy to where it wrote."""
    if not isinstance(part, TorchNode) or part.op != "slice" or part.arguments["self"] is not x:
        return False
    own, size = part.arguments, shape_of(x)[dim]
    start, end = (_place(own.get(name), default, size) for name, default in (("start", 0), ("end", size)))
    return own.get("dim", 0) % len(part.shape) == dim and (start, end, own.get("step", 1)) == places


def select_written(writer: NodeWriter, node: TorchNode) -> Becomes:
    """`x[:, index] = src`."""
    own = node.arguments
    dim = own["dim"] % len(node.shape)
    return _put(writer, own["self"], writer.unsqueeze(own["src"], dim), dim, own["index"] % shape_of(own["self"])[dim])


def _put(writer: NodeWriter, x: Tensor, part: Tensor, dim: int, start: int) -> Becomes:
    size, end = shape_of(x)[dim], start + shape_of(part)[dim]
    parts = [part]
    if start:
        parts.insert(0, writer.slice(x, dim, 0, start))
    if end < size:
        parts.append(writer.slice(x, dim, end, size))
    return "cat", "default", {"tensors": parts, "dim": dim}


def _place(given: int | None, default: int, size: int) -> int:
    if given is None:
        return default
    return max(0, min(size, given + size if given < 0 else given))


def cropped(writer: NodeWriter, node: TorchNode) -> Becomes | None:
    """Negative padding: slices of the tensor, and what is left of the border around them."""
    border, x = list(node.arguments["pad"]), node.arguments["self"]
    for number in range(len(border) // 2):
        dim = len(node.shape) - 1 - number
        before, after = (max(0, -each) for each in border[2 * number : 2 * number + 2])
        x = writer.slice(x, dim, before, shape_of(x)[dim] - after)
    left = [max(0, each) for each in border]
    if not any(left):
        return "reshape", "default", {"self": x, "shape": list(node.shape)}
    if node.arguments.get("mode", "constant") != "constant":
        return None
    return "pad", "default", {"self": x, "pad": left, "mode": "constant", "value": node.arguments.get("value")}


def filled_with(number: float | None) -> Any:
    """`zeros_like` and its kind: the numbers of the tensor have no part in it, so it is a constant."""

    def rewrite(writer: NodeWriter, node: TorchNode) -> Becomes | None:
        value = number
        if value is None:
            value = node.arguments.get("fill_value", node.arguments.get("value"))
        written = written_values(value)
        if written is not None and written.numel() == 1:
            value = written.item()
        if not isinstance(value, (int, float)):
            return None
        return "full", "default", {"size": list(node.shape), "fill_value": value, "dtype": node.dtype}

    return rewrite
