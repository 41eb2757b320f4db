# SPDX-License-Identifier: Apache-2.0
"""What the card has no op for runs in torch on the host, and what that costs is said."""

from __future__ import annotations

from typing import Any

from tt_cnn.bringup.forms import IMAGE, Form
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, flat, lowers
from tt_cnn.bringup.lowering.program import Value
from tt_cnn.bringup.torch_graph import TorchNode


@lowers("fallback")
def fallback(low: Lowering, node: TorchNode) -> Value:
    """One output; inputs in torch's own order or as images."""
    if node.shape and isinstance(node.shape[0], tuple):
        raise Unsupported(
            f"{node.target} at {node.line or node.name}: several outputs, and {node.fused.get('fallback')}"
        )
    if set(node.fused) & {"norm", "extra_padding", "parts"}:
        raise Unsupported(f"{node.target} at {node.line or node.name}: {node.fused.get('fallback')}")
    inputs = list(dict.fromkeys(source for source in node.inputs() if isinstance(low.values[source], Value)))
    values = []
    for source in inputs:
        value = low.value(source)
        order = IMAGE if len(value.form.dims) == 4 else tuple(range(len(value.form.dims)))
        values.append(low.in_order(node, value, order))
    rank = len(node.shape)
    order = IMAGE if rank == 4 else tuple(range(rank))
    form = Form.in_order(node.shape, order)  # type: ignore[arg-type]
    made = Value(form, flat(form), node=node)
    moved = [2 * _count(value.form.shape) for value in values]
    low.note(
        node,
        "fallback",
        f"{node.fused.get('fallback', 'no rule')}; {sum(moved)} B to the host and {2 * _count(form.shape)} B back",
    )
    return low.emit(node, "on_host", values, made, (HostFunction((node, tuple(inputs))),))


class HostFunction(tuple):
    """The torch op of a node, and the nodes whose values it is given."""


def _count(shape: Any) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
