# SPDX-License-Identifier: Apache-2.0
"""What exporters take apart and torch has an op for, drawn together again: linear layers and activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tt_cnn.bringup.imported.onnx_file import onnx_package

DRAWN = "tt_cnn"
"""Domain of the nodes that are made here."""


class _Nodes:
    """Nodes with who makes and who reads each value."""

    def __init__(self, nodes: list[Any], outputs: set[str], constants: dict[str, Any]) -> None:
        self.outputs, self.constants = outputs, constants
        self.makers = {name: node for node in nodes for name in node.output}
        self.readers: dict[str, list[Any]] = {}
        for node in nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def only_reader(self, node: Any, op: str) -> Any:
        """The one node that reads an output, where it is of this op."""
        name = node.output[0]
        readers = self.readers.get(name, [])
        alone = len({id(each) for each in readers}) == 1 and name not in self.outputs
        return readers[0] if alone and readers[0].op_type == op else None

    def number(self, name: str) -> float | None:
        value = self.constants.get(name)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def other(self, node: Any, name: str) -> str:
        """The second input of a node of two."""
        return str(node.input[1] if node.input[0] == name else node.input[0])


Found = tuple[list[Any], str, list[str]]
"""The nodes, the last of which gives the result; the op; its inputs."""


def draw_together(nodes: list[Any], outputs: set[str], constants: dict[str, Any]) -> list[Any]:
    """The nodes, with one in the place of those that are one op of torch's."""
    known = _Nodes(nodes, outputs, constants)
    gone: set[int] = set()
    made: dict[int, Any] = {}
    for node in nodes:
        for rule in _RULES.get(node.op_type, ()):
            found = rule(known, node)
            if found is None or any(id(each) in gone for each in found[0]):
                continue
            parts, op, inputs = found
            gone |= {id(each) for each in parts}
            made[id(parts[-1])] = _node(parts[-1], op, inputs)
            break
    return [made.get(id(node), node) for node in nodes if id(node) in made or id(node) not in gone]


def _node(last: Any, op: str, inputs: Iterable[str]) -> Any:
    node = onnx_package().helper.make_node(op, list(inputs), list(last.output), name=last.name, domain=DRAWN)
    node.metadata_props.extend(last.metadata_props)
    return node


def _times_itself(op: str) -> Callable[[_Nodes, Any], Found | None]:
    """x * f(x)."""

    def rule(known: _Nodes, node: Any) -> Found | None:
        product = known.only_reader(node, "Mul")
        if product is None or known.other(product, node.output[0]) != node.input[0]:
            return None
        if op == "HardSwish" and not _is_hard_sigmoid(node):
            return None
        return [node, product], op, [node.input[0]]

    return rule


def _is_hard_sigmoid(node: Any) -> bool:
    said = {each.name: each.f for each in node.attribute}
    return abs(said.get("alpha", 0.2) - 1 / 6) < 1e-6 and abs(said.get("beta", 0.5) - 0.5) < 1e-6


def _mish(known: _Nodes, node: Any) -> Found | None:
    """x * tanh(softplus(x))."""
    tanh = known.only_reader(node, "Tanh")
    product = known.only_reader(tanh, "Mul") if tanh is not None else None
    if product is None or known.other(product, tanh.output[0]) != node.input[0]:
        return None
    return [node, tanh, product], "Mish", [node.input[0]]


def _gelu(known: _Nodes, node: Any) -> Found | None:
    """x * (erf(x / sqrt 2) + 1) * 0.5, the half at either end."""
    scaled = known.makers.get(node.input[0])
    if scaled is None or known.only_reader(scaled, "Erf") is None:
        return None
    x = _over_root_of_two(known, scaled)
    plus = known.only_reader(node, "Add")
    if x is None or plus is None or known.number(known.other(plus, node.output[0])) != 1:
        return None
    first = known.only_reader(plus, "Mul")
    if first is None:
        return None
    factor = known.other(first, plus.output[0])
    if factor == x:
        second = known.only_reader(first, "Mul")
        if second is not None and known.number(known.other(second, first.output[0])) == 0.5:
            return [scaled, node, plus, first, second], "Gelu", [x]
        return None
    half = known.makers.get(factor)
    if half is not None and half.op_type == "Mul" and x in half.input and known.only_reader(half, "Mul") is first:
        return ([half, scaled, node, plus, first], "Gelu", [x]) if known.number(known.other(half, x)) == 0.5 else None
    if known.number(factor) == 0.5:
        second = known.only_reader(first, "Mul")
        if second is not None and known.other(second, first.output[0]) == x:
            return [scaled, node, plus, first, second], "Gelu", [x]
    return None


def _over_root_of_two(known: _Nodes, node: Any) -> str | None:
    root = 2**0.5
    if node.op_type == "Div":
        number = known.number(node.input[1])
        return str(node.input[0]) if number is not None and abs(number - root) < 1e-3 else None
    if node.op_type == "Mul":
        for name, other in (node.input, reversed(node.input)):
            number = known.number(other)
            if number is not None and abs(number - 1 / root) < 1e-3:
                return str(name)
    return None


def _linear(known: _Nodes, node: Any) -> Found | None:
    """x @ constant + constant."""
    weight = known.constants.get(node.input[1])
    if weight is None or weight.ndim != 2:
        return None
    total = known.only_reader(node, "Add")
    if total is not None:
        bias = known.other(total, node.output[0])
        values = known.constants.get(bias)
        if values is not None and values.shape == (weight.shape[1],):
            return [node, total], "Linear", [node.input[0], node.input[1], bias]
    return [node], "Linear", [node.input[0], node.input[1]]


_RULES: dict[str, tuple[Callable[[_Nodes, Any], Found | None], ...]] = {
    "Sigmoid": (_times_itself("Silu"),),
    "HardSigmoid": (_times_itself("HardSwish"),),
    "Softplus": (_mish,),
    "Erf": (_gelu,),
    "MatMul": (_linear,),
}
