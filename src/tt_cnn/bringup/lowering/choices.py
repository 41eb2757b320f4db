# SPDX-License-Identifier: Apache-2.0
"""Rules for conditions: `where`, and casts between them and numbers."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

import torch

from tt_cnn.bringup.forms import Form, nearest_order
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Value
from tt_cnn.bringup.node_writer import written_values
from tt_cnn.bringup.torch_graph import TorchNode

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@lowers("to", "_to_copy", "type_as", "float")
def cast(low: Lowering, node: TorchNode) -> Value:
    """Conditions are 1 and 0 on the card, so that as numbers they are what they were."""
    source = node.arguments["self"]
    x = low.value(source)
    if source.dtype is torch.bool and (node.dtype in FLOATS or node.dtype is torch.bool):
        return Value(x.form, x.shape, x.tiles, memory=x)
    if node.dtype is torch.bool and source.dtype in FLOATS:
        made = Value(x.form, x.shape, node=node)
        return low.emit(node, "function", [x], made, ("ne",), call="{0}, 0.0", name="is_not_zero")
    raise Unsupported(f"a cast from {source.dtype} to {node.dtype}")


@lowers("where")
def where(low: Lowering, node: TorchNode) -> Value:
    """One tensor at least depends on the input; the others are numbers, constants, or tensors of the same shape."""
    given = [node.arguments.get(name) for name in ("condition", "self", "other")]
    if any(each is None for each in given):
        raise Unsupported("where with a condition alone")
    values = [low.values.get(each) if isinstance(each, TorchNode) else None for each in given]
    tensors = [value for value in values if isinstance(value, Value)]
    if any(value.form.shape != tuple(node.shape) for value in tensors):
        raise Unsupported("a choice between tensors that are spread over each other")
    order = nearest_order(tensors[0].form)
    inputs: list[Value] = []
    text = []
    for argument, value in zip(given, values, strict=True):
        number = _number(argument)
        if number is not None:
            text.append(repr(number) if isfinite(number) else f'float("{number}")')
            continue
        text.append(f"{{{len(inputs)}}}")
        rows = low.rows(node, value, order) if isinstance(value, Value) else _constant(low, node, argument, order)
        inputs.append(rows)
    made = Value(Form.in_order(node.shape, order), inputs[0].shape, node=node)  # type: ignore[arg-type]
    return low.emit(node, "function", inputs, made, ("where",), call=", ".join(text))


def _number(argument: Any) -> float | None:
    if isinstance(argument, (int, float)):
        return float(argument)
    values = written_values(argument)
    return float(values) if values is not None and values.numel() == 1 else None


def _constant(low: Lowering, node: TorchNode, argument: Any, order: tuple[int, ...]) -> Value:
    constant = low.constant(argument)
    if constant is None:
        raise Unsupported("a choice between tensors that are spread over each other")
    shape: Any = node.shape
    last = shape[order[-1]]
    return low.on_card(constant, shape, order, (1, 1, prod(shape) // last, last))
