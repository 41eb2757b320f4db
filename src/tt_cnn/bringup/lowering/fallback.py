# SPDX-License-Identifier: Apache-2.0
"""What the card has no op for runs in torch on the host, and what that costs is said."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, cast

import torch

from tt_cnn.bringup.forms import IMAGE, Form
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, flat, lowers
from tt_cnn.bringup.lowering.program import Code, Shape, Value
from tt_cnn.bringup.torch_graph import TorchNode


@lowers("fallback")
def fallback(low: Lowering, node: TorchNode) -> Value | list[Value | None]:
    """Inputs in torch's own order or as images. Of several outputs each that is read is computed by itself."""
    if set(node.fused) & {"norm", "extra_padding", "parts"}:
        raise Unsupported(f"{node.target} at {node.line or node.name}: {node.fused.get('fallback')}")
    inputs = list(dict.fromkeys(source for source in node.inputs() if isinstance(low.values[source], Value)))
    values = []
    for source in inputs:
        value = low.value(source)
        order = IMAGE if len(value.form.dims) == 4 else tuple(range(len(value.form.dims)))
        values.append(low.in_order(node, value, order))
    shapes = cast("tuple[Shape, ...]", node.shape if _has_several(node) else (node.shape,))
    dtypes = _dtypes(low, node)
    call = tuple(inputs)
    moved = sum(2 * prod(value.form.shape) for value in values) * len(dtypes)
    back = sum(2 * prod(shapes[index or 0]) for index in dtypes)
    low.note(node, "fallback", f"{node.fused.get('fallback', 'no rule')}; {moved} B to the host and {back} B back")
    made: list[Value | None] = [None] * len(shapes)
    for index, dtype in dtypes.items():
        shape = shapes[index or 0]
        form = Form.in_order(shape, IMAGE if len(shape) == 4 else range(len(shape)))
        value = Value(form, flat(form), node=node)
        settings = {"output_dtype": Code("ttnn.float32")} if dtype in WHOLE else {}
        function = HostFunction(node, call, index)
        made[index or 0] = low.emit(node, "on_host", values, value, (function,), settings=settings)
    return made if _has_several(node) else cast(Value, made[0])


@dataclass(frozen=True)
class HostFunction:
    """The torch op of a node, the nodes whose values it is given, and which of several outputs it gives."""

    node: TorchNode
    inputs: tuple[TorchNode, ...]
    output: int | None = None


WHOLE = (torch.int64, torch.int32)
"""Places and counts: bfloat16 has those up to 256."""


def _has_several(node: TorchNode) -> bool:
    return bool(node.shape) and isinstance(node.shape[0], tuple)


def _dtypes(low: Lowering, node: TorchNode) -> dict[int | None, Any]:
    """torch's dtype of each output that is read, by its place; None where the op has one."""
    if not _has_several(node):
        return {None: node.dtype}
    return {user.arguments["0"]: user.dtype for user in low.users[node] if user.op == "getitem"}
