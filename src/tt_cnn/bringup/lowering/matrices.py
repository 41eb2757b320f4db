# SPDX-License-Identifier: Apache-2.0
"""Rules for matmuls and what stands around them: linear layers, attention, softmax, norms of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tt_cnn.bringup.forms import Form, order_of
from tt_cnn.bringup.lowering.lowering import TILE, Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Code, Cut, OnCard, Shape, Value
from tt_cnn.bringup.torch_graph import TorchNode


def _row_order(form: Form) -> tuple[int, ...]:
    """An order with torch's last dimension last: that of memory where it is so already."""
    order = order_of(form)
    return order if order is not None and order[-1] == len(order) - 1 else tuple(range(len(form.dims)))


@lowers("linear")
def linear(low: Lowering, node: TorchNode) -> Value:
    module = low.own(node) or low.made("linear_of", (node.arguments["weight"], node.arguments["bias"]))
    x = low.value(node.arguments["input"])
    return product(low, node, x, _row_order(x.form), module, node.shape[-1])  # type: ignore[arg-type]


def product(low: Lowering, node: TorchNode, x: Value, order: Sequence[int], module: Any, width: int) -> Value:
    """Of the last dimension in this order with the weights of a module."""
    last = order[-1]
    inputs = x.form.shape[last]
    groups = groups_in_rows(x, order, width)
    rows = x if groups > 1 else low.rows(node, x, order)
    shape = tuple(width if dim == last else size for dim, size in enumerate(x.form.shape))
    made = Value(Form.in_order(shape, order), (*rows.shape[:-1], groups * width), node=node)
    keywords: dict[str, Any] = {"activation": Code(node.fused["activation"])} if "activation" in node.fused else {}
    if groups > 1:
        assert rows.shape[-1] == groups * inputs
        keywords["groups"] = groups
    settings = {"memory_config": Code("ttnn.L1_MEMORY_CONFIG")} if _is_small(made.shape) else {}
    return low.emit(node, "linear", [rows], made, (module,), keywords, settings)


MOST_GROUPED = 256
"""Channels of rows that hold several groups: their products are one with all weights of the others zeros."""
MOST_IN_L1 = 16 * 1024
"""Rows of a narrow product that is left in L1: of wider ones TT-NN makes other programs there, some of them slower."""


def groups_in_rows(x: Value, order: Sequence[int], width: int) -> int:
    """How often the last dimension of this order stands in a row of the tensor on the card; 1 where the rows are to be
    rebuilt."""
    inputs = x.form.shape[order[-1]]
    groups = x.shape[-1] // inputs
    wide = x.form.lies_in(order) and groups * inputs == x.shape[-1]
    return groups if wide and groups * max(inputs, width) <= MOST_GROUPED else 1


def _is_small(shape: Shape) -> bool:
    return shape[-1] <= TILE and prod(shape[:-1]) <= MOST_IN_L1


@lowers("layer_norm")
def layer_norm(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["input"])
    own = node.arguments
    if len(own["normalized_shape"]) != 1:
        raise Unsupported("a layer norm over more than the last dimension")
    rows = low.rows(node, x, _row_order(x.form))
    weights = (own["weight"], own["bias"])
    module = low.own(node) or low.made("layer_norm_of", weights, own["normalized_shape"][0], eps=own["eps"])
    return low.emit(
        node, "layer_norm", [rows], Value(rows.form, rows.shape, node=node), (module,), frees="deallocate_input"
    )


@lowers("softmax", "_softmax")
def softmax(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["self"])
    rank = len(x.form.dims)
    dim = node.arguments["dim"] % rank
    order = order_of(x.form)
    if order is None or order[-1] != dim:
        order = (*(each for each in range(rank) if each != dim), dim)
    groups = groups_in_rows(x, order, 1)
    if groups > 1 and _is_averaged(low, node):
        made = Value(x.form, x.shape, node=node)
        sizes = (groups, x.form.shape[dim])
        return low.emit(node, "grouped_softmax", [x], made, sizes, frees="deallocate_input")
    rows = low.rows(node, x, order)
    made = Value(rows.form, rows.shape, node=node)
    precise = {"precise": True}
    return low.emit(node, "function", [rows], made, ("softmax",), {"dim": -1}, precise, frees="deallocate_input")


