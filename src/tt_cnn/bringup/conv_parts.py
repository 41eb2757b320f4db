# SPDX-License-Identifier: Apache-2.0
"""Passes that spare cuts: parts of a join are its operands, parts of a pointwise convolution are convolutions.

A cut of a tensor in shards is a move out of them and back; a convolution with some of the weights reads its input once
more, and gives what its readers want in shards at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn.bringup.node_writer import NodeWriter, become, shape_of
from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode, first_input

MOST_PARTS = 6
CHUNKS = frozenset(["chunk", "split", "split_with_sizes", "tensor_split"])
_SPLITTING_VIEWS = frozenset(["view", "reshape", "unflatten", "_unsafe_view"])
_VIEWS = _SPLITTING_VIEWS | {"flatten", "transpose", "permute", "unsqueeze", "squeeze"}
_TOGETHER = frozenset(["scaled_dot_product_attention"])
"""Ops that take the parts of one tensor as a whole."""


@dataclass(frozen=True)
class Part:
    """Channels from `start` to `end` of each group of `of` channels, and the node that they are."""

    node: TorchNode
    start: int
    end: int
    of: int

    @property
    def channels(self) -> tuple[int, int, int]:
        return self.start, self.end, self.of


# -- joins


def cut_before_joining(graph: TorchGraph) -> None:
    """Cuts of a join are made of the operands that they cover, also through views and joins along other dimensions.

    Where operands themselves would have to be cut, only slices along the dimension of the join are.
    """
    for node in list(graph.nodes):
        taken = _taken(node)
        if taken is None:
            continue
        source, dim, start, end = taken
        writer = NodeWriter(graph, node)
        found = _Cutting(graph, writer).of(source, dim, start, end)
        direct = node.op == "slice" and source.op == "cat" and _joins_along(source, dim)
        if not isinstance(found, TorchNode) or (not direct and any(made.op == "slice" for made in writer.made)):
            continue
        writer.placed()
        if found in writer.made:
            found.fused["result"] = node.name
        graph.replace(node, found)
        graph.drop(node)


def _taken(node: TorchNode) -> tuple[TorchNode, int, int, int] | None:
    """The tensor that a node is a cut of, the dimension, and from where to where."""
    source = first_input(node)
    if source is None:
        return None
    if node.op == "slice" and node.arguments.get("step", 1) == 1:
        return source, node.arguments.get("dim", 0) % len(node.shape), *bounds(node)
    if node.op != "getitem" or source.op not in CHUNKS:
        return None
    whole, place = source.arguments["self"], node.arguments["0"]
    dim = source.arguments.get("dim", 0) % len(node.shape)
    if not isinstance(whole, TorchNode):
        return None
    sizes: list[int] = [shape[dim] for shape in source.shape]  # type: ignore[index]
    start = sum(sizes[:place])
    return whole, dim, start, start + sizes[place]


def _joins_along(node: TorchNode, dim: int) -> bool:
    return bool(node.arguments.get("dim", 0) % len(node.shape) == dim)


class _Cutting:
    """Cuts, taken as far up as joins go."""

    def __init__(self, graph: TorchGraph, writer: NodeWriter) -> None:
        self.writer, self.users = writer, graph.users()
        self.outputs = set(graph.outputs)

    def of(self, x: Any, dim: int, start: int, end: int) -> Any:
        if isinstance(x, TorchNode) and x.op == "cat":
            if _joins_along(x, dim):
                return self._of_join(x, dim, start, end)
            if self._is_cut_only(x):
                along = x.arguments.get("dim", 0) % len(x.shape)
                return self.writer.cat([self.of(part, dim, start, end) for part in x.arguments["tensors"]], along)
        if isinstance(x, TorchNode) and x.op in _SPLITTING_VIEWS | {"flatten"}:
            source = first_input(x)
            kept = source is not None and shape_of(source)[: dim + 1] == shape_of(x)[: dim + 1]
            if source is not None and kept and self._is_cut_only(x) and _leads_to_join(source):
                shape = list(shape_of(x))
                shape[dim] = end - start
                return self.writer.reshape(self.of(source, dim, start, end), shape)
        return self.writer.slice(x, dim, start, end)

    def _of_join(self, x: TorchNode, dim: int, start: int, end: int) -> Any:
        parts, place = [], 0
        for part in x.arguments["tensors"]:
            size = shape_of(part)[dim]
            first, last = max(start - place, 0), min(end - place, size)
            if first < last:
                parts.append(self.of(part, dim, first, last) if (first, last) != (0, size) else part)
            place += size
        return parts[0] if len(parts) == 1 else self.writer.cat(parts, dim)

    def _is_cut_only(self, x: TorchNode) -> bool:
        """Whether nobody reads the whole."""
        if x in self.outputs:
            return False
        return all(
            user.op in CHUNKS | {"slice", "cat"} or (user.op in _VIEWS and self._is_cut_only(user))
            for user in self.users.get(x, ())
        )


def _leads_to_join(node: TorchNode | None) -> bool:
    while node is not None and node.op in _VIEWS:
        node = first_input(node)
    return node is not None and node.op == "cat"


def bounds(node: TorchNode) -> tuple[int, int]:
    """Of a slice, within the size of the dimension."""
    source = node.arguments["self"]
    size = source.shape[node.arguments.get("dim", 0)]
    start, end = node.arguments.get("start") or 0, node.arguments.get("end")
    places = [size if place is None else place for place in (start, end)]
    first, last = (max(0, min(size, place + size if place < 0 else place)) for place in places)
    return first, last


# -- convolutions


def divide_convolutions(graph: TorchGraph) -> None:
    """A pointwise convolution of which only parts are read becomes one for each part."""
    for node in [each for each in graph.nodes if each.op == "conv2d"]:
        parts = _parts(graph, node)
        if parts is None or not 1 < len({part.channels for part in parts}) <= MOST_PARTS:
            continue
        channels = shape_of(node)[1]
        if sum(channels // of * (end - start) for start, end, of in {part.channels for part in parts}) > channels:
            continue
        _divide(graph, node, parts)


def _parts(graph: TorchGraph, conv: TorchNode) -> list[Part] | None:
    """None where somebody reads the whole."""
    weight = conv.arguments["weight"]
    pointwise = tuple(weight.shape[2:]) == (1, 1) and conv.arguments["groups"] == 1
    if not pointwise or conv in graph.outputs or tuple(conv.shape[2:]) == (1, 1):
        return None
    users = graph.users()
    found: list[Part] = []
    for user in users[conv]:
        if user in graph.outputs:
            return None
        if user.op in CHUNKS:
            read = _of_chunks(user, users[user])
        elif user.op in _SPLITTING_VIEWS:
            read = _of_groups(conv, user, users[user])
        else:
            own = _cut(user, 1)
            read = None if own is None else [Part(user, *own, shape_of(conv)[1])]
        if read is None or any(_taken_together(part.node, users) for part in read):
            return None
        found += read
    return found


def _of_chunks(chunks: TorchNode, readers: list[TorchNode]) -> list[Part] | None:
    dim = chunks.arguments.get("dim", 0)
    if dim not in (1, -3) or any(reader.op != "getitem" for reader in readers):
        return None
    sizes = [shape[1] for shape in chunks.shape]  # type: ignore[index]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    places = [reader.arguments["0"] for reader in readers]
    return [
        Part(reader, starts[place], starts[place] + sizes[place], sum(sizes))
        for reader, place in zip(readers, places, strict=True)
    ]


def _of_groups(conv: TorchNode, view: TorchNode, readers: list[TorchNode]) -> list[Part] | None:
    """Cuts behind a view that takes the channels apart: (N, groups, channels of each, H, W)."""
    batch, _, *sizes = shape_of(conv)
    if len(view.shape) != len(conv.shape) + 1 or view.shape[0] != batch or list(view.shape[3:]) != sizes:
        return None
    cuts = [_cut(reader, 2) for reader in readers]
    of = shape_of(view)[2]
    return None if None in cuts else [Part(r, *cut, of) for r, cut in zip(readers, cuts, strict=True) if cut]


def _cut(node: TorchNode, dim: int) -> tuple[int, int] | None:
    """What a slice or a selection along this dimension takes."""
    if node.op not in ("slice", "select") or node.arguments.get("dim", 0) % len(node.arguments["self"].shape) != dim:
        return None
    if node.op == "select":
        place = node.arguments["index"] % node.arguments["self"].shape[dim]
        return place, place + 1
    return bounds(node) if node.arguments.get("step", 1) == 1 else None


def _taken_together(node: TorchNode, users: dict[TorchNode, list[TorchNode]]) -> bool:
    """Whether it goes, behind views, into an op that takes all parts at once."""
    return any(
        user.op in _TOGETHER or (user.op in _VIEWS and _taken_together(user, users)) for user in users.get(node, ())
    )


def _divide(graph: TorchGraph, conv: TorchNode, parts: list[Part]) -> None:
    """The parts stand where the convolution stood: their input lives no longer than it did."""
    writer = NodeWriter(graph, conv)
    made: dict[tuple[int, int, int], TorchNode] = {}
    for part in parts:
        if part.channels not in made:
            made[part.channels] = _convolution(writer, conv, part)
        node = part.node
        if tuple(node.shape) == tuple(made[part.channels].shape):
            made[part.channels].fused["result"] = node.name
            graph.replace(node, made[part.channels])
            graph.drop(node)
        else:
            become(node, "reshape", "default", {"self": made[part.channels], "shape": list(node.shape)})
    writer.placed()


def _convolution(writer: NodeWriter, conv: TorchNode, part: Part) -> TorchNode:
    batch, channels, *sizes = shape_of(conv)
    shape = [batch, channels // part.of * (part.end - part.start), *sizes]
    made = writer.new("conv2d", conv.target.rpartition(".")[2], dict(conv.arguments), shape)
    own = {key: value for key, value in conv.fused.items() if key != "result"}
    whole = part.of == channels
    made.fused = {**own, "made": True, "outputs": part.channels[:2] if whole else part.channels}
    return made
