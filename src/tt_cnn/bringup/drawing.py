# SPDX-License-Identifier: Apache-2.0
"""Passes that draw several torch ops together into one: activations written out, attention, squeeze and excitation."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode, first_input

_PRODUCTS = frozenset(["matmul", "bmm"])
_VIEWS = frozenset(["view", "reshape"])


def name_activations(graph: TorchGraph) -> None:
    """`x * sigmoid(x)` as SiLU, `x * tanh(softplus(x))` as Mish."""
    for node in graph.nodes:
        if node.op != "mul":
            continue
        one, other = node.arguments["self"], node.arguments["other"]
        for x, gate in ((one, other), (other, one)):
            if not isinstance(x, TorchNode) or not isinstance(gate, TorchNode):
                continue
            if gate.op == "sigmoid" and first_input(gate) is x:
                node.op, node.target, node.arguments = "silu", "aten.silu.default", {"self": x}
                break
            if gate.op == "tanh" and _is_softplus_of(first_input(gate), x):
                node.op, node.target, node.arguments = "mish", "aten.mish.default", {"self": x}
                break


def _is_softplus_of(node: TorchNode | None, x: TorchNode) -> bool:
    return node is not None and node.op == "softplus" and first_input(node) is x and node.arguments.get("beta", 1) == 1


# -- attention


def draw_attention_together(graph: TorchGraph) -> None:
    """matmul(softmax(scale * matmul(q, k^T) + bias), v) as `scaled_dot_product_attention`."""
    for node in list(graph.nodes):
        if node.op not in _PRODUCTS:
            continue
        weights, value = _operands(node)
        if not isinstance(weights, TorchNode) or not isinstance(value, TorchNode) or weights.op != "softmax":
            continue
        if weights.arguments["dim"] not in (-1, len(weights.shape) - 1) or len(value.shape) not in (3, 4):
            continue
        scores = _Scores(node)
        if not scores.read(weights.arguments["self"]) or scores.key.shape != value.shape:
            continue  # the card's attention has values of the keys' size
        place = graph.nodes.index(node)
        graph.nodes[place:place] = [*scores.made, *scores.sum_of_biases()]
        node.op, node.target = "scaled_dot_product_attention", "aten.scaled_dot_product_attention.default"
        node.arguments = {
            "query": scores.query,
            "key": scores.key,
            "value": value,
            "attn_mask": scores.biases[0] if scores.biases else None,
            "dropout_p": 0.0,
            "is_causal": False,
            "scale": scores.scale,
            "enable_gqa": False,
        }


class _Scores:
    """The input of a softmax, read from its end: query, key, scale, and what is added."""

    query: TorchNode
    key: TorchNode

    def __init__(self, node: TorchNode) -> None:
        self.node = node
        self.scale = 1.0
        self.biases: list[Any] = []
        self.made: list[TorchNode] = []
        """Nodes that the graph has not got yet."""

    def read(self, node: Any) -> bool:
        """Whether it is all that the card's attention computes."""
        if not isinstance(node, TorchNode):
            return False
        if node.op in _VIEWS:
            return self._read_windows(node)
        if node.op == "add" and node.arguments.get("alpha", 1) == 1:
            one, other = node.arguments["self"], node.arguments["other"]
            inner = next((x for x in (one, other) if isinstance(x, TorchNode) and _leads_to_product(x)), None)
            bias = other if inner is one else one
            if inner is None or inner.shape != node.shape or not hasattr(bias, "shape") or self.scale != 1:
                return False  # behind a scale the bias would be scaled, too
            self.biases.append(bias)
            return self.read(inner)
        if node.op in ("mul", "div") and isinstance(node.arguments["other"], (int, float)):
            factor = float(node.arguments["other"])
            self.scale *= factor if node.op == "mul" else 1 / factor
            return self.read(node.arguments["self"])
        return node.op in _PRODUCTS and self._read_product(node)

    def _read_windows(self, node: TorchNode) -> bool:
        """(scores.view(B, windows, heads, L, L) + mask).view(B * windows, heads, L, L): a mask for each window."""
        inner = first_input(node)
        if inner is None or inner.op != "add" or len(inner.shape) != 5 or len(node.shape) != 4 or self.scale != 1:
            return False
        split, mask = inner.arguments["self"], inner.arguments["other"]
        if not isinstance(split, TorchNode) or split.op not in _VIEWS or split.shape != inner.shape:
            return False
        scores = first_input(split)
        if scores is None or scores.shape != node.shape or not hasattr(mask, "shape") or len(mask.shape) != 5:
            return False
        batch, windows = inner.shape[:2]
        wide = (batch, windows, *mask.shape[2:])
        spread = self._new("expand", "aten.expand.default", {"self": mask, "size": list(wide), "implicit": False}, wide)
        flat = (batch * windows, *mask.shape[2:])  # type: ignore[operator]
        self.biases.append(self._new("reshape", "aten.reshape.default", {"self": spread, "shape": list(flat)}, flat))
        return self.read(scores)

    def _read_product(self, node: TorchNode) -> bool:
        query, turned = _operands(node)
        if not isinstance(query, TorchNode) or not isinstance(turned, TorchNode):
            return False
        if query.op == "mul" and isinstance(query.arguments["other"], (int, float)):
            self.scale *= query.arguments["other"]
            query = query.arguments["self"]
        key = self._turned_back(turned)
        if key is None or not isinstance(query, TorchNode) or query.shape[:-2] != key.shape[:-2]:
            return False
        self.query, self.key = query, key
        return True

    def _turned_back(self, node: TorchNode) -> TorchNode | None:
        """k of k.transpose(-2, -1), or of the permutation that makes that at once."""
        rank = len(node.shape)
        if node.op == "transpose":
            dims = sorted(dim % rank for dim in (node.arguments["dim0"], node.arguments["dim1"]))
            return node.arguments["self"] if dims == [rank - 2, rank - 1] else None
        order, source = list(range(rank)), node
        if node.op == "permute":
            order, source = [dim % rank for dim in node.arguments["dims"]], node.arguments["self"]
        shape = (*node.shape[:-2], node.shape[-1], node.shape[-2])
        swapped = [*order[:-2], order[-1], order[-2]]
        return self._new("permute", "aten.permute.default", {"self": source, "dims": swapped}, shape)

    def sum_of_biases(self) -> list[TorchNode]:
        """Several biases as one, which is all that the op takes."""
        before = len(self.made)
        while len(self.biases) > 1:
            one, other, *rest = self.biases
            shape = tuple(torch.broadcast_shapes(one.shape, other.shape))
            arguments = {"self": one, "other": other, "alpha": 1}
            self.biases = [self._new("add", "aten.add.Tensor", arguments, shape), *rest]
        return self.made[before:]

    def _new(self, op: str, target: str, arguments: dict[str, Any], shape: Any) -> TorchNode:
        name = f"{self.node.name}_{op}{len(self.made)}"
        made = TorchNode(name, op, target, arguments, shape, self.node.dtype, self.node.stack, self.node.line)
        self.made.append(made)
        return made


