"""Rules for element-wise ops: activations, sums, products, and what else TT-NN has under the same name."""

from __future__ import annotations

from math import prod
from typing import Any

from tt_cnn.bringup.activations import activation_of
from tt_cnn.bringup.forms import Form, order_of
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Code, ConstantTensor, Shape, Value
from tt_cnn.bringup.torch_graph import TorchNode

UNARY = {
    "abs": "abs",
    "exp": "exp",
    "log": "log",
    "neg": "neg",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "sin": "sin",
    "cos": "cos",
    "erf": "erf",
    "floor": "floor",
    "ceil": "ceil",
    "square": "square",
    "sign": "sign",
    "log1p": "log1p",
    "expm1": "expm1",
    "atan": "atan",
}
"""torch's name and TT-NN's."""
BOTH = ("deallocate_input", "deallocate_other")
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
}


@lowers(*UNARY)
def unary(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["self"])
    made = Value(x.form, x.shape, node=node)
    return low.emit(node, "function", [x], made, (UNARY[node.op],), frees="deallocate_input")


@lowers("relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "sigmoid", "tanh", "selu", "leaky_relu", "gelu")
@lowers("hardtanh", "clamp", "clamp_min", "elu", "softplus")
def activation(low: Lowering, node: TorchNode) -> Value:
    """An activation that could not be fused into the op before it."""
    x = low.value(node.arguments["self"])
    code = activation_of(node)
    if code is None:
        return _clamp(low, node, x)
    made = Value(x.form, x.shape, x.tiles, node=node)
    return low.emit(node, "activation", [x], made, (Code(code),), frees="deallocate_input")


def _clamp(low: Lowering, node: TorchNode, x: Value) -> Value:
    least = node.arguments.get("min_val", node.arguments.get("min"))
    most = node.arguments.get("max_val", node.arguments.get("max"))
    if node.op not in ("clamp", "hardtanh", "clamp_min") or not all(
        isinstance(b, (int, float, type(None))) for b in (least, most)
    ):
        raise Unsupported(f"{node.op} of these arguments")
    made = Value(x.form, x.shape, node=node)
    bounds = {key: bound for key, bound in (("min", least), ("max", most)) if bound is not None}
    return low.emit(
        node, "function", [x], made, ("clamp",), {k: float(v) for k, v in bounds.items()}, frees="deallocate_input"
    )


@lowers("pow")
def power(low: Lowering, node: TorchNode) -> Value:
    exponent = node.arguments.get("exponent")
    if not isinstance(exponent, (int, float)) or exponent < 0:
        raise Unsupported("a power of a tensor, or a negative one")
    x = low.value(node.arguments["self"])
    made = Value(x.form, x.shape, node=node)
    return low.emit(node, "function", [x], made, ("pow",), call=f"{{0}}, {float(exponent)}", frees="deallocate_input")


@lowers("add", "sub", "mul", "div", "maximum", "minimum", "rsub")
def binary(low: Lowering, node: TorchNode) -> Value:
    one, other = node.arguments["self"], node.arguments["other"]
    alpha = node.arguments.get("alpha", 1)
    if alpha != 1 or node.arguments.get("rounding_mode") is not None:
        raise Unsupported("alpha or a rounding mode")
    if node.op == "rsub":
        one, other = other, one
    function = BINARY["sub" if node.op == "rsub" else node.op]
    if isinstance(one, (int, float)) or isinstance(other, (int, float)):
        return _with_number(low, node, one, other, function)
    constants = low.constant(one), low.constant(other)
    if any(constants):
        return _with_constant(low, node, one, other, constants, function)
    return _of_tensors(low, node, low.value(one), low.value(other), function)


def _with_number(low: Lowering, node: TorchNode, one: Any, other: Any, function: str) -> Value:
    first = isinstance(one, (int, float))
    x = low.value(other if first else one)
    number = float(one if first else other)
    if first and function == "divide":
        raise Unsupported("a number divided by a tensor")
    made = Value(x.form, x.shape, node=node)
    if first and function == "subtract":
        return low.emit(node, "function", [x], made, ("rsub",), call=f"{{0}}, {number}", frees="deallocate_input")
    return low.emit(node, "function", [x], made, (function,), call=f"{{0}}, {number}", frees="deallocate_input")


def _with_constant(
    low: Lowering,
    node: TorchNode,
    one: Any,
    other: Any,
    constants: tuple[ConstantTensor | None, ConstantTensor | None],
    function: str,
) -> Value:
    first = constants[0] is not None
    constant = constants[0] or constants[1]
    assert constant is not None
    x = low.value(other if first else one)
    if tuple(x.form.shape) != tuple(node.shape):
        raise Unsupported("a constant that is larger than the tensor")
    order = order_of(x.form)
    if order is None:
        order = tuple(range(len(x.form.dims)))
        x = low.in_order(node, x, order)
    if prod(constant.shape) == 1:
        scalar = low.on_card(constant, (1,) * len(order), order, (1, 1, 1, 1))
        made = Value(x.form, x.shape, node=node)
        inputs = [scalar, x] if first else [x, scalar]
        return low.emit(node, "function", inputs, made, (function,))
    rank = len(order)
    aligned = (1,) * (rank - len(constant.shape)) + tuple(constant.shape)
    last = order[-1]
    rows = low.rows(node, x, order)
    only_last = all(aligned[dim] == 1 for dim in order[:-1])
    if only_last:
        expanded: Shape = aligned
        shape = (1, 1, 1, aligned[last])
    else:
        expanded = tuple(x.form.shape[dim] if dim != last else aligned[dim] for dim in range(rank))
        shape = (1, 1, rows.shape[2], aligned[last])
    value = low.on_card(constant, expanded, order, shape)
    made = Value(rows.form, rows.shape, node=node)
    inputs = [value, rows] if first else [rows, value]
    return low.emit(node, "function", inputs, made, (function,), frees="" if first else "deallocate_input")


def _of_tensors(low: Lowering, node: TorchNode, x: Value, y: Value, function: str) -> Value:
    if x.form.shape == y.form.shape:
        return _alike(low, node, x, y, function)
    if tuple(y.form.shape) == tuple(node.shape) and function in ("add", "multiply"):
        x, y = y, x
    if tuple(x.form.shape) != tuple(node.shape):
        raise Unsupported(f"{x.form.shape} and {y.form.shape}, which both are spread")
    return _spread(low, node, x, y, function)


def _alike(low: Lowering, node: TorchNode, x: Value, y: Value, function: str) -> Value:
    order = order_of(x.form) or order_of(y.form) or tuple(range(len(x.form.dims)))
    a, b = low.rows(node, x, order), low.rows(node, y, order)
    made = Value(a.form, a.shape, node=node)
    if function == "add":
        keywords = {"activation": Code(node.fused["activation"])} if "activation" in node.fused else {}
        return low.emit(node, "add", [a, b], made, keywords=keywords)
    if function == "multiply":
        return low.emit(node, "multiply", [a, b], made, name="multiply", frees=BOTH)
    return low.emit(node, "function", [a, b], made, (function,), frees="deallocate_input")


def _spread(low: Lowering, node: TorchNode, x: Value, y: Value, function: str) -> Value:
    """y has dimensions of 1 where x has more."""
    order = order_of(x.form)
    if order is None:
        order = tuple(range(len(x.form.dims)))
        x = low.in_order(node, x, order)
    rank = len(order)
    aligned = (1,) * (rank - len(y.form.shape)) + tuple(y.form.shape)
    spread = Value(y.form.reshaped(aligned), y.shape, y.tiles, memory=y)
    ordered = low.in_order(node, spread, order)
    memory = [x.form.shape[dim] for dim in order]
    own = [aligned[dim] for dim in order]
    rows = low.rows(node, x, order)
    made = Value(rows.form, rows.shape, node=node)
    if all(size == 1 for size in own[:-1]) and own[-1] == memory[-1]:
        gate = low.seen(node, ordered, (1, 1, 1, memory[-1]))
    elif own[:-1] == memory[:-1] and own[-1] == 1:
        gate = low.seen(node, ordered, (1, 1, rows.shape[2], 1))
    elif function == "multiply" and own[0] == memory[0] and own[-1] == memory[-1] and set(own[1:-1]) <= {1}:
        gate = low.seen(node, ordered, (1, 1, memory[0], memory[-1]))
    else:
        raise Unsupported(f"{y.form.shape} spread over {x.form.shape}")
    if function == "multiply":
        return low.emit(node, "multiply", [rows, gate], made, name="multiply", frees=BOTH)
    return low.emit(node, "function", [rows, gate], made, (function,), frees="deallocate_input")


@lowers("mean", "sum", "amax", "amin")
def reduction(low: Lowering, node: TorchNode) -> Value:
    from tt_cnn.bringup.lowering.images import global_average

    source = node.arguments["self"]
    rank = len(source.shape)
    given = node.arguments.get("dim")
    dims = sorted(dim % rank for dim in ([given] if isinstance(given, int) else given or range(rank)))
    if node.op == "mean" and rank == 4 and dims == [2, 3]:
        return global_average(low, node, source)
    value = low.value(source)
    order = order_of(value.form)
    if order is None or len(order) > 4:
        order = tuple(range(rank))
    if len(order) > 4:
        raise Unsupported(f"a reduction of {rank} dimensions")
    x = low.in_order(node, value, order)
    memory = tuple(x.form.shape[dim] for dim in order)
    extra = 4 - len(memory)
    seen = low.seen(node, x, (1,) * extra + memory)
    kept = tuple(1 if dim in dims else x.form.shape[dim] for dim in range(rank))
    result = (1,) * extra + tuple(kept[dim] for dim in order)
    axes = [order.index(dim) + extra for dim in dims]
    names = {"amax": "max", "amin": "min"}
    form = Form.in_order(kept, order).reshaped(node.shape)  # type: ignore[arg-type]
    made = Value(form, result, node=node)
    axis: Any = axes[0] if len(axes) == 1 else axes
    return low.emit(
        node,
        "function",
        [seen],
        made,
        (names.get(node.op, node.op),),
        {"dim": axis, "keepdim": True},
        frees="deallocate_input",
    )
