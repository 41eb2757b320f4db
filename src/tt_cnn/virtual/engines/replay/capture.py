"""From commands to a graph: they are run once on tensors that note what torch does with them.

Every op computes its numbers with torch, so the note is complete, and no op needs a second description for compiled
replays. What follows from constants alone is computed here, once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from tt_cnn.virtual.engines.replay.aten import TRANSLATIONS
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.primitives import nodes_of
from tt_cnn.virtual.engines.replay.rounding_graph import RoundingGraph
from tt_cnn.virtual.numerics.primitive import OPERATION, noting


class NotExpressible(Exception):
    """A torch operation that a graph has no node for."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


def graph_of(program: Callable[..., list[torch.Tensor]], inputs: Sequence[torch.Tensor]) -> list[Node]:
    """The graph of a program's outputs."""
    with torch.no_grad():
        try:
            with noting():
                module = make_fx(lambda *values: program(*values))(*inputs)  # it would count arguments with defaults
        except RuntimeError as error:
            if "tracing tensor" not in str(error):
                raise
            raise NotExpressible("a value that decides what is computed") from error
    module.graph.eliminate_dead_code()
    return _Translation(module).run()


class _Translation:
    def __init__(self, module: fx.GraphModule) -> None:
        self.module = module
        self.graph = RoundingGraph()
        self.values: dict[fx.Node, Any] = {}

    def run(self) -> list[Node]:
        count = 0
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self.graph.input(count, tuple(node.meta["val"].shape))
                count += 1
            elif node.op == "get_attr":
                self.values[node] = self.graph.constant(getattr(self.module, node.target).detach())
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                return [self._known(one) for one in node.args[0]]
        raise AssertionError("a traced program has an output")

    def _known(self, argument: Any) -> Node:
        node: Node = self.values[argument]
        return node

    def _call(self, node: fx.Node) -> Any:
        args: Any = fx.map_arg(node.args, self._known)  # type: ignore[arg-type]
        kwargs: Any = fx.map_arg(node.kwargs, self._known)  # type: ignore[arg-type]
        if node.target is operator.getitem:
            return args[0][args[1]] if isinstance(args[0], tuple) else args[0]
        if _all_constant(args, kwargs):
            return self._folded(node, args, kwargs)
        if str(node.target) == OPERATION:
            tensors, name, parameters = args
            return nodes_of(self.graph, tensors, name, parameters, tuple(node.meta["val"].shape))
        translate = TRANSLATIONS.get(str(node.target))
        translated = None if translate is None else translate(self.graph, *args, **kwargs)
        if translated is None:
            raise NotExpressible(str(node.target))
        return translated

    def _folded(self, node: fx.Node, args: Any, kwargs: Mapping[str, Any]) -> Any:
        def value(one: Any) -> Any:
            return one.value if isinstance(one, Node) else one

        args, kwargs = (torch.utils._pytree.tree_map(value, a) for a in (args, kwargs))
        assert callable(node.target)
        result = node.target(*args, **kwargs)
        return self.graph.constant(result) if isinstance(result, torch.Tensor) else result


def _all_constant(*arguments: Any) -> bool:
    leaves = torch.utils._pytree.tree_leaves(arguments)
    return all(leaf.is_constant for leaf in leaves if isinstance(leaf, Node))
