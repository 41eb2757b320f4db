# SPDX-License-Identifier: Apache-2.0
"""Rules for joins of tensors."""

from __future__ import annotations

from math import prod
from typing import Any

from tt_cnn.bringup.forms import IMAGE, Form, nearest_order, order_of
from tt_cnn.bringup.lowering.lowering import Lowering, flat, lowers
from tt_cnn.bringup.lowering.program import Code, Shape, Value
from tt_cnn.bringup.torch_graph import TorchNode

MOST_JOINED = 16
"""Tensors that TT-NN joins at once: each has a circular buffer."""
MOST_BESIDE = 256
"""Channels of what is joined without a view."""


@lowers("cat", "concat", "concatenate")
def cat(low: Lowering, node: TorchNode) -> Value:
    parts = [part for part in node.arguments["tensors"] if 0 not in part.shape]
    if len(parts) == 1:
        return low.value(parts[0])
    rank = len(node.shape)
    dim = node.arguments.get("dim", 0) % rank
    if rank == 4 and dim == 1:
        return _joined_channels(low, node, parts)
    alike = _joined_alike(low, node, parts, dim)
    if alike is not None:
        return alike
    order = _common_order(low, parts, rank)
    values = [_on_card(low, node, part, order) for part in parts]
    axis, shapes, result = _seen_for_join(order, dim, [value.form.shape for value in values])
    seen = [low.seen(node, value, shape) for value, shape in zip(values, shapes, strict=True)]
    made = Value(Form.in_order(node.shape, order), result, tiles=all(value.tiles for value in seen))  # type: ignore[arg-type]
    template = "[" + ", ".join(f"{{{index}}}" for index in range(len(seen))) + f"], dim={axis}"
    settings = {"place": "dram" if _large(result) else "l1"}
    return low.emit(node, "concat", seen, made, settings=settings, call=template, name="concat")


def _joined_alike(low: Lowering, node: TorchNode, parts: list[Any], dim: int) -> Value | None:
    """Parts that lie alike side by side, where the dimension lies in the midst of their rows: which part it is becomes
    a run of the dimension in front of what a row has, and none has to be seen otherwise."""
    values = [low.values.get(part) if isinstance(part, TorchNode) else None for part in parts]
    found = [value for value in values if isinstance(value, Value) and value.constant is None]
    first = found[0] if found else None
    if first is None or len(found) < len(parts) or any((v.form, v.shape) != (first.form, first.shape) for v in found):
        return None
    form, (*outer, rows, width) = first.form, first.shape
    place = next((run for run in range(len(form.runs)) if prod(form.runs[run:]) == width), None)
    own = form.dims[dim]
    if place is None or outer != [1, 1] or len(found) * width > MOST_BESIDE or own == (place,):
        return None
    if any(run < place for run in own):
        return None
    shifted = [tuple(run + (run >= place) for run in runs) for runs in form.dims]
    shifted[dim] = (place, *shifted[dim])
    joined = Form((*form.runs[:place], len(found), *form.runs[place:]), tuple(shifted))
    made = Value(joined, (1, 1, rows, len(found) * width), tiles=all(value.tiles for value in found))
    template = "[" + ", ".join(f"{{{index}}}" for index in range(len(found))) + "]"
    settings = {"place": "dram" if _large(made.shape) else "l1"}
    return low.emit(node, "concat", found, made, settings=settings, call=template, name="concat")


def _joined_channels(low: Lowering, node: TorchNode, parts: list[Any]) -> Value:
    values = [_on_card(low, node, part, IMAGE) for part in parts]
    seen = [low.rows(node, value, IMAGE) for value in values]
    batch, _, height, width = node.shape
    while True:
        together, seen = seen[:MOST_JOINED], seen[MOST_JOINED:]
        shape = (batch, sum(part.shape[-1] for part in together), height, width)
        made = Value(Form.in_order(shape, IMAGE), (1, 1, batch * height * width, shape[1]))  # type: ignore[arg-type, operator]
        made.node = node if not seen else None
        template = "[" + ", ".join(f"{{{index}}}" for index in range(len(together))) + "]"
        if seen or low.users[node]:
            settings = {"output_layout": Code("ttnn.TILE_LAYOUT")}
        else:  # whoever takes outputs takes rows
            settings, made.tiles = {}, False
        low.emit(node, "concat", together, made, settings=settings, call=template, name="concat")
        if not seen:
            return made
        seen.insert(0, made)


def _common_order(low: Lowering, parts: list[Any], rank: int) -> tuple[int, ...]:
    """That of the first part whose dimensions lie one after the other; torch's own where none do."""
    for part in parts:
        value = low.values.get(part) if isinstance(part, TorchNode) else None
        if isinstance(value, Value):
            order = order_of(value.form)
            if order is not None:
                return order
    known = [low.values[part] for part in parts if isinstance(part, TorchNode)]
    return next((nearest_order(value.form) for value in known if isinstance(value, Value)), tuple(range(rank)))


def _on_card(low: Lowering, node: TorchNode, part: Any, order: tuple[int, ...]) -> Value:
    constant = low.constant(part)
    if constant is None:
        return low.in_order(node, low.value(part), order)
    form = Form.in_order(constant.shape, order)
    return low.on_card(constant, constant.shape, order, flat(form))


def _seen_for_join(order: tuple[int, ...], dim: int, shapes: list[Shape]) -> tuple[int, list[Shape], Shape]:
    """The axis to join along, each part as (outer, size, rows, last), and the result."""
    place = order.index(dim)
    found: list[Shape] = []
    for shape in shapes:
        memory = [shape[each] for each in order]
        outer, size, inner = prod(memory[:place]), memory[place], memory[place + 1 :]
        if not inner:
            found.append((1, 1, outer, size))
        elif outer == 1:
            found.append((1, 1, size * prod(inner[:-1]), inner[-1]))
        else:
            found.append((1, outer, size * prod(inner[:-1]), inner[-1]))
    last = place == len(order) - 1
    axis = 3 if last else 2
    total = sum(shape[axis] for shape in found)
    result = (*found[0][:axis], total, *found[0][axis + 1 :])
    return axis, found, result


def _large(shape: Shape) -> bool:
    return prod(shape) * 2 > 16 * 1024 * 1024
