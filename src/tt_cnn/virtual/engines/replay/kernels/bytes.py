# SPDX-License-Identifier: Apache-2.0
"""A graph in 8 bits with its values in bytes: what was made a float again at once stays a byte, and layers take it so.

A byte q of a node stands for (q - zero) * scale; both are found by `steps_of` from the `quantize` that made it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tt_cnn.virtual.engines.replay.evaluate import value_of
from tt_cnn.virtual.engines.replay.graph import Graph, Node, ordered
from tt_cnn.virtual.engines.replay.kernels.fusion import LANES, PASSING, is_step
from tt_cnn.virtual.engines.replay.kernels.memory import allocate

PANEL, TOGETHER = 64, 4
"""Columns of a panel of weights, and channels that are multiplied at a time, as byte_convolution.h has them."""
_REARRANGING = ("reshape", "permute", "slice")


@dataclass(frozen=True)
class Steps:
    """What a byte stands for."""

    scale: float
    zero: int


def steps_of(node: Node) -> Steps:
    while node.kind in PASSING:
        node = node.source
    scale, zero = (one.value for one in node.inputs[1:])
    assert scale is not None and zero is not None
    return Steps(float(scale), int(zero))


def in_bytes(outputs: Sequence[Node]) -> list[Node]:
    """The same outputs, with layers, pools, concatenations and additions on bytes where they get them.

    A layer is a `byte_conv` of (image, weights, their scales, bias) or a `byte_conv_transpose`. Additions may take an
    image of bytes for one of floats.
    """
    if not any(node.kind == "quantize" for node in ordered(outputs)):
        return list(outputs)
    rewrite = _InBytes()
    for node in ordered(outputs):
        rewrite.take(node)
    return [rewrite.floats(node) for node in outputs]


class _InBytes:
    def __init__(self) -> None:
        self._graph = Graph(exact=True)
        self._floats: dict[int, Node] = {}
        self._bytes: dict[int, Node] = {}
        """The bytes of nodes whose values are floats that bytes stand for."""

    def take(self, node: Node) -> None:
        if node.kind == "dequantize" and node.source.value is not None:
            known = [one.value for one in node.inputs if one.value is not None]
            self._floats[id(node)] = self._constant(value_of(node, known))
        elif node.kind == "dequantize":
            self._bytes[id(node)] = self._floats[id(node.source)]
        elif node.kind in PASSING and self._stays_bytes(node):
            self._bytes[id(node)] = self._passed(node, tuple(self._bytes[id(one)] for one in node.inputs))
        else:
            self._floats[id(node)] = self._layer(node) or self._sum(node) or self._rebuilt(node)

    @staticmethod
    def _passed(node: Node, inputs: tuple[Node, ...]) -> Node:
        """What is rounded and then rearranged is rearranged first: several rearrangements are one step of floats."""
        first = inputs[0]
        if node.kind not in _REARRANGING or first.kind != "quantize":
            return Node(node.kind, inputs, node.params, node.shape)
        moved = Node(node.kind, (first.source,), node.params, node.shape)
        return Node("quantize", (moved, *first.inputs[1:]), (), node.shape)

    def floats(self, node: Node) -> Node:
        if id(node) not in self._floats:
            whole = self._bytes[id(node)]
            self._floats[id(node)] = Node("dequantize", (whole,), (), node.shape)
        return self._floats[id(node)]

    def _constant(self, value: torch.Tensor) -> Node:
        return self._graph.constant(value)

    def _rebuilt(self, node: Node) -> Node:
        return Node(node.kind, tuple(self.floats(one) for one in node.inputs), node.params, node.shape, node.value)

    def _stays_bytes(self, node: Node) -> bool:
        if not all(id(one) in self._bytes for one in node.inputs):
            return False
        steps = {steps_of(self._bytes[id(one)]) for one in node.inputs}
        by_torch = node.kind in _REARRANGING
        return len(steps) == 1 and (by_torch or (is_step(node) if node.kind != "cat" else _joins_channels(node)))

    def _sum(self, node: Node) -> Node | None:
        """An addition of images that steps do: it takes bytes as they are."""
        if node.kind != "binary" or node.params != ("add",) or not any(id(one) in self._bytes for one in node.inputs):
            return None
        same = all(one.shape == node.shape and one.value is None for one in node.inputs)
        if not same or len(node.shape) != 4 or node.shape[1] < LANES:
            return None
        taken = tuple(self._bytes.get(id(one)) or self.floats(one) for one in node.inputs)
        return Node("binary", taken, node.params, node.shape)

    def _layer(self, node: Node) -> Node | None:
        if node.kind not in ("conv", "conv_transpose", "matmul"):
            return None
        source, weight, *bias = node.inputs
        if id(source) not in self._bytes or weight.kind != "dequantize" or weight.source.value is None:
            return None
        whole, scales = weight.source.value, weight.inputs[1].value
        assert scales is not None
        if any(one.value is None for one in bias):
            return None
        row = bias[0].value if bias else None
        if node.kind == "matmul":
            return self._product(node, whole, scales)
        if not is_step(_as_floats(node)):
            return None
        inputs = [self._bytes[id(source)], self._constant(whole), self._constant(scales)]
        inputs += [] if row is None else [self._constant(row)]
        return Node(f"byte_{node.kind}", tuple(inputs), node.params, node.shape)

    def _product(self, node: Node, matrix: torch.Tensor, scales: torch.Tensor) -> Node:
        """Rows times a matrix, as pixels through a 1x1 convolution."""
        graph, rows = self._graph, self._bytes[id(node.inputs[0])]
        matrix = matrix.reshape(matrix.shape[-2:])
        inner, columns = matrix.shape
        pixels = math.prod(node.shape[:-1])
        shape, padding = (1, 1, pixels, inner), (0, 0, 0, 0)
        if rows.kind == "quantize":
            image, padding = _without_padding(graph.permute(graph.reshape(rows.source, shape), (0, 3, 1, 2)))
            image = Node("quantize", (image, *rows.inputs[1:]), rows.params, image.shape)
        else:
            flat = Node("reshape", (rows,), (shape,), shape)
            image = Node("permute", (flat,), ((0, 3, 1, 2),), (1, inner, 1, pixels))
        inputs = (image, self._constant(matrix.t().contiguous()[:, :, None, None]), self._constant(scales))
        made = Node("byte_conv", inputs, ((1, 1), padding, (1, 1), 1), (1, columns, 1, pixels))
        return graph.reshape(graph.permute(made, (0, 2, 3, 1)), node.shape)


def _joins_channels(node: Node) -> bool:
    return node.params == (1,) and len(node.shape) == 4


def _without_padding(image: Node) -> tuple[Node, tuple[int, int, int, int]]:
    """An image, and how many pixels of 0 are missing above, left of, below and right of it: a byte stands for 0, so a
    layer takes them for its padding."""
    if image.kind != "pad" or image.params[2] != 0.0 or any(image.params[0][:2] + image.params[1][:2]):
        return image, (0, 0, 0, 0)
    (_, _, top, left), (_, _, bottom, right), _ = image.params
    return image.source, (top, left, bottom, right)


def _as_floats(layer: Node) -> Node:
    """The layer with float weights, for the question whether the kernels have it."""
    source, weight, *bias = layer.inputs
    floats = Node("constant", (), (), weight.shape, torch.zeros(()).expand(weight.shape))
    return Node(layer.kind, (source, floats, *bias), layer.params, layer.shape)


# --- what the library takes ------------------------------------------------------------------------------------------


def packed_weights(weight: torch.Tensor, by_rows: bool = False) -> torch.Tensor:
    """(out, in, height, width) as panels of rows: a row has four channels of each of 64 columns side by side.

    `by_rows`: the places of a kernel's row and their channels count as channels of one place.
    """
    if by_rows:
        weight = weight.permute(0, 3, 1, 2).reshape(weight.shape[0], -1, weight.shape[2], 1)
    out, channels, height, width = weight.shape
    columns = -(-out // LANES) * LANES
    padded = torch.zeros(columns, -(-channels // TOGETHER) * TOGETHER, height, width, dtype=torch.int8)
    padded[:out, :channels] = weight
    panels = [
        one.reshape(one.shape[0], -1, TOGETHER, height * width).permute(3, 1, 0, 2).reshape(-1)
        for one in padded.split(PANEL)
    ]
    packed = allocate(padded.numel() // torch.float32.itemsize).view(torch.int8)
    return torch.cat(panels, out=packed)


@dataclass(frozen=True)
class Sums:
    """Where the sums of each channel begin, and what makes floats of them."""

    offsets: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor


def sums_of(
    weight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    source: Steps,
    unit: float = 1.0,
    zero: float = 0.0,
) -> Sums:
    """For results in units of `unit`, counted from `-zero`. The zero of the source goes in advance."""
    out = weight.shape[0]
    offsets = -source.zero * weight.to(torch.int64).reshape(out, -1).sum(1)
    factor = scales.double().reshape(-1).expand(out) * source.scale / unit
    row = torch.zeros(out, dtype=torch.float64) if bias is None else bias.double() / unit
    rest = -out % PANEL
    return Sums(
        _padded(offsets.to(torch.int32), rest), _padded(factor.float(), rest), _padded((row + zero).float(), rest)
    )


def _padded(row: torch.Tensor, rest: int) -> torch.Tensor:
    return torch.nn.functional.pad(row, (0, rest)).contiguous()
