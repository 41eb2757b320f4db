# SPDX-License-Identifier: Apache-2.0
"""A graph as an engine's own kernels like it, made again: products with weights are convolutions, wide pools chains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tt_cnn.virtual.engines.replay.graph import Graph, Node, ordered

Rewrite = Callable[[Graph, Node, Sequence[Node]], Node]


def rows_as_pixels(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """Rows times a constant matrix: pixels of one image through a 1x1 convolution; rows of zeros are its padding."""
    rows, matrix = inputs
    *lead, inner, columns = matrix.shape
    if matrix.value is None or math.prod(lead) != 1:
        return graph.matmul(rows, matrix)
    matrix = graph.reshape(matrix, (inner, columns))
    image = graph.permute(graph.reshape(rows, (1, 1, math.prod(rows.shape[:-1]), inner)), (0, 3, 1, 2))
    return graph.reshape(graph.permute(_product(graph, image, matrix), (0, 2, 3, 1)), node.shape)


def _product(graph: Graph, image: Node, matrix: Node) -> Node:
    assert matrix.value is not None
    weight = graph.constant(matrix.value.t().contiguous()[:, :, None, None])
    return graph.conv(image, weight, None, (1, 1), (0, 0, 0, 0), (1, 1), 1)


def chained_pool(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """A maximum over 9x9 is one over 5x5 of one over 5x5: fewer values are read, and SPP's pools share their parts."""
    (height, width), stride, padding, extra = node.params
    centred = padding == (height // 2,) * 4 and height == width and height % 2 == 1
    if height <= 5 or stride != (1, 1) or tuple(extra) != (1, 1) or not centred or (height - 5) % 4:
        return graph._node(node.kind, tuple(inputs), node.params, node.shape)
    result = inputs[0]
    for _ in range((height - 1) // 4):
        result = graph.pool(result, "max_pool", (5, 5), (1, 1), (2, 2, 2, 2), node.shape, extra)
    return result


COMMON: dict[str, Rewrite] = {
    "max_pool": chained_pool,
    "reshape": lambda graph, node, inputs: graph.reshape(inputs[0], node.shape),
    "binary": lambda graph, node, inputs: graph.binary(node.params[0], inputs[0], inputs[1]),
}
"""What every engine of our own likes."""


def rewritten(outputs: Sequence[Node], rewrites: Mapping[str, Rewrite]) -> list[Node]:
    """The same outputs from a rebuilt graph, in which the constructors' simplifications hold again."""
    graph = Graph(exact=True)  # what may be simplified otherwise was, when the graph was made
    known: dict[int, Node] = {}
    for node in ordered(outputs):
        inputs = [known[id(one)] for one in node.inputs]
        rewrite = rewrites.get(node.kind)
        if node.value is not None:
            known[id(node)] = graph.constant(node.value)
        elif rewrite is not None:
            known[id(node)] = rewrite(graph, node, inputs)
        else:
            known[id(node)] = graph._node(node.kind, tuple(inputs), node.params, node.shape)
    return [known[id(node)] for node in outputs]