def _leads_to_product(node: TorchNode) -> bool:
    while isinstance(node, TorchNode) and node.op in ("add", "mul", "div"):
        node = node.arguments["self"]
    return isinstance(node, TorchNode) and node.op in _PRODUCTS


def _operands(node: TorchNode) -> tuple[Any, Any]:
    return node.arguments["self"], node.arguments.get("other", node.arguments.get("mat2"))


# -- squeeze and excitation


def draw_squeeze_excite_together(graph: TorchGraph) -> None:
    """x * gate(expand(act(reduce(mean(x))))), both products of one pixel, as one node."""
    users = graph.users()
    modules = dict(graph.model.named_modules(remove_duplicate=False))

    def alone(node: TorchNode) -> bool:
        return len(users[node]) == 1 and node not in graph.outputs

    def product(node: TorchNode | None) -> bool:
        """A module's own 1x1 convolution or linear layer of one pixel, with nothing but an activation behind it."""
        if node is None or node.op not in ("conv2d", "linear") or not alone(node):
            return False
        module: Any = modules.get(node.call.path)
        known = isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)) and not set(node.fused) & {
            "norm",
            "extra_padding",
        }
        if not known or getattr(node.arguments["weight"], "path", "") != f"{node.call.path}.weight":
            return False
        pointwise = node.op == "linear" or (module.kernel_size == (1, 1) and module.groups == 1)
        return pointwise and (node.op == "linear" or tuple(node.shape[-2:]) == (1, 1))

    def before(node: TorchNode) -> TorchNode | None:
        """The node behind views and behind an activation of its own."""
        source = first_input(node)
        while (
            source is not None and source.op in ("view", "reshape", "flatten", "unsqueeze", "squeeze") and alone(source)
        ):
            source = first_input(source)
        return source

    for node in list(graph.nodes):
        if node.op != "mul" or len(node.shape) != 4:
            continue
        for x, gate in (
            (node.arguments["self"], node.arguments["other"]),
            (node.arguments["other"], node.arguments["self"]),
        ):
            if not isinstance(x, TorchNode) or not isinstance(gate, TorchNode) or x.shape != node.shape:
                continue
            expand: TorchNode | None = gate
            if gate.op in ("view", "reshape", "unsqueeze", "expand", "expand_as") and alone(gate):
                expand = before(gate)
            if not product(expand) or expand is None:
                continue
            reduce = before(expand)
            if not product(reduce) or reduce is None:
                continue
            mean = before(reduce)
            if mean is None or not alone(mean) or not _is_global_mean(mean) or first_input(mean) is not x:
                continue
            node.op, node.arguments = "squeeze_excite", {"self": x}
            node.fused["parts"] = (reduce.call.path, expand.call.path)
            node.fused["activations"] = (reduce.fused.get("activation"), expand.fused.get("activation"))
            break


def _is_global_mean(node: TorchNode) -> bool:
    if len(getattr(first_input(node), "shape", ())) != 4:
        return False
    if node.op == "adaptive_avg_pool2d":
        return list(node.arguments["output_size"]) == [1, 1]
    return node.op == "mean" and sorted(dim % 4 for dim in node.arguments.get("dim") or ()) == [2, 3]
