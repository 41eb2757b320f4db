# SPDX-License-Identifier: Apache-2.0
"""Sums and functions by our own library, for commands outside of traces: the same bits as in a compiled replay.

Torch adds up in another order and has other approximations. On a card a model gives the same values with a trace and
without it, and so it does here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Kernels
from tt_cnn.virtual.engines.replay.kernels.instructions import ACTIVATIONS
from tt_cnn.virtual.engines.replay.kernels.registers import COMPILED, staged
from tt_cnn.virtual.engines.replay.kernels.tables import is_tabulated, looked_up
from tt_cnn.virtual.engines.replay.primitives import HOST_FUNCTIONS, TRANSLATIONS
from tt_cnn.virtual.engines.replay.rounding_graph import RoundingGraph
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.numerics.vector_unit import VectorUnit
from tt_cnn.virtual.numerics.vector_unit.registry import has_stand_in


def _with_weights(name: str) -> Callable[..., Tensor]:
    """A primitive whose first tensor is the input; the others are taken for constants."""

    def run(x: Tensor, *weights: Tensor, **parameters: Any) -> Tensor:
        def node_of(graph: RoundingGraph, source: Node) -> Node | None:
            return TRANSLATIONS[name](graph, source, *map(graph.constant, weights), **parameters)

        result = _by_kernels(x, node_of)
        return PRIMITIVES[name].function(x, *weights, **parameters) if result is None else result

    return run


def _unary(x: Tensor, *, name: str, params: tuple[float, ...], unit: VectorUnit) -> Tensor:
    """Only where host and kernels approximate differently, or a table is quicker; all else is the same for both."""
    if is_tabulated(x, name, unit):
        return looked_up(x, name, params, unit)
    kind = ACTIVATIONS.get(HOST_FUNCTIONS.get(name, ""))
    if kind is None or params or not has_stand_in(name, unit) or x.device.type != "cpu":
        return PRIMITIVES["unary"].function(x, name=name, params=params, unit=unit)
    return unit.round(staged(kind, x))


def _by_kernels(x: Tensor, node_of: Callable[[RoundingGraph, Node], Node | None]) -> Tensor | None:
    if x.device.type != "cpu" or x.numel() == 0:
        return None
    graph = RoundingGraph(exact=True)
    node = node_of(graph, graph.input(0, tuple(x.shape)))
    if node is None:
        return None
    (result,) = Kernels([node], torch.get_num_threads())([x])
    return result


OUTSIDE_TRACES: dict[str, Callable[..., Tensor]] = {
    **COMPILED,
    "sums": _with_weights("sums"),
    "block_products": _with_weights("block_products"),
    "unary": _unary,
}
