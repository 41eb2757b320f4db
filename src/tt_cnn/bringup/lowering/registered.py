# SPDX-License-Identifier: Apache-2.0
"""The rule for modules that the user lowers."""

from __future__ import annotations

from math import prod
from typing import cast

from tt_cnn.bringup.forms import IMAGE, Form
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Ref, Shape, Value
from tt_cnn.bringup.own_lowerings import maker_of
from tt_cnn.bringup.torch_graph import TorchNode


@lowers("registered_module")
def registered_module(low: Lowering, node: TorchNode) -> Value:
    maker = maker_of(low.modules[node.call.path])
    if maker is None:
        raise Unsupported("no lowering is registered for the module")
    inputs = [low.rows(node, low.value(each), _order(each.shape)) for each in node.arguments["inputs"]]
    shape = cast(Shape, node.shape)
    order = _order(shape)
    last = shape[order[-1]]
    made = Value(Form.in_order(shape, order), (1, 1, prod(shape) // last, last), node=node)
    return low.emit(node, "registered", inputs, made, (Ref(node.call.path), maker))


def _order(shape: Shape) -> tuple[int, ...]:
    return IMAGE if len(shape) == 4 else tuple(range(len(shape)))
