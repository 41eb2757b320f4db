# SPDX-License-Identifier: Apache-2.0
"""One ONNX node as the rule for its op sees it, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from tt_cnn.bringup.imported.graph import Call, Held, Ref, Step
from tt_cnn.bringup.imported.onnx_file import onnx_package
from tt_cnn.bringup.imported.onnx_names import with_holder


class Reader(Protocol):
    """What a node asks of the reader of its graph."""

    onnx: Any
    opset: int
    constants: dict[str, np.ndarray]
    meta: dict[str, torch.Tensor]
    same: dict[str, Any]
    held: dict[str, torch.Tensor]
    scopes: dict[int, tuple[Call, ...]]
    holders: set[str]
    made: int

    def ref(self, name: str) -> Ref: ...

    def emit(self, step: Step) -> None: ...

    def is_alone(self, scope: tuple[Call, ...]) -> bool: ...

    def hold(self, name: str, scope: tuple[Call, ...]) -> Held: ...

    def hold_as(self, path: str, values: np.ndarray, buffer: bool = False) -> Held: ...


Rule = Callable[["OnnxNode"], None]
RULES: dict[str, Rule] = {}


class Refused(ValueError):
    """A node asks for what torch's op does not do."""


def converts(*ops: str) -> Callable[[Rule], Rule]:
    """The rule that follows is for ONNX ops of these names."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


class OnnxNode:
    """One node, with what its rule asks for."""

    def __init__(self, reader: Reader, node: Any) -> None:
        self.reader, self.node = reader, node
        self.op: str = node.op_type
        self.inputs: list[str] = list(node.input)
        self.outputs: list[str] = list(node.output)
        self.opset = reader.opset
        onnx = onnx_package()
        self.attributes = {each.name: _plain(onnx.helper.get_attribute_value(each)) for each in node.attribute}
        self.scope = reader.scopes[id(node)]

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and bool(self.inputs[index])

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def constant(self, index: int) -> np.ndarray | None:
        """The values of an input, where they are known."""
        return self.reader.constants.get(self.inputs[index]) if self.has(index) else None

    def known(self, index: int, what: str) -> np.ndarray:
        found = self.constant(index)
        if found is None:
            raise Refused(f"{what} depends on the input")
        return found

    def numbers(self, index: int, what: str) -> list[int]:
        return [int(each) for each in self.known(index, what).reshape(-1)]

    def axes(self, index: int = 1) -> list[int] | None:
        """As an attribute, or as an input in newer versions."""
        if "axes" in self.attributes:
            return [int(each) for each in self.attributes["axes"]]
        return self.numbers(index, "axes") if self.has(index) else None

    def shape(self, index: int = 0) -> tuple[int, ...]:
        constant = self.constant(index)
        if constant is not None:
            return tuple(constant.shape)
        return tuple(self.reader.meta[self.reader.ref(self.inputs[index]).name].shape)

    def value(self, index: int = 0) -> Any:
        """The input as an argument: a tensor that is computed, or a constant that the module holds."""
        constant = self.constant(index)
        return self.hold(index) if constant is not None else self.reader.ref(self.inputs[index])

    def number(self, index: int) -> int | float | None:
        """A constant of one element that spreads over the other input without a dimension more."""
        found = self.constant(index)
        if found is None or found.size != 1 or found.dtype == np.bool_:
            return None
        most = max(
            (len(self.shape(each)) for each in range(len(self.inputs)) if self.constant(each) is None), default=0
        )
        return shortest(found.reshape(-1)[0]) if found.ndim <= most else None

    def hold(self, index: int) -> Held:
        return self.reader.hold(self.inputs[index], self.scope)

    def holder(self, weight: int = 1) -> str:
        """The path of the module that holds this op's weights; the op's own scope from now on."""
        alone = self.reader.is_alone(self.scope)
        self.scope = with_holder(self.scope, self.op, self.inputs[weight], alone, self.reader.holders)
        self.reader.holders.add(self.scope[-1].path)
        return self.scope[-1].path

    def hold_as(self, path: str, values: np.ndarray, buffer: bool = False) -> Held:
        return self.reader.hold_as(path, values, buffer)

    def emit(self, target: str, *arguments: Any, results: Sequence[str] | None = None, **keywords: Any) -> Ref:
        """A step; its results are the node's outputs unless others are named."""
        names = tuple(results) if results is not None else (self.outputs[0],)
        self.reader.emit(Step(target, arguments, keywords, names, self.scope))
        return Ref(names[0])

    def between(self, target: str, *arguments: Any, **keywords: Any) -> Ref:
        """A step whose result only this node reads."""
        self.reader.made += 1
        return self.emit(target, *arguments, results=[f"{self.outputs[0]}#{self.reader.made}"], **keywords)

    def same_as(self, value: Any) -> None:
        """The output is another value under a new name."""
        self.reader.same[self.outputs[0]] = value


def shortest(value: Any) -> int | float:
    """A number of ONNX's, which has float32, as the shortest decimal one that is the same there."""
    plain = value.item() if hasattr(value, "item") else value
    return float(str(np.float32(plain))) if isinstance(plain, float) else plain


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return shortest(value) if isinstance(value, float) else value
