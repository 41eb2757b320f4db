# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a graph can run in 8 bits, and what each costs and is called."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tt_cnn.virtual.engines.replay.graph import Node, ordered

_NAMES = {"conv": "convolution", "conv_transpose": "transposed convolution", "matmul": "linear"}


def layers_of(outputs: Sequence[Node]) -> list[Node]:
    """Convolutions and products with constant weights, in order."""
    return [node for node in ordered(outputs) if _has_weights(node)]


def _has_weights(node: Node) -> bool:
    if node.kind not in _NAMES or node.inputs[1].value is None or node.inputs[0].value is not None:
        return False
    if node.kind == "conv_transpose":
        return node.params[3] == 1
    return node.kind == "conv" or math.prod(node.inputs[1].shape[:-2]) == 1


def output_axis(layer: Node) -> int:
    """The axis of a layer's weights that runs over its output channels."""
    return {"conv": 0, "conv_transpose": 1, "matmul": -1}[layer.kind]


def multiplications(layer: Node) -> int:
    weight = layer.inputs[1].shape
    if layer.kind == "conv":
        return math.prod(layer.shape) * math.prod(weight[1:])
    if layer.kind == "conv_transpose":
        return math.prod(layer.inputs[0].shape) * math.prod(weight[1:])
    return math.prod(layer.shape) * weight[-2]


def name_of(layer: Node, number: int) -> str:
    """A graph has no names of its own: the layer's number, from 1, its weights and the size of its output."""
    weight, size = layer.inputs[1].shape, "x".join(map(str, layer.shape))
    return f"layer {number}, {_NAMES[layer.kind]} with {'x'.join(map(str, weight))} weights to {size}"
