# SPDX-License-Identifier: Apache-2.0
"""Rules for element-wise ops: activations, sums, products, and what else TT-NN has under the same name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tt_cnn.bringup.activations import activation_of
from tt_cnn.bringup.forms import Form, nearest_order, order_of
from tt_cnn.bringup.lowering.lowering import TILE, Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.pointwise import ACTIVATIONS, BINARY, UNARY, WITH_NUMBERS
from tt_cnn.bringup.lowering.program import Code, ConstantTensor, Shape, Value
from tt_cnn.bringup.torch_graph import TorchNode

MOST_SPREAD = 1024 * 1024
"""Values of a constant that is spread when the model is made."""
MOST_SPREAD_CHANNELS = 1024
"""Channels that factors are spread over by a product."""
BOTH = ("deallocate_input", "deallocate_other")


@lowers(*UNARY)
def unary(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["self"])
    made = Value(x.form, x.shape, node=node)
    return low.emit(node, "function", [x], made, (UNARY[node.op],), frees="deallocate_input")


@lowers(*ACTIVATIONS)
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


@lowers(*WITH_NUMBERS)
def with_numbers(low: Lowering, node: TorchNode) -> Value:
    x = low.value(node.arguments["self"])
    numbers = {name: float(node.arguments[name]) for name in WITH_NUMBERS[node.op]}
    made = Value(x.form, x.shape, node=node)
    return low.emit(node, "function", [x], made, (node.op,), numbers, frees="deallocate_input")


@lowers(*BINARY, "rsub")
def binary(low: Lowering, node: TorchNode) -> Value:
    one, other = node.arguments["self"], node.arguments["other"]
    alpha = node.arguments.get("alpha", 1)
    if node.arguments.get("rounding_mode") is not None:
        raise Unsupported("a rounding mode")
    if alpha != 1:
        one, other = _times(low, node, alpha)
    if node.op == "rsub":
        one, other = other, one
    function = BINARY["sub" if node.op == "rsub" else node.op]
    if isinstance(one, (int, float)) or isinstance(other, (int, float)):
        return _with_number(low, node, one, other, function)
    constants = low.constant(one), low.constant(other)
    if any(constants):
        return _with_constant(low, node, one, other, constants, function)
    return _of_tensors(low, node, low.value(one), low.value(other), function)


def _times(low: Lowering, node: TorchNode, alpha: float) -> tuple[Any, Any]:
    """The operands, what is added multiplied by alpha; in `rsub` it is the first that is taken away."""
    name = "self" if node.op == "rsub" else "other"
    given = {each: node.arguments[each] for each in ("self", "other")}
    if isinstance(given[name], (int, float)):
        given[name] = given[name] * alpha
        return given["self"], given["other"]
    if low.constant(given[name]) is not None:
        raise Unsupported("alpha times a parameter")
    x = low.value(given[name])
    made, call = Value(x.form, x.shape), f"{{0}}, {float(alpha)}"
    given[name] = low.emit(node, "function", [x], made, ("multiply",), call=call, name="alpha")
    return given["self"], given["other"]


def _with_number(low: Lowering, node: TorchNode, one: Any, other: Any, function: str) -> Value:
    first = isinstance(one, (int, float))
    x = low.value(other if first else one)
    number = float(one if first else other)
    made = Value(x.form, x.shape, node=node)
    if first and function == "divide":
        inverse = Value(x.form, x.shape)
        x = low.emit(node, "function", [x], inverse, ("reciprocal",), name="reciprocal", frees="deallocate_input")
        return low.emit(node, "function", [x], made, ("multiply",), call=f"{{0}}, {number}", frees="deallocate_input")
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
    first = first and function not in ("add", "multiply")  # the result is put where the first operand is
    if tuple(x.form.shape) != tuple(node.shape):
        spread = _constant_value(low, constant, len(node.shape))
        operands = (spread, x) if constants[0] is not None else (x, spread)
        return _spread(low, node, *operands, function)
    order = nearest_order(x.form)
    x = low.in_order(node, x, order)
    if prod(constant.shape) == 1:
        scalar = low.on_card(constant, (1,) * len(order), order, (1, 1, 1, 1))
        made = Value(x.form, x.shape, node=node)
        inputs = [scalar, x] if first else [x, scalar]
        return low.emit(node, "function", inputs, made, (function,))
    rank = len(order)
    aligned = (1,) * (rank - len(constant.shape)) + tuple(constant.shape)
    last = order[-1]
    if x.shape[-1] != x.form.shape[last] and prod(x.shape) <= MOST_SPREAD:  # as it is, and the constant like it
        rows, expanded, shape = x, x.form.shape, x.shape
    else:
        rows = low.rows(node, x, order)
        small = rows.shape[-1] <= TILE  # spread by the card, it would take as many tiles
        if all(aligned[dim] == 1 for dim in order[:-1]):
            expanded, shape = aligned, (1, 1, 1, aligned[last])
        else:
            width = rows.shape[-1] if small else aligned[last]
            expanded = tuple(x.form.shape[dim] if dim != last else width for dim in range(rank))
            shape = (1, 1, rows.shape[2], width)
    value = low.on_card(constant, expanded, order, shape)
    made = Value(rows.form, rows.shape, node=node)
    inputs = [value, rows] if first else [rows, value]
    return low.emit(node, "function", inputs, made, (function,), frees="" if first else "deallocate_input")


def _of_tensors(low: Lowering, node: TorchNode, x: Value, y: Value, function: str) -> Value:
    if x.form.shape == y.form.shape:
        return _alike(low, node, x, y, function)
    if function in ("add", "multiply") and prod(y.form.shape) > prod(x.form.shape):
        x, y = y, x
    return _spread(low, node, x, y, function)


def _alike(low: Lowering, node: TorchNode, x: Value, y: Value, function: str) -> Value:
    if x.form == y.form:
        a, b = x, low.seen(node, y, x.shape)
    else:
        order = order_of(x.form) or order_of(y.form) or nearest_order(x.form)
        a, b = low.rows(node, x, order), low.rows(node, y, order)
    made = Value(a.form, a.shape, node=node)
    if function == "add":
        keywords = {"activation": Code(node.fused["activation"])} if "activation" in node.fused else {}
        return low.emit(node, "add", [a, b], made, keywords=keywords)
    if function == "multiply":
        return low.emit(node, "multiply", [a, b], made, name="multiply", frees=BOTH)
    return low.emit(node, "function", [a, b], made, (function,), frees="deallocate_input")


def _spread(low: Lowering, node: TorchNode, x: Value, y: Value, function: str) -> Value:
    """Dimensions of 1 are spread: TT-NN does so where neighbours that are spread alike make up four dimensions."""
    shape: Shape = node.shape  # type: ignore[assignment]
    given = [_of_rank(value, len(shape)) for value in (x, y)]
    larger = max(given, key=lambda value: prod(value.form.shape))
    order = nearest_order(larger.form)
    ordered = [low.in_order(node, value, order) for value in given]
    whole = [value.form.shape == tuple(shape) for value in ordered]
    if function == "multiply" and whole[0] and _is_gate(ordered[1].form.shape, order, shape):
        rows = low.rows(node, ordered[0], order)
        gate = low.seen(node, ordered[1], (1, 1, shape[order[0]], shape[order[-1]]))
        return low.emit(
            node, "multiply", [rows, gate], Value(rows.form, rows.shape, node=node), name="multiply", frees=BOTH
        )
    kinds = [tuple(value.form.shape[dim] == 1 and shape[dim] != 1 for value in ordered) for dim in order]
    groups = _groups([shape[dim] for dim in order], kinds)
    if len(groups) > 4:
        raise Unsupported(f"{x.form.shape} and {y.form.shape}, which are spread over each other")
    if function == "multiply" and _has_groups(ordered, groups):
        x, y = ordered
        made = Value(x.form, x.shape, node=node)
        return low.emit(node, "multiply", [x, y], made, name="multiply", frees=BOTH)
    extra = (1,) * (4 - len(groups))
    seen = [
        low.seen(node, value, extra + tuple(1 if alone[index] else size for size, alone in groups))
        for index, value in enumerate(ordered)
    ]
    made = Value(Form.in_order(shape, order), extra + tuple(size for size, _ in groups), node=node)
    return low.emit(node, "function", seen, made, (function,), frees="deallocate_input")


def _constant_value(low: Lowering, constant: ConstantTensor, rank: int) -> Value:
    aligned = (1,) * (rank - len(constant.shape)) + tuple(constant.shape)
    return low.on_card(constant, aligned, range(rank), (1, 1, 1, prod(aligned)))


def _has_groups(operands: Sequence[Value], groups: Sequence[tuple[int, Any]]) -> bool:
    """Whether the second has one value for each of several groups of neighbours in the rows of the first."""
    x, y = operands
    if len(groups) != 2 or [alone for _, alone in groups] != [(False, False), (False, True)]:
        return False
    size = groups[1][0]
    rows = x.shape[:-1] == y.shape[:-1] and x.constant is None and y.constant is None
    return rows and y.shape[-1] > 1 and x.shape[-1] == y.shape[-1] * size and x.shape[-1] <= MOST_SPREAD_CHANNELS


def _of_rank(value: Value, rank: int) -> Value:
    shape = value.form.shape
    if len(shape) == rank:
        return value
    return Value(value.form.reshaped((1,) * (rank - len(shape)) + shape), value.shape, value.tiles, memory=value)


def _is_gate(shape: Shape, order: Sequence[int], whole: Shape) -> bool:
    """One value for each channel of each of several images, the channels last."""
    first, *between, last = order
    alone = all(shape[dim] == 1 for dim in between) and shape[last] == whole[last]
    return bool(between) and alone and shape[first] == whole[first] > 1 and first == 0


REDUCTIONS = {"mean": "mean", "sum": "sum", "amax": "max", "amin": "min", "max": "max", "min": "min"}
"""torch's name and TT-NN's."""


@lowers("mean", "sum", "amax", "amin")
def reduction(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["self"]
    rank = len(source.shape)
    given = node.arguments.get("dim")
    dims = [given] if isinstance(given, int) else given or range(rank)
    return _reduced(low, node, sorted(dim % rank for dim in dims), node.shape)  # type: ignore[arg-type]


@lowers("max", "min")
def extreme(low: Lowering, node: TorchNode) -> Any:
    """Of all, or along a dimension with the places, which nobody may read."""
    rank = len(node.arguments["self"].shape)
    if "dim" not in node.arguments:
        if "other" in node.arguments:
            node.op = {"max": "maximum", "min": "minimum"}[node.op]
            return binary(low, node)
        return _reduced(low, node, list(range(rank)), node.shape)  # type: ignore[arg-type]
    if any(user.arguments.get("0") != 0 for user in low.users[node]):
        raise Unsupported("the places of the extremes")
    return [_reduced(low, node, [node.arguments["dim"] % rank], node.shape[0]), None]  # type: ignore[arg-type]


@lowers("linalg_vector_norm")
def vector_norm(low: Lowering, node: TorchNode) -> Value:
    """The root of the sum of squares, as `F.normalize` has it."""
    dims = node.arguments.get("dim")
    if node.arguments.get("ord", 2) != 2 or not dims:
        raise Unsupported("a norm other than the root of a sum of squares along dimensions")
    x = low.value(node.arguments["self"])
    squares = low.emit(node, "function", [x], Value(x.form, x.shape), ("square",), name="square")
    rank = len(x.form.dims)
    shape: Shape = node.shape  # type: ignore[assignment]
    total = _reduced(low, node, sorted(dim % rank for dim in dims), shape, "sum", squares)
    made = Value(total.form, total.shape, node=node)
    return low.emit(node, "function", [total], made, ("sqrt",), frees="deallocate_input")


@lowers("adaptive_avg_pool1d")
def adaptive_avg_pool1d(low: Lowering, node: TorchNode) -> Value:
    if node.shape[-1] != 1:
        raise Unsupported("an adaptive pool of sequences to more than one value")
    return _reduced(low, node, [len(node.shape) - 1], node.shape, "mean")


def _reduced(
    low: Lowering, node: TorchNode, dims: list[int], shape: Shape, op: str = "", given: Value | None = None
) -> Value:
    """`given` in the place of the node's own operand."""
    from tt_cnn.bringup.lowering.images import global_average

    source = node.arguments["self"]
    rank = len(source.shape)
    if (op or node.op) == "mean" and rank == 4 and dims == [2, 3]:
        return global_average(low, node, source)
    value = given or low.value(source)
    order = nearest_order(value.form)
    groups = _groups([source.shape[dim] for dim in order], [dim in dims for dim in order])
    if len(groups) > 4:
        raise Unsupported(f"a reduction of {rank} dimensions")
    if not any(gone for _, gone in groups):  # of dimensions of one
        return Value(value.form.reshaped(shape), value.shape, value.tiles, memory=value)
    x = low.in_order(node, value, order)
    extra = 4 - len(groups)
    seen = low.seen(node, x, (1,) * extra + tuple(size for size, _ in groups))
    kept = tuple(1 if dim in dims else source.shape[dim] for dim in range(rank))
    result = (1,) * extra + tuple(1 if gone else size for size, gone in groups)
    axes = [place + extra for place, (_, gone) in enumerate(groups) if gone]
    made = Value(Form.in_order(kept, order).reshaped(shape), result, node=node)
    axis: Any = axes[0] if len(axes) == 1 else axes
    name = REDUCTIONS[op or node.op]
    keywords, precise = {"dim": axis, "keepdim": True}, {"precise": True}
    return low.emit(node, "function", [seen], made, (name,), keywords, precise, frees="deallocate_input")


def _groups(sizes: Sequence[int], kinds: Sequence[Any]) -> list[tuple[int, Any]]:
    """Neighbours of one kind as one dimension; dimensions of 1 are of any kind."""
    found: list[tuple[int, Any]] = []
    for size, kind in zip(sizes, kinds, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == kind:
            found[-1] = (found[-1][0] * size, kind)
        else:
            found.append((size, kind))
    return found or [(1, kinds[-1])]
