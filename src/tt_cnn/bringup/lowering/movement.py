# SPDX-License-Identifier: Apache-2.0
"""Rules for what moves values and computes nothing: views, permutations, parts, copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from tt_cnn.bringup.forms import IMAGE, Form, NotExpressible, nearest_order, order_of
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Code, Cut, Shape, Value
from tt_cnn.bringup.torch_graph import TorchNode

MOST_DIMENSIONS = 4
"""Of a tensor that ops of TT-NN take, when it is not a permutation."""


def _with_form(value: Value, form: Form) -> Value:
    """The same tensor, seen otherwise by torch alone."""
    return Value(form, value.shape, value.tiles, memory=value)


@lowers(
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "_unsafe_view",
    "unflatten",
    "view_as",
    "reshape_as",
)
def view(low: Lowering, node: TorchNode) -> Value:
    value = low.value(node.arguments["self"])
    shape: Shape = node.shape  # type: ignore[assignment]
    try:
        return _with_form(value, value.form.reshaped(shape))
    except NotExpressible:
        ordered = low.in_order(node, value, range(len(value.form.dims)))
        return _with_form(ordered, Form.in_order(shape))


@lowers("permute")
def permute(low: Lowering, node: TorchNode) -> Value:
    value = low.value(node.arguments["self"])
    rank = len(value.form.dims)
    return _with_form(value, value.form.permuted([dim % rank for dim in node.arguments["dims"]]))


@lowers("transpose", "swapaxes", "swapdims")
def transpose(low: Lowering, node: TorchNode) -> Value:
    value = low.value(node.arguments["self"])
    order = list(range(len(value.form.dims)))
    names = ("dim0", "dim1") if "dim0" in node.arguments else ("axis0", "axis1")
    one, other = (node.arguments[name] % len(order) for name in names)
    order[one], order[other] = order[other], order[one]
    return _with_form(value, value.form.permuted(order))


@lowers("t")
def t(low: Lowering, node: TorchNode) -> Value:
    value = low.value(node.arguments["self"])
    return _with_form(value, value.form.permuted((1, 0) if len(value.form.dims) == 2 else (0,)))


@lowers("getitem")
def getitem(low: Lowering, node: TorchNode) -> Any:
    return low.values[node.arguments["self"]][node.arguments["0"]]


@lowers("chunk", "split", "split_with_sizes", "tensor_split")
def split(low: Lowering, node: TorchNode) -> list[Value | None]:
    """Only the parts that somebody reads."""
    dim = node.arguments.get("dim", 0)
    read = {user.arguments["0"] for user in low.users[node] if user.op == "getitem"}
    parts: list[Value | None] = []
    start = 0
    for index, shape in enumerate(node.shape):
        size = shape[dim]  # type: ignore[index]
        parts.append(_part(low, node, dim, start, start + size) if index in read else None)
        start += size
    return parts


@lowers("unbind")
def unbind(low: Lowering, node: TorchNode) -> list[Value | None]:
    dim = node.arguments.get("dim", 0)
    read = {user.arguments["0"] for user in low.users[node] if user.op == "getitem"}
    count = len(node.shape)
    return [_without(_part(low, node, dim, i, i + 1), dim) if i in read else None for i in range(count)]


@lowers("select")
def select(low: Lowering, node: TorchNode) -> Value:
    dim = node.arguments["dim"]
    index = node.arguments["index"] % node.arguments["self"].shape[dim]
    return _without(_part(low, node, dim, index, index + 1), dim)


@lowers("slice", "narrow")
def slice_(low: Lowering, node: TorchNode) -> Value:
    dim = node.arguments.get("dim", 0)
    size = node.arguments["self"].shape[dim]
    if node.op == "narrow":
        start = node.arguments["start"]
        return _part(low, node, dim, start, start + node.arguments["length"])
    start = _bounded(node.arguments.get("start") or 0, size)
    end = node.arguments.get("end")
    return _part(low, node, dim, start, size if end is None else _bounded(end, size), node.arguments.get("step", 1))


def _bounded(place: int, size: int) -> int:
    return max(0, min(size, place + size if place < 0 else place))


def _without(value: Value, dim: int) -> Value:
    """A dimension of one taken out."""
    shape = list(value.form.shape)
    del shape[dim]
    return _with_form(value, value.form.reshaped(shape))


def _part(low: Lowering, node: TorchNode, dim: int, start: int, end: int, step: int = 1) -> Value:
    """A slice along one torch dimension, wherever it lies in memory."""
    source = low.value(node.arguments["self"])
    dim %= len(source.form.dims)
    if not _in_one_piece(source.form.dims[dim]):
        source = low.in_order(node, source, nearest_order(source.form))
    form = source.form
    runs = form.dims[dim]
    size = form.shape[dim]
    if size == 1:
        return source
    if (start, end, step) == (0, size, 1):
        return source
    before = prod(form.runs[: runs[0]])
    after = prod(form.runs[runs[-1] + 1 :])
    length = len(range(start, end, step))
    shape = list(form.shape)
    shape[dim] = length
    made_form = _resized(form, dim, length)
    cut = Cut(source, before, size * after, start * after) if step == 1 else None
    if step == 1 and source.shape[-1] == size * after:
        width = length * after
        made = Value(made_form, (*source.shape[:-1], width), source.tiles, cut=cut)
        arguments: tuple[Any, ...] = (len(source.shape) - 1, start * after, end * after)
        return low.emit(node, "slice", [source], made, arguments, name=_part_name(node), frees="")
    inner = form.runs[-1] if runs[-1] + 1 < len(form.runs) else 1
    if inner == 1 and step == 1 and after == 1:
        seen: Shape = (1, 1, before, size)
        axis, result = 3, (1, 1, before, length)
    else:
        seen = (before, size, after // inner, inner)
        axis, result = 1, (before, length, after // inner, inner)
    made = Value(made_form, result, tiles=False, cut=cut)
    keywords = {"shape": seen} if seen != source.shape else {}
    if step != 1:
        keywords["step"] = step  # type: ignore[assignment]
    return low.emit(node, "slice", [source], made, (axis, start, end), keywords, name=_part_name(node))


def _part_name(node: TorchNode) -> str:
    return "part" if node.op in ("chunk", "split", "split_with_sizes", "unbind", "tensor_split") else "slice"


def _in_one_piece(runs: tuple[int, ...]) -> bool:
    return all(second == first + 1 for first, second in pairwise(runs))


def _resized(form: Form, dim: int, length: int) -> Form:
    """Another size along one torch dimension, which lies in memory in one piece."""
    runs = form.dims[dim]
    first, count = runs[0], len(runs)
    kept = 0 if length == 1 else 1
    sizes = (*form.runs[:first], *([length] if kept else []), *form.runs[first + count :])

    def moved(run: int) -> int:
        return run if run < first else run - count + kept

    dims = tuple(
        ((first,) if kept else ()) if index == dim else tuple(moved(run) for run in own)
        for index, own in enumerate(form.dims)
    )
    return Form(sizes, dims)


SPREADS = frozenset(["add", "sub", "mul", "div", "maximum", "minimum"])
"""Ops that spread their operands themselves."""


@lowers("expand", "expand_as")
def expand(low: Lowering, node: TorchNode) -> Value:
    """Nothing, for ops that spread by themselves; else copies."""
    source = low.value(node.arguments["self"])
    shape: Shape = node.shape  # type: ignore[assignment]
    own = source.form.shape
    aligned = (1,) * (len(shape) - len(own)) + own
    value = _with_form(source, source.form.reshaped(aligned))
    if node not in low.graph.outputs and all(_spreads(user, node) for user in low.users[node]):
        return value
    order = nearest_order(value.form)
    return _repeated(low, node, value, order, tuple(size // had for size, had in zip(shape, aligned, strict=True)))


def _spreads(user: TorchNode, node: TorchNode) -> bool:
    """Whether a reader has another operand that is as large as the result."""
    operands = [user.arguments.get(name) for name in ("self", "other")]
    others = [each for each in operands if each is not node]
    return user.op in SPREADS and len(others) == 1 and getattr(others[0], "shape", None) == user.shape


@lowers("repeat")
def repeat(low: Lowering, node: TorchNode) -> Value:
    times = tuple(node.arguments["repeats"])
    source = low.value(node.arguments["self"])
    own = source.form.shape
    value = _with_form(source, source.form.reshaped((1,) * (len(times) - len(own)) + own))
    return _repeated(low, node, value, nearest_order(value.form), times)


def _repeated(low: Lowering, node: TorchNode, value: Value, order: Sequence[int], times: Shape) -> Value:
    if len(order) > MOST_DIMENSIONS:
        raise Unsupported(f"copies along dimensions of {len(order)}")
    ordered = low.in_order(node, value, order)
    extra = (1,) * (MOST_DIMENSIONS - len(order))
    memory = extra + tuple(value.form.shape[dim] for dim in order)
    factors = extra + tuple(times[dim] for dim in order)
    result = tuple(size * factor for size, factor in zip(memory, factors, strict=True))
    made = Value(Form.in_order(node.shape, order), result, tiles=False, node=node)  # type: ignore[arg-type]
    x = low.seen(node, ordered, memory)
    return low.emit(
        node, "function", [x], made, ("repeat",), settings={"in_rows": True}, call=f"{{0}}, {factors}", name="repeat"
    )


@lowers("pad", "constant_pad_nd")
def pad(low: Lowering, node: TorchNode) -> Value:
    """Zeros, or another number, around images."""
    if node.arguments.get("mode", "constant") != "constant":
        raise Unsupported(f"padding mode {node.arguments['mode']!r}")
    border = list(node.arguments["pad"])
    if len(node.shape) != 4 or min(border) < 0:
        raise Unsupported("padding of what is no image, or negative padding")
    border += [0] * (8 - len(border))
    source = node.arguments["self"]
    batch, channels, height, width = source.shape
    x = low.seen(node, low.in_order(node, low.value(source), IMAGE), (batch, height, width, channels))
    amounts = tuple((border[2 * (3 - dim)], border[2 * (3 - dim) + 1]) for dim in IMAGE)
    made = Value(Form.in_order(node.shape, IMAGE), tuple(node.shape[dim] for dim in IMAGE), tiles=False)  # type: ignore[arg-type, misc]
    value = float(node.arguments.get("value") or 0.0)
    return low.emit(
        node,
        "function",
        [x],
        made,
        ("pad",),
        settings={"in_rows": True},
        call=f"{{0}}, {amounts}, {value}",
        frees="deallocate_input",
    )


@lowers("roll")
def roll(low: Lowering, node: TorchNode) -> Value:
    """One roll after the other; each is two slices and a join on the card."""
    value = low.value(node.arguments["self"])
    order = order_of(value.form)
    if order is None or len(order) > MOST_DIMENSIONS:
        value = low.in_order(node, value, range(len(value.form.dims)))
        order = tuple(range(len(value.form.dims)))
    memory = tuple(value.form.shape[dim] for dim in order)
    shape = (1,) * (MOST_DIMENSIONS - len(memory)) + memory
    x = low.seen(node, value, shape)
    extra = MOST_DIMENSIONS - len(memory)
    for amount, dim in zip(node.arguments["shifts"], node.arguments["dims"], strict=True):
        axis = order.index(dim % len(order)) + extra
        made = Value(value.form, shape, tiles=False)
        x = low.emit(
            node,
            "function",
            [x],
            made,
            ("roll",),
            settings={"in_rows": True},
            call=f"{{0}}, {amount}, {axis}",
            name="roll",
        )
    return x


@lowers("pixel_shuffle", "pixel_unshuffle")
def pixel_shuffle(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["self"]
    if len(node.shape) != 4:
        raise Unsupported(f"{node.op} of what is no batch of images")
    kind = "PixelShuffle" if node.op == "pixel_shuffle" else "PixelUnshuffle"
    factor = node.arguments["upscale_factor" if node.op == "pixel_shuffle" else "downscale_factor"]
    batch, channels, height, width = node.shape
    return low.emit(
        node,
        node.op,
        [low.image(node, low.value(source))],
        Value(Form.in_order(node.shape, IMAGE), (1, 1, batch * height * width, channels), node=node),  # type: ignore[arg-type, operator]
        (Code(f"nn.{kind}({factor})"),),
        settings={"input_size": tuple(source.shape[-2:]), "channels": source.shape[1]},
        frees="deallocate_input",
    )


@lowers("channel_shuffle")
def channel_shuffle(low: Lowering, node: TorchNode) -> Value:
    groups = node.arguments["groups"]
    value = low.value(node.arguments["self"])
    batch, channels, height, width = node.shape
    form = value.form.reshaped((batch, groups, channels // groups, height, width)).permuted((0, 2, 1, 3, 4))  # type: ignore[arg-type]
    return _with_form(value, form.reshaped(node.shape))  # type: ignore[arg-type]
