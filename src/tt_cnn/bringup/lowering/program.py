# SPDX-License-Identifier: Apache-2.0
"""The lowered model: statements on values, each in the module call that it came from, before they become code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.bringup.forms import Form
from tt_cnn.bringup.module_calls import ModuleCall
from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Ref:
    """A module or a parameter of the torch model, by its path: `layer1.0.conv1`."""

    path: str


@dataclass(frozen=True)
class Code:
    """A piece of Python as it is to stand in the generated file."""

    text: str


@dataclass(frozen=True)
class ConstantTensor:
    """Values that do not depend on the input: a parameter, or torch ops on parameters."""

    source: Parameter | TorchNode
    shape: Shape
    """As torch has it."""


@dataclass(frozen=True)
class OnCard:
    """A constant as the card is to have it: dimensions in this order, seen in this shape."""

    constant: ConstantTensor
    expanded: Shape
    """torch's shape, dimensions of 1 in front and sizes spread as far as the card cannot spread them itself."""
    order: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class Made:
    """A torch module that the code makes of constants: `conv_of(weight, bias, stride=2)`."""

    function: str
    arguments: tuple[Any, ...]
    """`ConstantTensor`, or plain values."""
    keywords: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Cut:
    """Where a part lies in the tensor it was cut from: of each of `rows` rows of `width` values, those from `start`
    on."""

    source: Value
    rows: int
    width: int
    start: int


@dataclass(eq=False)
class Value:
    """A tensor on the card."""

    form: Form
    shape: Shape
    """Of the tensor on the card."""
    tiles: bool = True
    memory: Value | None = None
    """The value whose memory it may share; None: its own."""
    constant: OnCard | None = None
    node: TorchNode | None = None
    """The torch value that it is, where it is one."""
    cut: Cut | None = None
    """For a part of another tensor."""

    @property
    def owner(self) -> Value:
        return self if self.memory is None else self.memory.owner


@dataclass(eq=False)
class LayerSpec:
    """A layer to be made: a method of `LayerFactory`, what it is given, and its settings."""

    name: str
    method: str
    arguments: tuple[Any, ...] = ()
    """`Ref`, `Code`, or plain values."""
    keywords: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """What the table of settings says under its name."""


@dataclass(eq=False)
class Statement:
    """A call of a layer."""

    stack: tuple[ModuleCall, ...]
    layer: LayerSpec
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    node: TorchNode
    call: str = ""
    """The arguments as code, `{0}` for the first input; empty: all inputs in their order."""
    frees: tuple[str, ...] = ()
    """The settings that let the layer give its inputs back, in their order; empty: it has none."""
    result: str = ""
    """The torch node whose value the output is."""

    @property
    def scope(self) -> ModuleCall:
        return self.stack[-1]


@dataclass(eq=False)
class Program:
    """The whole model."""

    graph: TorchGraph
    inputs: list[Value] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def uses(self) -> dict[Value, int]:
        """The last statement that reads each piece of memory, by its owner; outputs are read at the end."""
        last: dict[Value, int] = {}
        for index, statement in enumerate(self.statements):
            for value in statement.inputs:
                last[value.owner] = index
        for value in self.outputs:
            last[value.owner] = len(self.statements)
        return last

    def readers_of_images(self) -> frozenset[str]:
        """The convolutions that read the model's input as it comes."""
        given = set(self.inputs)
        for statement in self.statements:
            if statement.layer.method in ("picture", "view") and statement.inputs[0] in given:
                given.update(statement.outputs)
        return frozenset(
            each.layer.name for each in self.statements if each.layer.method == "conv2d" and each.inputs[0] in given
        )

    def layers(self) -> Iterator[LayerSpec]:
        for statement in self.statements:
            yield statement.layer


@dataclass(frozen=True)
class Note:
    """What was done about an op that has no plain counterpart on the card."""

    node: TorchNode
    kind: str
    """`decomposed` or `fallback`."""
    text: str
