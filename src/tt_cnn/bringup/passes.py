# SPDX-License-Identifier: Apache-2.0
"""Passes over the torch graph: what does nothing is dropped, what the card does in one op is drawn together.

After them a convolution node stands for convolution, batch norm and activation; a sum for the sum and its activation;
attention that was written out as matmul, softmax and matmul is one node.
"""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.bringup.activations import activation_of
from tt_cnn.bringup.affine import draw_sums_of_parts_together
from tt_cnn.bringup.composites import write_out_composites
from tt_cnn.bringup.conv_parts import cut_before_joining, divide_convolutions
from tt_cnn.bringup.drawing import draw_attention_together, draw_squeeze_excite_together, name_activations
from tt_cnn.bringup.early_joins import join_early
from tt_cnn.bringup.own_modules import is_own
from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode, first_input
from tt_cnn.bringup.writing_out import write_out_einsums, write_out_products, write_out_stacks

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

_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}


def prepare(graph: TorchGraph) -> TorchGraph:
    """All passes, in their order."""
    for step in (
        drop_nothing,
        drop_unused,
        write_out_composites,
        drop_unused,
        name_activations,
        join_early,
        draw_sums_of_parts_together,
        drop_unused,
        write_out_stacks,
        write_out_einsums,
        draw_attention_together,
        write_out_products,
        drop_unused,
        fold_batch_norms,
        fold_padding,
        fuse_activations,
        draw_squeeze_excite_together,
        cut_before_joining,
        drop_unused,
        activate_before_joining,
        divide_convolutions,
        fuse_activations,
        fuse_activations_of_views,
        drop_unused,
    ):
        step(graph)
    return graph


def drop_nothing(graph: TorchGraph) -> None:
    """Dropout in eval mode, copies, casts between floats, views of the same shape."""
    for node in list(graph.nodes):
        source = first_input(node)
        if source is None:
            continue
        same = node.op in _SAME_IF_EQUAL and _changes_nothing(node, source)
        if node.op in _NOTHING or same or _is_neutral(node, source):
            graph.replace(node, source)
            graph.drop(node)


def _is_neutral(node: TorchNode, source: TorchNode) -> bool:
    """A sum with 0 or a product with 1, as branches leave them that are not there."""
    neutral = _NEUTRAL.get(node.op)
    other = node.arguments.get("other")
    if neutral is None or node.arguments.get("self") is not source or not isinstance(other, (int, float)):
        return False
    return other == neutral and node.arguments.get("rounding_mode") is None and node.dtype == source.dtype


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


def fold_batch_norms(graph: TorchGraph) -> None:
    """Into the convolution before them, where nothing else reads its output."""
    modules = dict(graph.model.named_modules(remove_duplicate=False))
    for node in list(graph.nodes):
        if node.op != "batch_norm":
            continue
        conv = node.arguments["input"]
        if not isinstance(conv, TorchNode) or conv.op not in ("conv2d", "conv_transpose2d") or conv.fused:
            continue
        if len(graph.users()[conv]) > 1 or conv in graph.outputs:
            continue
        if not all(is_own(each, modules.get(each.call.path)) for each in (conv, node)):
            continue
        conv.fused["norm"] = node.call.path
        _absorb(graph, conv, node)


def fold_padding(graph: TorchGraph) -> None:
    """Zeros around an image become the padding of the convolution behind them."""
    for node in list(graph.nodes):
        if node.op not in ("pad", "constant_pad_nd"):
            continue
        users = graph.users()[node]
        source = first_input(node)
        mode, value = node.arguments.get("mode", "constant"), node.arguments.get("value") or 0.0
        border = list(node.arguments["pad"])
        if mode != "constant" or value != 0.0 or len(node.shape) != 4 or len(border) not in (2, 4):
            continue
        if source is None or min(border) < 0 or node in graph.outputs:
            continue
        if not all(_pads_in_numbers(user, node) for user in users):
            continue
        left, right, top, bottom = [*border, 0, 0][:4]
        for user in users:
            user.fused["extra_padding"] = (top, bottom, left, right)
        graph.replace(node, source)
        graph.drop(node)


def _pads_in_numbers(node: TorchNode, padded: TorchNode) -> bool:
    """A convolution of the padded image whose own padding is numbers."""
    numbers = isinstance(node.arguments.get("padding"), (list, tuple))
    return node.op == "conv2d" and numbers and "extra_padding" not in node.fused and node.arguments["input"] is padded


_WITH_ACTIVATION = frozenset(["conv2d", "conv_transpose2d", "linear", "add", "batch_norm", "group_norm"])


def fuse_activations(graph: TorchGraph) -> None:
    """Into the op before them, where nothing else reads what it makes."""
    for node in list(graph.nodes):
        activation = activation_of(node)
        source = first_input(node)
        if activation is None or source is None or source.op not in _WITH_ACTIVATION:
            continue
        if len(graph.users()[source]) > 1 or source in graph.outputs or "activation" in source.fused:
            continue
        if source.op == "add" and not _adds_tensors(source):
            continue
        source.fused["activation"] = activation
        _absorb(graph, source, node)


_VIEWS = frozenset(["view", "reshape", "flatten", "unflatten", "permute", "transpose", "squeeze", "unsqueeze"])


def activate_before_joining(graph: TorchGraph) -> None:
    """An activation of joined products goes into each of the products."""
    for node in list(graph.nodes):
        activation, joined = activation_of(node), first_input(node)
        if activation is None or joined is None or joined.op != "cat" or not _read_once(graph, joined):
            continue
        products = [_product_behind(graph, part) for part in joined.arguments["tensors"]]
        found = [each for each in products if each is not None]
        if len(set(found)) < len(products):
            continue
        for product in found:
            product.fused["activation"], product.fused["result"] = activation, ""
        _absorb(graph, joined, node)


def fuse_activations_of_views(graph: TorchGraph) -> None:
    """An activation of a view of a product goes into the product, of which it is the only reader."""
    for node in list(graph.nodes):
        activation, source = activation_of(node), first_input(node)
        if activation is None or source is None or source.op not in _VIEWS:
            continue
        product = _product_behind(graph, source)
        if product is not None:
            product.fused["activation"], product.fused["result"] = activation, ""
            graph.replace(node, source)
            graph.drop(node)


def _read_once(graph: TorchGraph, node: TorchNode) -> bool:
    return len(graph.users()[node]) == 1 and node not in graph.outputs


def _product_behind(graph: TorchGraph, part: Any) -> TorchNode | None:
    """The convolution or linear layer that a part is a view of, where nobody else reads it."""
    while isinstance(part, TorchNode) and part.op in _VIEWS and _read_once(graph, part):
        part = first_input(part)
    if not isinstance(part, TorchNode) or part.op not in ("conv2d", "linear") or not _read_once(graph, part):
        return None
    return None if "activation" in part.fused else part


def _adds_tensors(node: TorchNode) -> bool:
    one, other = node.arguments["self"], node.arguments["other"]
    return isinstance(one, TorchNode) and isinstance(other, TorchNode) and one.shape == other.shape


def _absorb(graph: TorchGraph, kept: TorchNode, absorbed: TorchNode) -> None:
    """`kept` computes what `absorbed` computed; it runs where it ran."""
    kept.fused["result"] = absorbed.name
    kept.fused.setdefault("lines", []).append(absorbed.line)
    graph.replace(absorbed, kept)
    graph.drop(absorbed)
