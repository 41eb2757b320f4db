# SPDX-License-Identifier: Apache-2.0
"""Arguments of layers as Python: modules and parameters by their paths, constants, functions on the host."""

from __future__ import annotations

import keyword
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.lowering.fallback import HostFunction
from tt_cnn.bringup.lowering.lowering import Unsupported
from tt_cnn.bringup.lowering.program import Code, ConstantTensor, Made, OnCard, Ref
from tt_cnn.bringup.torch_graph import Parameter, TorchNode

_METHODS = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "unsqueeze",
        "squeeze",
        "flatten",
        "expand",
        "contiguous",
        "mul",
        "add",
        "sub",
        "div",
        "select",
        "softmax",
        "sigmoid",
        "exp",
        "chunk",
    ]
)
"""Ops that torch has as methods with the same arguments."""
_NOT_SAID = frozenset(["device", "layout", "pin_memory", "memory_format", "requires_grad", "implicit"])
_AS_TORCH_HAS_IT = {torch.bool: ".bool()", torch.int64: ".long()", torch.int32: ".int()"}
"""The card has numbers for conditions and places."""
MOST_NUMBERS = 64
"""Of a constant that is written into the code."""


class Expressions:
    """Python in the class of one block: `module` is the torch module that it is made from."""

    def __init__(self, model: nn.Module, path: str, variable: str) -> None:
        self.model, self.path, self.variable = model, path, variable

    def of(self, value: Any) -> str:
        if isinstance(value, Ref):
            return self.access(value.path)
        if isinstance(value, Code):
            return value.text
        if isinstance(value, ConstantTensor):
            return self.tensor(value.source)
        if isinstance(value, OnCard):
            return self.constant(value)
        if isinstance(value, Made):
            named = [f"{key}={self.of(each)}" for key, each in value.keywords]
            return f"{value.function}({', '.join([*(self.of(each) for each in value.arguments), *named])})"
        if isinstance(value, HostFunction):
            return self.host_function(value)
        if isinstance(value, (tuple, list)):
            inside = ", ".join(self.of(each) for each in value)
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        return f'"{value}"' if isinstance(value, str) else repr(value)

    def access(self, path: str) -> str:
        """`module.layer1[0].conv1`."""
        if self.path and not (path + ".").startswith(self.path + "."):
            return "layers.reference" + self._steps("", path)
        return self.variable + self._steps(self.path, path[len(self.path) :].lstrip("."))

    def _steps(self, start: str, path: str) -> str:
        here: Any = self.model.get_submodule(start)
        text = ""
        for part in path.split(".") if path else []:
            if isinstance(here, (nn.Sequential, nn.ModuleList, nn.ParameterList)) and part.isdigit():
                text += f"[{part}]"
                here = here[int(part)]
            elif isinstance(here, (nn.ModuleDict, nn.ParameterDict)):
                text += f'["{part}"]'
                here = here[part]
            elif part.isidentifier() and not keyword.iskeyword(part):
                text += f".{part}"
                here = getattr(here, part)
            else:
                here = getattr(here, part)
                text += f'.get_submodule("{part}")' if isinstance(here, nn.Module) else f'.get_parameter("{part}")'
        return text

    def constant(self, constant: OnCard) -> str:
        """The values as the card is to have them; the shape is given beside them."""
        text = self.tensor(constant.constant.source)
        shape = constant.constant.shape
        if (1,) * (len(constant.expanded) - len(shape)) + tuple(shape) != tuple(constant.expanded):
            text += f".expand({', '.join(map(str, constant.expanded))})"
        elif len(shape) != len(constant.expanded) and _moves(constant.expanded, constant.order):
            text += f".reshape({', '.join(map(str, constant.expanded))})"
        if _moves(constant.expanded, constant.order):
            text += f".permute({', '.join(map(str, constant.order))})"
        return text

    def tensor(self, source: Parameter | TorchNode) -> str:
        """A parameter, or the ops on parameters that make a constant."""
        if isinstance(source, Parameter):
            if source.constant is None or _held(self.model, source.path):
                return self.access(source.path)
            return _written(source.constant)
        return self.call(source, {})

    def call(self, node: TorchNode, names: dict[TorchNode, str]) -> str:
        """A torch op on what is named, and on constants."""

        def one(value: Any) -> str:
            if isinstance(value, TorchNode):
                return names[value] if value in names else self.tensor(value)
            if isinstance(value, Parameter):
                return self.tensor(value)
            if isinstance(value, (list, tuple)):
                return "[" + ", ".join(one(each) for each in value) + "]"
            return f'torch.device("{value}")' if isinstance(value, torch.device) else repr(value)

        arguments = dict(node.arguments)
        if node.op == "getitem":
            return f"{one(arguments['self'])}[{one(arguments['0'])}]"
        overload = _overload(node.target)
        schema = overload._schema
        if node.op in _METHODS and "self" in arguments and isinstance(arguments["self"], (TorchNode, Parameter)):
            rest = [
                one(arguments[a.name])
                for a in schema.arguments
                if a.name != "self" and not a.kwarg_only and a.name in arguments
            ]
            rest += [
                f"{a.name}={one(arguments[a.name])}"
                for a in schema.arguments
                if a.kwarg_only
                and a.name not in _NOT_SAID
                and arguments.get(a.name, a.default_value) != a.default_value
            ]
            return f"{one(arguments['self'])}.{node.op}({', '.join(rest)})"
        positional = [one(arguments[a.name]) for a in schema.arguments if not a.kwarg_only and a.name in arguments]
        named = [
            f"{a.name}={one(arguments[a.name])}"
            for a in schema.arguments
            if a.kwarg_only and a.name not in _NOT_SAID and arguments.get(a.name) is not None
        ]
        return f"torch.ops.{overload!s}({', '.join([*positional, *named])})"

    def host_function(self, function: HostFunction) -> str:
        """A lambda from tensors as the card has them to the result as the card is to have it."""
        node, inputs = function.node, function.inputs
        names = [f"x{index}" if len(inputs) > 1 else "x" for index in range(len(inputs))]
        given = {
            source: (
                f"image_of({name}, {tuple(source.shape)})"
                if len(source.shape) == 4
                else f"{name}.reshape{tuple(source.shape)}"
            )
            + _AS_TORCH_HAS_IT.get(source.dtype, "")
            for source, name in zip(inputs, names, strict=True)
        }
        call = self.call(node, given)
        shape = node.shape
        if function.output is not None:
            call, shape = f"{call}[{function.output}]", shape[function.output]  # type: ignore[assignment]
        result = f"pixels_of({call})" if len(shape) == 4 else f"rows_of({call})"
        return f"(lambda {', '.join(names)}: {result})"


def _overload(target: str) -> Any:
    namespace, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


def _held(model: nn.Module, path: str) -> bool:
    here: Any = model
    for part in path.split("."):
        here = getattr(here, part, None)
    return isinstance(here, torch.Tensor)


def _written(values: torch.Tensor) -> str:
    if values.numel() > MOST_NUMBERS:
        raise Unsupported(
            f"a constant of {values.numel()} numbers that forward makes: register it as a buffer in __init__"
        )
    return f"torch.tensor({values.tolist()})"


def _moves(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
    moving = [dim for dim in order if shape[dim] != 1]
    return moving != sorted(moving)
