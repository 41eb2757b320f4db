"""Rules for matmuls and what stands around them: linear layers, attention, softmax, norms of tokens."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import nn

from tt_cnn.bringup.forms import Form, order_of
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Code, Ref, Shape, Value
from tt_cnn.bringup.torch_graph import Parameter, TorchNode


def _last(shape: Shape) -> tuple[int, ...]:
    return tuple(range(len(shape)))


def _row_order(form: Form) -> tuple[int, ...]:
    """An order with torch's last dimension last: that of memory where it is so already."""
    order = order_of(form)
    return order if order is not None and order[-1] == len(order) - 1 else tuple(range(len(form.dims)))


@lowers("linear")
def linear(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["input"])
    order = _row_order(x.form)
    rows = low.rows(node, x, order)
    width = node.shape[-1]
    form = Form.in_order((*x.form.shape[:-1], width), order)  # type: ignore[arg-type]
    made = Value(form, (*rows.shape[:-1], width), node=node)  # type: ignore[arg-type]
    keywords = {"activation": Code(node.fused["activation"])} if "activation" in node.fused else {}
    module = low.module(node, nn.Linear)
    return low.emit(node, "linear", [rows], made, (module or _functional(node),), keywords)


def _functional(node: TorchNode) -> Any:
    """`F.linear` with parameters of the model: nn.MultiheadAttention has its own like that."""
    weight, bias = node.arguments["weight"], node.arguments["bias"]
    if not isinstance(weight, Parameter) or not isinstance(bias, (Parameter, type(None))):
        raise Unsupported("a linear layer whose weight is computed")
    return Linear(Ref(weight.path), Ref(bias.path) if bias is not None else Code("None"))


class Linear(tuple):  # type: ignore[type-arg]
    """A linear layer of two parameters."""

    def __new__(cls, weight: Ref, bias: Any) -> Linear:
        return super().__new__(cls, (weight, bias))


@lowers("layer_norm")
def layer_norm(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["input"])
    module = low.module(node, nn.LayerNorm)
    if len(node.arguments["normalized_shape"]) != 1:
        raise Unsupported("a layer norm over more than the last dimension")
    rows = low.rows(node, x, _row_order(x.form))
    made = Value(rows.form, rows.shape, node=node)
    return low.emit(node, "layer_norm", [rows], made, (module or _functional_norm(node),), frees="deallocate_input")


def _functional_norm(node: TorchNode) -> Any:
    weight, bias = node.arguments["weight"], node.arguments["bias"]
    if not isinstance(weight, Parameter) or not isinstance(bias, (Parameter, type(None))):
        raise Unsupported("a layer norm whose weight is computed")
    return Norm((Ref(weight.path), Ref(bias.path) if bias is not None else Code("None"), node.arguments["eps"]))


class Norm(tuple):  # type: ignore[type-arg]
    """A layer norm of two parameters and an epsilon."""


@lowers("softmax", "_softmax")
def softmax(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["self"])
    rank = len(x.form.dims)
    dim = node.arguments["dim"] % rank
    order = order_of(x.form)
    if order is None or order[-1] != dim:
        order = (*(each for each in range(rank) if each != dim), dim)
    rows = low.rows(node, x, order)
    made = Value(rows.form, rows.shape, node=node)
    return low.emit(node, "function", [rows], made, ("softmax",), {"dim": -1}, frees="deallocate_input")


@lowers("matmul", "bmm", "mm")
def matmul(low: Lowering, node: TorchNode) -> Value:
    one, other = node.arguments["self"], node.arguments.get("other", node.arguments.get("mat2"))
    if low.constant(one) is not None or low.constant(other) is not None:
        raise Unsupported("a product with a parameter that is no linear layer's")
    x, y = low.value(one), low.value(other)
    if len(x.form.dims) != len(y.form.dims) or len(x.form.dims) > 4 or len(x.form.dims) < 2:
        raise Unsupported(f"a product of {x.form.shape} and {y.form.shape}")
    a, b = (_matrices(low, node, value) for value in (x, y))
    form = Form.in_order(node.shape)  # type: ignore[arg-type]
    made = Value(form, _four(node.shape), node=node)  # type: ignore[arg-type]
    return low.emit(node, "function", [a, b], made, ("matmul",), frees="deallocate_input")


def _matrices(low: Lowering, node: TorchNode, value: Value) -> Value:
    ordered = low.in_order(node, value, range(len(value.form.dims)))
    return low.seen(node, ordered, _four(ordered.form.shape))


def _four(shape: Shape) -> Shape:
    return (1,) * (4 - len(shape)) + tuple(shape)


@lowers("scaled_dot_product_attention")
def attention(low: Lowering, node: TorchNode) -> Value:
    """(batch, heads, tokens, size): heads apart, as torch has them; the card gets them so as well."""
    if node.arguments.get("is_causal") or node.arguments.get("enable_gqa"):
        raise Unsupported("a causal mask, or groups of queries")
    q, k, v = (low.value(node.arguments[name]) for name in ("query", "key", "value"))
    biases = list(node.fused.get("biases", []))
    if node.arguments.get("attn_mask") is not None:
        biases.append(node.arguments["attn_mask"])
    size = q.form.shape[-1]
    scale = node.arguments.get("scale")
    scale = size**-0.5 if scale is None else scale
    given = [_heads(low, node, each) for each in (q, k, v)]
    if len(biases) > 1 or any(low.constant(bias) is None for bias in biases):
        raise Unsupported("a mask that is computed, or several")
    keywords: dict[str, Any] = {"scale": round(float(scale), 10)}
    inputs = list(given)
    call = "{0}, {1}, {2}"
    if biases:
        constant = low.constant(biases[0])
        assert constant is not None
        heads, tokens = given[0].shape[1], given[0].shape[2]
        aligned = _four(constant.shape)
        if aligned[0] not in (1, given[0].shape[0]) or aligned[1] not in (1, heads):
            raise Unsupported(f"a mask of shape {constant.shape}")
        shape = (aligned[0], heads, tokens, given[1].shape[2])
        inputs.append(low.on_card(constant, shape, (0, 1, 2, 3), shape))
        call += ", {3}"
    shape = tuple(node.shape)  # type: ignore[assignment]
    made = Value(Form.in_order(shape), _four(shape), node=node)  # type: ignore[arg-type]
    return low.emit(node, "attention", inputs, made, keywords=keywords, call=call, name="attention")


def _heads(low: Lowering, node: TorchNode, value: Value) -> Value:
    if len(value.form.dims) not in (3, 4):
        raise Unsupported(f"attention of {len(value.form.dims)} dimensions")
    return _matrices(low, node, value)


__all__ = ["Linear", "Norm", "prod"]