_VIEWS = frozenset(["view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "flatten", "unflatten"])


def _is_averaged(low: Lowering, node: TorchNode) -> bool:
    """Whether the shares weigh constants, as where a distribution stands for its mean."""
    users = low.users[node]
    return bool(users) and all(
        user.op in ("linear", "conv2d") or (user.op in _VIEWS and _is_averaged(low, user)) for user in users
    )


@lowers("matmul", "bmm", "mm")
def matmul(low: Lowering, node: TorchNode) -> Value:
    one: Any = node.arguments["self"]
    other: Any = node.arguments.get("other", node.arguments.get("mat2"))
    ranks = [len(each.shape) for each in (one, other)]
    if ranks[0] != ranks[1] or ranks[0] not in (2, 3, 4) or one.shape[:-2] != other.shape[:-2]:
        raise Unsupported(f"a product of {one.shape} and {other.shape}")
    a, b = (_matrices(low, node, each) for each in (one, other))
    form = Form.in_order(node.shape)  # type: ignore[arg-type]
    made = Value(form, _four(node.shape), node=node)  # type: ignore[arg-type]
    return low.emit(node, "function", [a, b], made, ("matmul",), settings={"precise": True}, frees="deallocate_input")


@lowers("einsum")
def einsum(low: Lowering, node: TorchNode) -> Value:
    """Those that could be written out are other ops by now."""
    raise Unsupported(node.fused["unsupported"])


def _matrices(low: Lowering, node: TorchNode, argument: Any) -> Value:
    constant = low.constant(argument)
    order = tuple(range(len(argument.shape)))
    if constant is not None:
        return low.on_card(constant, constant.shape, order, _four(constant.shape))
    ordered = low.in_order(node, low.value(argument), order)
    return low.seen(node, ordered, _four(ordered.form.shape))


def _four(shape: Shape) -> Shape:
    return (1,) * (4 - len(shape)) + tuple(shape)


@lowers("scaled_dot_product_attention")
def attention(low: Lowering, node: TorchNode) -> Value:
    """(batch, heads, tokens, size) as tokens with their heads side by side, which is what projections give and take."""
    if node.arguments.get("is_causal") or node.arguments.get("enable_gqa"):
        raise Unsupported("a causal mask, or groups of queries")
    q, k, v = (_with_heads(_tokens_or_constant(low, node.arguments[name])) for name in ("query", "key", "value"))
    batch, heads, queries, size = q.form.shape
    keys = k.form.shape[2]
    if q.form.shape[:2] != k.form.shape[:2] or k.form.shape != v.form.shape or k.form.shape[-1] != size:
        raise Unsupported(f"attention of {q.form.shape}, {k.form.shape} and {v.form.shape}")
    tokens = _fused(low, node, (q, k, v)) or [_tokens(low, node, each) for each in (q, k, v)]
    scale = node.arguments.get("scale")
    keywords: dict[str, Any] = {} if scale is None else {"scale": round(float(scale), 10)}
    keywords |= _bias(low, node, (batch, heads, queries, keys))
    form = Form.in_order((batch, heads, queries, size), TOKENS).reshaped(node.shape)  # type: ignore[arg-type]
    made = Value(form, (1, 1, batch * queries, heads * size), node=node)
    frees = ("deallocate_input",) * len(tokens)
    return low.emit(node, "attention", tokens, made, (heads, size, batch), keywords, name="attention", frees=frees)


TOKENS = (0, 2, 1, 3)
"""Batch, token, head and the values of a head, in memory."""


def _tokens_or_constant(low: Lowering, argument: Any) -> Value:
    """Queries that a model learns do not depend on its input."""
    constant = low.constant(argument)
    if constant is None:
        return low.value(argument)
    shape = constant.shape if len(constant.shape) != 3 else shape_with_heads(constant.shape)
    batch, heads, tokens, size = shape
    return low.on_card(constant, shape, TOKENS, (1, 1, batch * tokens, heads * size))


def _with_heads(value: Value) -> Value:
    shape = value.form.shape
    if len(shape) not in (3, 4):
        raise Unsupported(f"attention of {len(shape)} dimensions")
    if len(shape) == 4:
        return value
    return Value(value.form.reshaped((shape[0], 1, *shape[1:])), value.shape, value.tiles, memory=value)


def _tokens(low: Lowering, node: TorchNode, value: Value) -> Value:
    batch, heads, tokens, size = value.form.shape
    rows = (1, 1, batch * tokens, heads * size)
    return low.seen(node, low.in_order(node, value, TOKENS, rows), rows)


def _fused(low: Lowering, node: TorchNode, values: Sequence[Value]) -> list[Value] | None:
    """The output of one projection that q, k and v are the parts of, in this order; or q, and that of k and v."""
    batch, heads, tokens, size = values[-1].form.shape
    width = heads * size
    for first in (0, 1):
        parts = [_cut(value) for value in values[first:]]
        count = len(parts)
        sources = [part.source for part in parts if part is not None]
        if len(sources) < count or any(source is not sources[0] for source in sources):
            continue
        wanted = [(batch * tokens, count * width, index * width) for index in range(count)]
        if [(part.rows, part.width, part.start) for part in parts if part is not None] != wanted:
            continue
        whole = low.seen(node, sources[0], (1, 1, batch * tokens, count * width))
        return [*(_tokens(low, node, value) for value in values[:first]), whole]
    return None


def _cut(value: Value) -> Cut | None:
    """Where tokens with their heads side by side were cut from another tensor."""
    if not value.form.lies_in(TOKENS):
        return None
    here: Value | None = value
    while here is not None and here.cut is None:
        here = here.memory
    return here.cut if here is not None else None


def _bias(low: Lowering, node: TorchNode, scores: Shape) -> dict[str, Any]:
    """What is added to the scores, for all sequences alike or for each window of an image."""
    given = node.arguments.get("attn_mask")
    if given is None:
        return {}
    constant = low.constant(given)
    if constant is None:
        raise Unsupported("a mask that is computed from the input")
    shape = constant.shape if len(constant.shape) != 3 or len(node.shape) == 4 else (shape_with_heads(constant.shape))
    aligned = (1,) * (4 - len(shape)) + tuple(shape)
    if aligned[0] not in (1, scores[0]) or aligned[1] not in (1, scores[1]):
        raise Unsupported(f"a mask of shape {constant.shape}")
    expanded = (*aligned[:2], *scores[2:])
    return {"mask" if aligned[0] > 1 else "bias": OnCard(constant, expanded, (0, 1, 2, 3), expanded)}


def shape_with_heads(shape: Shape) -> Shape:
    """A mask (batch, queries, keys) of attention without heads."""
    return (shape[0], 1, *shape[1:])
