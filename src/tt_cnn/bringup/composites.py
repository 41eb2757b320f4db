# SPDX-License-Identifier: Apache-2.0
"""Ops of torch that are others under another name, or are made of others, written as those.

`torch.multiply` is `mul`; a variance is a mean of squares. Each entry of the
tables is one op. What is computed from parameters alone stays as it is: torch computes it when the model is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.bringup.node_writer import NodeWriter, Tensor, become, constants_of, shape_of, written_values
from tt_cnn.bringup.parts import cropped, filled_with, select_written, slice_written
from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode

OTHER_NAMES = {
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "absolute": "abs",
    "arctan": "atan",
    "clip": "clamp",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "__and__": "logical_and",
    "__or__": "logical_or",
    "bitwise_not": "logical_not",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
}
"""Ops with the same arguments; those of whole numbers bit by bit are recognised by their dtype."""
_OF_BOOLEANS = frozenset(["__and__", "__or__", "bitwise_not", "bitwise_and", "bitwise_or"])

Rewrite = Callable[[NodeWriter, TorchNode], tuple[str, str, dict[str, Any]] | None]
"""The op, overload and arguments that the node becomes; None where it stays as it is."""


def write_out_composites(graph: TorchGraph) -> None:
    constant = constants_of(graph)
    first_of_pairs(graph)
    for node in [each for each in graph.nodes if each not in constant]:
        if node.op in OTHER_NAMES and (node.op not in _OF_BOOLEANS or str(node.dtype) == "torch.bool"):
            overload = node.target.rsplit(".", 1)[-1]
            become(node, OTHER_NAMES[node.op], overload, node.arguments)
        rewrite = _REWRITES.get(node.op)
        if rewrite is None:
            continue
        writer = NodeWriter(graph, node)
        found = rewrite(writer, node)
        if found is not None:
            writer.placed()
            become(node, *found)


def first_of_pairs(graph: TorchGraph) -> None:
    """Pools with the places of what they chose, which nobody reads, as pools."""
    users = graph.users()
    for node in [each for each in graph.nodes if each.op == "max_pool2d_with_indices"]:
        parts = users[node]
        if any(part.op != "getitem" or part.arguments["0"] != 0 for part in parts):
            continue
        become(node, "max_pool2d", "default", node.arguments)
        node.shape = node.shape[0]  # type: ignore[assignment]
        node.dtype = parts[0].dtype if parts else node.dtype
        for part in parts:
            graph.replace(part, node)
            graph.drop(part)


# -- movement


def _permuted(node: TorchNode, dims: Sequence[int]) -> tuple[str, str, dict[str, Any]]:
    return "permute", "default", {"self": node.arguments["self"], "dims": list(dims)}


def _matrix_transpose(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    *batch, rows, columns = range(len(node.shape))
    return _permuted(node, [*batch, columns, rows])


def _reversed_dims(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    return _permuted(node, list(reversed(range(len(node.shape)))))


def _moved_dims(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    rank = len(node.shape)
    source, target = (
        [dim % rank for dim in ([given] if isinstance(given, int) else given)]
        for given in (node.arguments["source"], node.arguments["destination"])
    )
    others = iter(dim for dim in range(rank) if dim not in source)
    places = dict(zip(target, source, strict=True))
    return _permuted(node, [places[dim] if dim in places else next(others) for dim in range(rank)])


def _joined_at(dim: int) -> Rewrite:
    def rewrite(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
        parts = node.arguments["tensors"]
        if any(len(part.shape) != len(node.shape) or len(part.shape) <= dim for part in parts):
            return None
        return "cat", "default", {"tensors": list(parts), "dim": dim}

    return rewrite


def _tiled(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    x, counts = node.arguments["self"], list(node.arguments["dims"])
    counts = [1] * (len(x.shape) - len(counts)) + counts
    return ("repeat", "default", {"self": x, "repeats": counts}) if len(counts) == len(x.shape) else None


MOST_CUT = 32
"""Runs of neighbours that are cut out and joined to choose places of a dimension."""


def _chosen(writer: NodeWriter, x: Tensor, dim: int, places: Sequence[int]) -> tuple[str, str, dict[str, Any]] | None:
    """These places of a dimension, in this order, as slices that are joined."""
    runs: list[tuple[int, int]] = []
    for place in (each % shape_of(x)[dim] for each in places):
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    if not 1 <= len(runs) <= MOST_CUT:
        return None
    if len(runs) == 1:
        ((start, end),) = runs
        return "slice", "Tensor", {"self": x, "dim": dim, "start": start, "end": end, "step": 1}
    return "cat", "default", {"tensors": [writer.slice(x, dim, *run) for run in runs], "dim": dim}


def _written_places(given: Any) -> list[int] | None:
    """A list of places that the code says."""
    values = written_values(given)
    if values is None or values.dim() != 1 or values.dtype not in (torch.int64, torch.int32):
        return None
    return [int(place) for place in values]


def _indexed(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    """`x[:, [2, 1, 0]]`, with one list."""
    given = [(dim, places) for dim, places in enumerate(node.arguments["indices"]) if places is not None]
    if len(given) != 1 or not isinstance(node.arguments["self"], TorchNode):
        return None
    ((dim, indices),) = given
    places = _written_places(indices)
    return None if places is None else _chosen(writer, node.arguments["self"], dim, places)


def _index_selected(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    places = _written_places(node.arguments["index"])
    if places is None or not isinstance(node.arguments["self"], TorchNode):
        return None
    return _chosen(writer, node.arguments["self"], node.arguments["dim"] % len(node.shape), places)


def _flipped(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    """Along one short dimension, as channels from RGB to BGR."""
    if len(node.arguments["dims"]) != 1:
        return None
    x, dim = node.arguments["self"], node.arguments["dims"][0] % len(node.shape)
    return _chosen(writer, x, dim, range(shape_of(x)[dim] - 1, -1, -1))


def _each_repeated(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    x, count, dim = node.arguments["self"], node.arguments["repeats"], node.arguments.get("dim")
    if not isinstance(count, int) or dim is None:
        return None
    dim %= len(node.shape)
    if not 1 <= count <= MOST_CUT:
        return None
    copies = writer.cat([writer.unsqueeze(x, dim + 1)] * count, dim + 1)
    return "reshape", "default", {"self": copies, "shape": list(node.shape)}


def _mirrored(size: int, before: int, after: int) -> list[int]:
    return [*range(before, 0, -1), *range(size), *range(size - 2, size - 2 - after, -1)]


def _held(size: int, before: int, after: int) -> list[int]:
    return [0] * before + [*range(size)] + [size - 1] * after


def _around(size: int, before: int, after: int) -> list[int]:
    return [*range(size - before, size), *range(size), *range(after)]


_BORDERS = {"reflect": _mirrored, "replicate": _held, "circular": _around}


def _padded(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    """Borders that repeat values of the tensor, as slices that are joined."""
    places = _BORDERS.get(node.arguments.get("mode", "constant"))
    border, x = list(node.arguments["pad"]), node.arguments["self"]
    if not isinstance(x, TorchNode):
        return None
    if min(border) < 0:
        return cropped(writer, node)
    if places is None:
        return None
    shape, found = list(shape_of(x)), None
    for number in range(len(border) // 2):
        dim, (before, after) = len(shape) - 1 - number, border[2 * number : 2 * number + 2]
        if (before, after) == (0, 0):
            continue
        if found is not None:
            x = writer.new(*found, shape)
        found = _chosen(writer, x, dim, places(shape[dim], before, after))
        if found is None:
            return None
        shape[dim] += before + after
    return found


# -- sums of squares


def _dims(node: TorchNode, x: Tensor) -> list[int]:
    rank, given = len(x.shape), node.arguments.get("dim")
    dims = [given] if isinstance(given, int) else given or list(range(rank))
    return sorted(dim % rank for dim in dims)


def _alone(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    return [1 if dim in dims else size for dim, size in enumerate(shape)]


def _squares(writer: NodeWriter, node: TorchNode) -> tuple[Tensor, list[int], int] | None:
    """Squares of what differs from the mean, the dimensions, and how many of them are in a variance."""
    x, correction = node.arguments["self"], node.arguments.get("correction", 1)
    if not node.shape or isinstance(node.shape[0], tuple) or "unbiased" in node.arguments:
        correction = int(bool(node.arguments.get("unbiased", True)))
    if not isinstance(correction, (int, float, type(None))) or (node.shape and isinstance(node.shape[0], tuple)):
        return None
    dims = _dims(node, x)
    shape = shape_of(x)
    count = 1
    for dim in dims:
        count *= shape[dim]
    correction = 1 if correction is None else int(correction)
    if count <= correction:
        return None
    kept = {"self": x, "dim": dims, "keepdim": True, "dtype": None}
    mean = writer.new("mean", "dim", kept, _alone(shape, dims))
    off = writer.new("sub", "Tensor", {"self": x, "other": mean}, shape)
    squares = writer.new("square", "default", {"self": off}, shape)
    if correction:
        scale = {"self": squares, "other": count / (count - correction)}
        squares = writer.new("mul", "Tensor", scale, shape)
    return squares, dims, correction


def _variance(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    found = _squares(writer, node)
    if found is None:
        return None
    squares, dims, _ = found
    return "mean", "dim", {"self": squares, "dim": dims, "keepdim": node.arguments.get("keepdim", False), "dtype": None}


def _deviation(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    found = _variance(writer, node)
    if found is None:
        return None
    return "sqrt", "default", {"self": writer.new(*found, node.shape)}  # type: ignore[arg-type]


def _rms_norm(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    """x / sqrt(mean of squares + eps), times weights."""
    x, sizes = node.arguments["input"], node.arguments["normalized_shape"]
    eps = node.arguments.get("eps")
    shape = shape_of(x)
    dims = list(range(len(shape) - len(sizes), len(shape)))
    one = _alone(shape, dims)
    squares = writer.new("square", "default", {"self": x}, shape)
    mean = writer.new("mean", "dim", {"self": squares, "dim": dims, "keepdim": True, "dtype": None}, one)
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    more = writer.new("add", "Tensor", {"self": mean, "other": eps, "alpha": 1}, one)
    root = writer.new("rsqrt", "default", {"self": more}, one)
    if node.arguments.get("weight") is None:
        return "mul", "Tensor", {"self": x, "other": root}
    normed = writer.new("mul", "Tensor", {"self": x, "other": root}, shape)
    return "mul", "Tensor", {"self": normed, "other": node.arguments["weight"]}


# -- exponentials


def _log_of_sum(writer: NodeWriter, x: Tensor, dims: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """x less its largest value, so that no exponential overflows; the logarithm of the sum of those; the largest."""
    shape = shape_of(x)
    one = _alone(shape, dims)
    largest = writer.new("amax", "default", {"self": x, "dim": list(dims), "keepdim": True}, one)
    less = writer.new("sub", "Tensor", {"self": x, "other": largest}, shape)
    powers = writer.new("exp", "default", {"self": less}, shape)
    total = writer.new("sum", "dim_IntList", {"self": powers, "dim": list(dims), "keepdim": True, "dtype": None}, one)
    return less, writer.new("log", "default", {"self": total}, one), largest


def _log_softmax(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    """Not the logarithm of a softmax, which has none where the softmax is too small for a number."""
    x = node.arguments["self"]
    less, log, _ = _log_of_sum(writer, x, _dims(node, x))
    return "sub", "Tensor", {"self": less, "other": log}


def _log_sum_exp(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    x = node.arguments["self"]
    dims = _dims(node, x)
    _, log, largest = _log_of_sum(writer, x, dims)
    total = {"self": log, "other": largest, "alpha": 1}
    if node.arguments.get("keepdim", False):
        return "add", "Tensor", total
    both = writer.new("add", "Tensor", total, _alone(shape_of(x), dims))
    return "reshape", "default", {"self": both, "shape": list(node.shape)}


def _gated(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    x = node.arguments["self"]
    dim = node.arguments.get("dim", -1) % len(x.shape)
    half = shape_of(x)[dim] // 2
    gate = writer.new("sigmoid", "default", {"self": writer.slice(x, dim, half, 2 * half)}, node.shape)  # type: ignore[arg-type]
    return "mul", "Tensor", {"self": writer.slice(x, dim, 0, half), "other": gate}


# -- products and sums


def _product_and_sum(names: tuple[str, str], product: str) -> Rewrite:
    """input + one * other, as `addmm`, `baddbmm` and `addcmul` have it."""

    def rewrite(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
        if node.arguments.get("beta", 1) != 1 or node.arguments.get("alpha", node.arguments.get("value", 1)) != 1:
            return None
        one, other = (node.arguments[name] for name in names)
        overload, second = ("Tensor", "other") if product == "mul" else ("default", "mat2")
        made = writer.new(product, overload, {"self": one, second: other}, node.shape)  # type: ignore[arg-type]
        return "add", "Tensor", {"self": made, "other": node.arguments["self"], "alpha": 1}

    return rewrite


def _convolution_of_lines(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    """As that of images with one row."""
    own = node.arguments
    if isinstance(own["padding"], str) or len(shape_of(own["input"])) != 3:
        return None
    window = {name: [least, *own[name]] for name, least in (("stride", 1), ("padding", 0), ("dilation", 1))}
    batch, channels, length = node.shape
    given = {"input": writer.unsqueeze(own["input"], 2), "weight": writer.unsqueeze(own["weight"], 2)}
    arguments = {**given, "bias": own["bias"], **window, "groups": own["groups"]}
    made = writer.new("conv2d", "default", arguments, (batch, channels, 1, length))  # type: ignore[arg-type]
    return "reshape", "default", {"self": made, "shape": list(node.shape)}


def _between(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    """start + weight * (end - start)."""
    start, end, weight = (node.arguments[name] for name in ("self", "end", "weight"))
    if not isinstance(weight, (int, float)):
        return None
    way = writer.new("sub", "Tensor", {"self": end, "other": start}, node.shape)  # type: ignore[arg-type]
    part = writer.new("mul", "Tensor", {"self": way, "other": weight}, node.shape)  # type: ignore[arg-type]
    return "add", "Tensor", {"self": start, "other": part, "alpha": 1}


def _inverse_power(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    exponent = node.arguments.get("exponent")
    if not isinstance(exponent, (int, float)) or exponent >= 0 or not isinstance(node.arguments["self"], TorchNode):
        return None
    positive = {"self": node.arguments["self"], "exponent": -exponent}
    return "reciprocal", "default", {"self": writer.new("pow", "Tensor_Scalar", positive, node.shape)}  # type: ignore[arg-type]


def _quotient_rounded_down(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]] | None:
    other = node.arguments["other"]
    if isinstance(other, (int, float)) and "int" in str(node.dtype):
        return None
    quotient = {"self": node.arguments["self"], "other": other}
    return "floor", "default", {"self": writer.new("div", "Tensor", quotient, node.shape)}  # type: ignore[arg-type]


def _filled(writer: NodeWriter, node: TorchNode) -> tuple[str, str, dict[str, Any]]:
    given = {"condition": node.arguments["mask"], "self": node.arguments["value"], "other": node.arguments["self"]}
    return "where", "self", given


_REWRITES: dict[str, Rewrite] = {
    "mT": _matrix_transpose,
    "mH": _matrix_transpose,
    "adjoint": _matrix_transpose,
    "numpy_T": _reversed_dims,
    "movedim": _moved_dims,
    "moveaxis": _moved_dims,
    "hstack": _joined_at(1),
    "vstack": _joined_at(0),
    "dstack": _joined_at(2),
    "tile": _tiled,
    "index": _indexed,
    "index_select": _index_selected,
    "flip": _flipped,
    "repeat_interleave": _each_repeated,
    "pad": _padded,
    "slice_scatter": slice_written,
    "select_scatter": select_written,
    "zeros_like": filled_with(0),
    "new_zeros": filled_with(0),
    "ones_like": filled_with(1),
    "new_ones": filled_with(1),
    "full_like": filled_with(None),
    "new_full": filled_with(None),
    "fill": filled_with(None),
    "zero": filled_with(0),
    "var": _variance,
    "std": _deviation,
    "rms_norm": _rms_norm,
    "log_softmax": _log_softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _log_sum_exp,
    "glu": _gated,
    "addmm": _product_and_sum(("mat1", "mat2"), "mm"),
    "baddbmm": _product_and_sum(("batch1", "batch2"), "bmm"),
    "addcmul": _product_and_sum(("tensor1", "tensor2"), "mul"),
    "conv1d": _convolution_of_lines,
    "lerp": _between,
    "pow": _inverse_power,
    "floor_divide": _quotient_rounded_down,
    "masked_fill": _filled,
}
