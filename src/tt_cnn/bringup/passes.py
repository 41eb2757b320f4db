"""Passes over the torch graph: what does nothing is dropped, what the card does in one op is drawn together.

After them a convolution node stands for convolution, batch norm and activation; a sum for the sum and its activation;
attention that was written out as matmul, softmax and matmul is one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tt_cnn.bringup.activations import activation_of
from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

_NOTHING = frozenset(
    [
        "dropout",
        "feature_dropout",
        "alpha_dropout",
        "contiguous",
        "clone",
        "alias",
        "detach",
        "lift_fresh_copy",
        "lift_fresh",
    ]
)
_SAME_IF_EQUAL = frozenset(
    ["to", "_to_copy", "type_as", "expand", "expand_as", "slice", "view", "reshape", "permute", "flatten", "float"]
)


def prepare(graph: TorchGraph) -> TorchGraph:
    """All passes, in their order."""
    for step in (
        drop_nothing,
        drop_unused,
        name_activations,
        draw_attention_together,
        fold_batch_norms,
        fold_padding,
        fuse_activations,
        drop_unused,
    ):
        step(graph)
    return graph


def drop_nothing(graph: TorchGraph) -> None:
    """Dropout in eval mode, copies, casts between floats, views of the same shape."""
    for node in list(graph.nodes):
        source = _first(node)
        if source is None:
            continue
        if node.op in _NOTHING or (node.op in _SAME_IF_EQUAL and _changes_nothing(node, source)):
            graph.replace(node, source)
            graph.drop(node)


def _changes_nothing(node: TorchNode, source: TorchNode) -> bool:
    if node.op in ("to", "_to_copy", "type_as", "float"):
        floats = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
        return node.dtype in floats and source.dtype in floats
    if node.op == "permute":
        return list(node.arguments["dims"]) == list(range(len(node.shape)))
    return node.shape == source.shape and node.arguments.get("step", 1) == 1


def drop_unused(graph: TorchGraph) -> None:
    changed = True
    while changed:
        users = graph.users()
        unused = [node for node in graph.nodes if not users[node] and node not in graph.outputs]
        graph.drop(*unused)
        changed = bool(unused)


def name_activations(graph: TorchGraph) -> None:
    """`x * sigmoid(x)` as SiLU, `x * tanh(softplus(x))` as Mish."""
    for node in list(graph.nodes):
        if node.op != "mul":
            continue
        one, other = node.arguments["self"], node.arguments["other"]
        for x, gate in ((one, other), (other, one)):
            if not isinstance(x, TorchNode) or not isinstance(gate, TorchNode):
                continue
            if gate.op == "sigmoid" and _first(gate) is x:
                node.op, node.arguments = "silu", {"self": x}
            elif gate.op == "tanh" and (inner := _first(gate)) is not None:
                if inner.op == "softplus" and _first(inner) is x and inner.arguments.get("beta", 1) == 1:
                    node.op, node.arguments = "mish", {"self": x}
    drop_unused(graph)


def draw_attention_together(graph: TorchGraph) -> None:
    """matmul(softmax(scale * matmul(q, k^T) + bias), v) as `scaled_dot_product_attention`."""
    for node in list(graph.nodes):
        if node.op not in ("matmul", "bmm"):
            continue
        weights, value = _operands(node)
        if not isinstance(weights, TorchNode) or not isinstance(value, TorchNode) or weights.op != "softmax":
            continue
        if weights.arguments["dim"] not in (-1, len(weights.shape) - 1) or len(graph.users()[weights]) != 1:
            continue
        found = _scores(weights.arguments["self"])
        if found is None:
            continue
        query, key, scale, biases = found
        if len(query.shape) not in (3, 4):
            continue
        node.op = "scaled_dot_product_attention"
        node.arguments = {"query": query, "key": key, "value": value, "attn_mask": None, "scale": scale}
        node.fused["biases"] = biases
    drop_unused(graph)


def _scores(node: Any) -> tuple[TorchNode, TorchNode, float, list[Any]] | None:
    """Query, key, scale and what is added, of the softmax's input."""
    scale, biases = 1.0, []
    while isinstance(node, TorchNode) and node.op in ("add", "mul", "div", "view", "reshape"):
        if node.op == "add":
            one, other = node.arguments["self"], node.arguments["other"]
            inner = next((x for x in (one, other) if isinstance(x, TorchNode) and _leads_to_product(x)), None)
            if inner is None or (biases and node.op != "add"):
                return None
            biases.append(other if inner is one else one)
            node = inner
            continue
        if node.op in ("view", "reshape"):
            return None  # windows with masks of their own: left as it is written
        factor = node.arguments["other"]
        if not isinstance(factor, (int, float)):
            return None
        scale *= factor if node.op == "mul" else 1 / factor
        if biases:
            return None  # the bias would be scaled too
        node = node.arguments["self"]
    if not isinstance(node, TorchNode) or node.op not in ("matmul", "bmm"):
        return None
    query, turned = _operands(node)
    if not isinstance(query, TorchNode) or not isinstance(turned, TorchNode):
        return None
    if query.op == "mul" and isinstance(query.arguments["other"], (int, float)):
        scale *= query.arguments["other"]
        query = query.arguments["self"]
    key = _turned_back(turned)
    return None if key is None or not isinstance(query, TorchNode) else (query, key, scale, biases)


