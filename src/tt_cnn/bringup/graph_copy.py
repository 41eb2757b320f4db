# SPDX-License-Identifier: Apache-2.0
"""The graph as it was exported, kept beside the one that the passes change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode


def copy_graph(graph: TorchGraph) -> TorchGraph:
    """Nodes of its own, with the same names; the model and its parameters are shared."""
    made: dict[TorchNode, TorchNode] = {}
    for node in (*graph.inputs, *graph.nodes):
        made[node] = replace(node, arguments=_copied(node.arguments, made), fused=_copied(node.fused, made))
    return replace(
        graph,
        inputs=[made[node] for node in graph.inputs],
        nodes=[made[node] for node in graph.nodes],
        outputs=[made[node] for node in graph.outputs],
    )


def _copied(value: Any, made: dict[TorchNode, TorchNode]) -> Any:
    if isinstance(value, TorchNode):
        return made[value] if value in made else replace(value, arguments=_copied(value.arguments, made))
    if isinstance(value, dict):
        return {key: _copied(each, made) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(each, made) for each in value)
    return value
