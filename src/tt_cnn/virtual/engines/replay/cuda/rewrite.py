# SPDX-License-Identifier: Apache-2.0
"""A graph as the GPU's kernels like it: products with weights are convolutions, wide pools are chains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch.nn.functional as F

from tt_cnn.virtual.engines.replay.graph import Graph, Node
from tt_cnn.virtual.engines.replay.rewrite import COMMON, rewritten

FEW = 4
"""Channels, of which four pixels have 16: what the kernels take at once."""


def _matmul(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """Rows times a constant matrix: images of one pixel through a 1x1 convolution. Rows of zeros need none."""
    rows, matrix = inputs
    if matrix.value is None or math.prod(matrix.shape[:-2]) != 1:
        return graph.matmul(rows, matrix)
    filled = _padded_rows(rows)
    if filled is not None:
        source, after = filled
        product = _matmul(graph, graph.matmul(source, matrix), (source, matrix))
        return graph.reshape(graph.pad(product, (0,) * len(after), after, 0.0), node.shape)
    channels, results = matrix.shape[-2:]
    source, factor = _unscaled(rows)
    weight = graph.constant((matrix.value.reshape(channels, results).t() * factor).contiguous()[:, :, None, None])
    pixels = graph.reshape(source, (math.prod(rows.shape[:-1]), channels, 1, 1))
    product = graph.conv(pixels, weight, None, (1, 1), (0, 0, 0, 0), (1, 1), 1)
    return graph.reshape(product, node.shape)


def _padded_rows(rows: Node) -> tuple[Node, tuple[int, ...]] | None:
    """What has zeros after its rows, as a card's tiles have: what it is without them, and how many there are."""
    inner = rows.source if rows.kind == "reshape" else rows
    if inner.kind != "pad" or inner.params[2] != 0.0 or any(inner.params[0]) or inner.params[1][-1]:
        return None
    if inner.shape[-1] != rows.shape[-1] or any(inner.params[1][:-2]):
        return None
    return inner.source, inner.params[1]


def _unscaled(rows: Node) -> tuple[Node, float]:
    """Without factors that are the same for all, and their product; its shape may be another."""
    factor = 1.0
    while True:
        if rows.kind == "reshape":
            rows = rows.source
            continue
        numbers = [one.value for one in rows.inputs if one.value is not None and one.value.numel() == 1]
        if rows.kind != "binary" or rows.params != ("mul",) or len(numbers) != 1:
            return rows, factor
        factor *= float(numbers[0])
        rows = rows.inputs[1] if rows.inputs[0].value is numbers[0] else rows.inputs[0]


def _conv(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """A window that moves by two pixels over few channels: over one that has four pixels as channels, by one. Those
    channels are read as vectors, singly they would be gathered."""
    stride, (top, left, _, _), dilation, groups = node.params
    x, weight = inputs[0], inputs[1].value
    (n, c, h, w), (_, out, oh, ow) = x.shape, node.shape
    if weight is None or c > FEW or groups != 1 or tuple(stride) != (2, 2) or tuple(dilation) != (1, 1):
        return graph._node(node.kind, tuple(inputs), node.params, node.shape)
    high, wide = (-(-side // 2) for side in weight.shape[2:])
    rows, columns = 2 * (oh + high - 1), 2 * (ow + wide - 1)
    if rows < h + top or columns < w + left:  # pixels that no window reaches are cut off
        x = graph.slice(x, (0, 0, 0, 0), (n, c, min(h, rows - top), min(w, columns - left)))
    after = (0, FEW - c, rows - x.shape[2] - top, columns - x.shape[3] - left)
    padded = graph.pad(x, (0, 0, top, left), after, 0.0)
    split = graph.permute(graph.reshape(padded, (n, FEW, rows // 2, 2, columns // 2, 2)), (0, 3, 5, 1, 2, 4))
    folded = graph.reshape(split, (n, 4 * FEW, rows // 2, columns // 2))
    taps = F.pad(weight, (0, 2 * wide - weight.shape[3], 0, 2 * high - weight.shape[2], 0, FEW - c))
    taps = taps.reshape(out, FEW, high, 2, wide, 2).permute(0, 3, 5, 1, 2, 4).reshape(out, 4 * FEW, high, wide)
    params = ((1, 1), (0, 0, 0, 0), (1, 1), 1)
    return graph._node("conv", (folded, graph.constant(taps.contiguous()), *inputs[2:]), params, node.shape)


def _avg_pool(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """Over the whole image it is a mean."""
    kernel, _, padding, _ = node.params
    if kernel == inputs[0].shape[2:] and not any(padding):
        return graph.reduce("mean", inputs[0], (2, 3), True)
    return graph._node(node.kind, tuple(inputs), node.params, node.shape)


REWRITES = COMMON | {"matmul": _matmul, "conv": _conv, "avg_pool": _avg_pool}


def rewritten_for_cuda(outputs: Sequence[Node]) -> list[Node]:
    return rewritten(outputs, REWRITES)
