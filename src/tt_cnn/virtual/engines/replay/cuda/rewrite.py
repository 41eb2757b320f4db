"""A graph as the GPU's kernels like it: products with weights are convolutions, wide pools are chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tt_cnn.virtual.engines.replay.graph import Graph, Node, ordered


def rewritten(outputs: Sequence[Node]) -> list[Node]:
    """The same outputs from a graph made anew, in which the constructors' simplifications hold again."""
    graph = Graph()
    known: dict[int, Node] = {}
    for node in ordered(outputs):
        inputs = [known[id(one)] for one in node.inputs]
        rewrite = _REWRITES.get(node.kind)
        if node.value is not None:
            known[id(node)] = graph.constant(node.value)
        elif rewrite is not None:
            known[id(node)] = rewrite(graph, node, inputs)
        else:
            known[id(node)] = graph._node(node.kind, tuple(inputs), node.params, node.shape)
    return [known[id(node)] for node in outputs]


def _matmul(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """Rows times a constant matrix: images of one pixel through a 1x1 convolution."""
    rows, matrix = inputs
    if matrix.value is None or len(matrix.shape) != 2 or len(rows.shape) != 2:
        return graph.matmul(rows, matrix)
    weight = graph.constant(matrix.value.t().contiguous()[:, :, None, None])
    pixels = graph.reshape(rows, (*rows.shape, 1, 1))
    product = graph.conv(pixels, weight, None, (1, 1), (0, 0, 0, 0), (1, 1), 1)
    return graph.reshape(product, node.shape)


def _max_pool(graph: Graph, node: Node, inputs: Sequence[Node]) -> Node:
    """A maximum over 9x9 is one over 5x5 of one over 5x5: fewer values are read, and SPP's pools share their parts."""
    (height, width), stride, padding, extra = node.params
    centred = padding == (height // 2,) * 4 and height == width and height % 2 == 1
    if height <= 5 or stride != (1, 1) or tuple(extra) != (1, 1) or not centred or (height - 5) % 4:
        return graph._node(node.kind, tuple(inputs), node.params, node.shape)
    result = inputs[0]
    for _ in range((height - 1) // 4):
        result = graph.pool(result, "max_pool", (5, 5), (1, 1), (2, 2, 2, 2), node.shape, extra)
    return result


_REWRITES: dict[str, Callable[[Graph, Node, Sequence[Node]], Node]] = {
    "matmul": _matmul,
    "max_pool": _max_pool,
    "reshape": lambda graph, node, inputs: graph.reshape(inputs[0], node.shape),
    "binary": lambda graph, node, inputs: graph.binary(node.params[0], inputs[0], inputs[1]),
}
