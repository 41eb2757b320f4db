"""Sums and functions by our own library, for commands outside of traces: the same bits as in a compiled replay.

Torch adds up in another order and has other approximations. On a card a model gives the same values with a trace and
without it, and so it does here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Kernels
from tt_cnn.virtual.engines.replay.kernels.steps import ACTIVATIONS, LANES
from tt_cnn.virtual.engines.replay.primitives import FROM_IMAGE, HOST_FUNCTIONS, TO_IMAGE, TRANSLATIONS
from tt_cnn.virtual.engines.replay.rounding_graph import RoundingGraph
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.numerics.vector_unit import VectorUnit
from tt_cnn.virtual.numerics.vector_unit.registry import has_stand_in


def _with_weights(name: str) -> Callable[..., Tensor]:
    """A primitive whose first tensor is the input; the others are taken for constants."""
    define = PRIMITIVES[name].function

    def run(x: Tensor, *weights: Tensor, **parameters: Any) -> Tensor:
        def node_of(graph: RoundingGraph, source: Node) -> Node | None:
            return TRANSLATIONS[name](graph, source, *map(graph.constant, weights), **parameters)

        result = _by_kernels(x, x.shape, node_of)
        return define(x, *weights, **parameters) if result is None else result

    return run


def _unary(x: Tensor, *, name: str, params: tuple[float, ...], unit: VectorUnit) -> Tensor:
    """Only where host and kernels approximate differently; roundings are the same for both."""

    def node_of(graph: RoundingGraph, source: Node) -> Node | None:
        image = TRANSLATIONS["unary"](graph, graph.permute(source, TO_IMAGE), name=name, params=params, unit=unit)
        return None if image is None else graph.permute(image, FROM_IMAGE)

    result = None
    if has_stand_in(name, unit) and HOST_FUNCTIONS.get(name) in ACTIVATIONS and x.numel() % LANES == 0:
        result = _by_kernels(x, (1, 1, x.numel() // LANES, LANES), node_of)
    if result is None:
        return PRIMITIVES["unary"].function(x, name=name, params=params, unit=unit)
    return result.reshape(x.shape)


def _by_kernels(
    x: Tensor, shape: Sequence[int], node_of: Callable[[RoundingGraph, Node], Node | None]
) -> Tensor | None:
    if x.device.type != "cpu" or x.numel() == 0:
        return None
    graph = RoundingGraph()
    node = node_of(graph, graph.input(0, tuple(shape)))
    if node is None:
        return None
    (result,) = Kernels([node], torch.get_num_threads())([x.reshape(shape)])
    return result


ALIKE: dict[str, Callable[..., Tensor]] = {
    "sums": _with_weights("sums"),
    "block_products": _with_weights("block_products"),
    "unary": _unary,
}