def _leads_to_product(node: TorchNode) -> bool:
    while isinstance(node, TorchNode) and node.op in ("add", "mul", "div"):
        node = node.arguments["self"]
    return isinstance(node, TorchNode) and node.op in ("matmul", "bmm")


def _turned_back(node: TorchNode) -> TorchNode | None:
    """k of k.transpose(-2, -1)."""
    rank = len(node.shape)
    if node.op == "transpose":
        dims = sorted(dim % rank for dim in (node.arguments["dim0"], node.arguments["dim1"]))
        return node.arguments["self"] if dims == [rank - 2, rank - 1] else None
    if node.op == "permute":
        order = [dim % rank for dim in node.arguments["dims"]]
        return _permuted(node, order)
    return None


def _permuted(node: TorchNode, order: list[int]) -> TorchNode | None:
    """A permutation that makes the key at once: the same with the last two dimensions the other way round."""
    swapped = [*order[:-2], order[-1], order[-2]]
    rows = node.shape
    shape = (*rows[:-2], rows[-1], rows[-2])
    arguments = {**node.arguments, "dims": swapped}
    return TorchNode(f"{node.name}_key", "permute", node.target, arguments, shape, node.dtype, node.stack, node.line)


def fold_batch_norms(graph: TorchGraph) -> None:
    """Into the convolution before them, where nothing else reads its output."""
    for node in list(graph.nodes):
        if node.op != "batch_norm":
            continue
        conv = node.arguments["input"]
        if not isinstance(conv, TorchNode) or conv.op not in ("conv2d", "conv_transpose2d") or conv.fused:
            continue
        if len(graph.users()[conv]) > 1 or conv in graph.outputs or not _is_module(node, graph, "BatchNorm"):
            continue
        if not _is_module(conv, graph, "Conv"):
            continue
        conv.fused["norm"] = node.call.path
        _absorb(graph, conv, node)


def _is_module(node: TorchNode, graph: TorchGraph, kind: str) -> bool:
    """Whether the op is a torch module's own, and not a call of the functional form."""
    module = dict(graph.model.named_modules()).get(node.call.path)
    return module is not None and kind in type(module).__mro__[0].__name__ + "".join(
        c.__name__ for c in type(module).__mro__
    )


def fold_padding(graph: TorchGraph) -> None:
    """Zeros around an image become the padding of the convolution behind them."""
    for node in list(graph.nodes):
        if node.op not in ("pad", "constant_pad_nd"):
            continue
        users = graph.users()[node]
        source = _first(node)
        mode, value = node.arguments.get("mode", "constant"), node.arguments.get("value") or 0.0
        border = list(node.arguments["pad"])
        if mode != "constant" or value != 0.0 or len(node.shape) != 4 or len(border) not in (2, 4):
            continue
        if source is None or min(border) < 0 or node in graph.outputs:
            continue
        if not all(user.op == "conv2d" and "extra_padding" not in user.fused for user in users):
            continue
        left, right, top, bottom = [*border, 0, 0][:4]
        for user in users:
            user.fused["extra_padding"] = (top, bottom, left, right)
        graph.replace(node, source)
        graph.drop(node)


_WITH_ACTIVATION = frozenset(["conv2d", "conv_transpose2d", "linear", "add", "batch_norm"])


def fuse_activations(graph: TorchGraph) -> None:
    """Into the op before them, where nothing else reads what it makes."""
    for node in list(graph.nodes):
        activation = activation_of(node)
        source = _first(node)
        if activation is None or source is None or source.op not in _WITH_ACTIVATION:
            continue
        if len(graph.users()[source]) > 1 or source in graph.outputs or "activation" in source.fused:
            continue
        if source.op == "add" and not _adds_tensors(source):
            continue
        source.fused["activation"] = activation
        _absorb(graph, source, node)


def _adds_tensors(node: TorchNode) -> bool:
    one, other = node.arguments["self"], node.arguments["other"]
    return isinstance(one, TorchNode) and isinstance(other, TorchNode) and one.shape == other.shape


def _absorb(graph: TorchGraph, kept: TorchNode, absorbed: TorchNode) -> None:
    """`kept` computes what `absorbed` computed; it runs where it ran."""
    kept.fused["result"] = absorbed.name
    kept.fused.setdefault("lines", []).append(absorbed.line)
    graph.replace(absorbed, kept)
    graph.drop(absorbed)


def _first(node: TorchNode) -> TorchNode | None:
    value = node.arguments.get("self", node.arguments.get("input"))
    return value if isinstance(value, TorchNode) else None


def _operands(node: TorchNode) -> tuple[Any, Any]:
    return node.arguments["self"], node.arguments.get("other", node.arguments.get("mat2"))


Pass = Callable[[TorchGraph], None]

__all__ = ["Parameter", "prepare"]
