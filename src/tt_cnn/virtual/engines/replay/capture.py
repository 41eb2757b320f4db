# SPDX-License-Identifier: Apache-2.0
"""From commands to a graph: they are run once while what torch does for them is noted.

Every op computes its numbers with torch, so the note is complete, and no op needs a second description for compiled
replays. What follows from constants alone is computed on the way, once; all else needs no values, only shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tt_cnn.virtual.engines.replay.aten import EXACT, TRANSLATIONS
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.primitives import nodes_of
from tt_cnn.virtual.engines.replay.rounding_graph import RoundingGraph
from tt_cnn.virtual.numerics.primitive import OPERATION, noting

TRANSLATIONS[OPERATION] = nodes_of
EXACT.add(OPERATION)


NOTING_FAILED = "noting failed:"
"""What a reason begins with that is a fault of ours."""


class NotExpressible(Exception):
    """A torch operation that a graph has no node for."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


def graph_of(
    program: Callable[..., list[torch.Tensor]], inputs: Sequence[torch.Tensor], exact: bool = False
) -> list[Node]:
    """The graph of a program's outputs; NotExpressible where there is none, or where noting fails.

    `exact`: only operations whose bits do not hang on how an engine computes them.
    """
    with torch.inference_mode(False), torch.no_grad():  # torch's views of inference tensors ask for what those lack
        with suppress(Exception):
            return _noted(program, inputs, False, exact)
        try:
            return _noted(program, inputs, True, exact)  # what has no node may be something that no output needs
        except NotExpressible:
            raise
        except Exception as error:
            raise NotExpressible(f"{NOTING_FAILED} {type(error).__name__}: {error}") from error


def _noted(
    program: Callable[..., list[torch.Tensor]], inputs: Sequence[torch.Tensor], compute: bool, exact: bool
) -> list[Node]:
    note = _Note(compute, exact, inputs[0].device if inputs else torch.device("cpu"))
    values = [note.input(i, x) for i, x in enumerate(inputs)]
    with note, noting():
        outputs = program(*values)
    note.check_constants()
    return [note.result(one) for one in outputs]


@dataclass(frozen=True)
class _Missing:
    """In place of a node: the operation that has none."""

    operation: str


class _Note(TorchDispatchMode):
    """Notes operations on tensors that depend on an input.

    With `compute` their values are computed, and operations without a node are taken for unneeded until an output
    depends on one. Without it they are refused, and results are empty.
    """

    def __init__(self, compute: bool, exact: bool, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.exact = exact
        self.graph = RoundingGraph(exact)
        self.compute = compute
        self._known: dict[int, tuple[torch.Tensor, Node | _Missing]] = {}
        """By the tensor's id, which is its own as long as it is kept here."""
        self._constants: dict[int, tuple[torch.Tensor, Node, int]] = {}
        """With the version that the tensor had: one that is changed in place later is no constant."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its compiler, which takes a second, to keep it away from here."""
        return False

    def input(self, index: int, value: torch.Tensor) -> torch.Tensor:
        own = value.clone() if self.compute else torch.empty_like(value)
        self._known[id(own)] = own, self.graph.input(index, tuple(value.shape))
        return own

    def result(self, tensor: torch.Tensor) -> Node:
        node = self._node(tensor)
        if isinstance(node, _Missing):
            raise NotExpressible(node.operation)
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not any(id(one) in self._known for one in pytree.tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            raise NotExpressible("a value that decides what is computed")
        if func._schema.is_mutable:
            raise NotExpressible(str(func))
        if str(func) not in TRANSLATIONS:
            with self:
                results = func.decompose(*args, **kwargs)
            if results is not NotImplemented:
                return results
        found = self._translated(func, args, kwargs)
        if isinstance(found[0], _Missing) and not self.compute:
            raise NotExpressible(found[0].operation)
        results = func(*args, **kwargs) if self.compute else _empty(func, found, self.device)
        for i, tensor in enumerate(pytree.tree_leaves(results)):
            self._known[id(tensor)] = tensor, found[i] if i < len(found) else _Missing(str(func))
        return results

    def _translated(self, func: Any, args: Any, kwargs: Any) -> Sequence[Node | _Missing]:
        """The nodes of the first results."""
        allowed = not self.exact or str(func) in EXACT
        translate = TRANSLATIONS.get(str(func)) if allowed else None
        args, kwargs = pytree.tree_map_only(torch.Tensor, self._node, (args, kwargs))
        missing = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, _Missing)]
        found = None if missing or translate is None else translate(self.graph, *args, **kwargs)
        if found is None:
            return [*missing, _Missing(str(func))][:1]
        return found if isinstance(found, tuple) else [found]

    def _node(self, tensor: torch.Tensor) -> Node | _Missing:
        if id(tensor) in self._known:
            return self._known[id(tensor)][1]
        if id(tensor) not in self._constants:
            self._constants[id(tensor)] = tensor, self.graph.constant(tensor.detach()), _version(tensor)
        return self._constants[id(tensor)][1]

    def check_constants(self) -> None:
        if any(_version(tensor) != version for tensor, _, version in self._constants.values()):
            raise NotExpressible("a constant that is changed in place")


def _version(tensor: torch.Tensor) -> int:
    """How often it was changed in place; inference tensors, as cells hold them, never are."""
    return 0 if tensor.is_inference() else tensor._version


def _empty(func: Any, nodes: Sequence[Any], device: torch.device) -> Any:
    """Results in the form in which an operation returns them."""
    tensors = [torch.empty(node.shape, device=device) for node in nodes]
    if len(func._schema.returns) > 1:
        return (*tensors, *(torch.empty(0, device=device) for _ in func._schema.returns[len(tensors) :]))
    return tensors if isinstance(func._schema.returns[0].type, torch.ListType) else tensors[0]
