# SPDX-License-Identifier: Apache-2.0
"""From torch ops to layers: the state of one lowering, and the table of rules that the other files fill."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

from tt_cnn.bringup.forms import IMAGE, Form, order_of
from tt_cnn.bringup.lowering.memory import choose_layouts, drop_unread, free_inputs
from tt_cnn.bringup.lowering.program import (
    Code,
    ConstantTensor,
    LayerSpec,
    Made,
    Note,
    OnCard,
    Program,
    Ref,
    Shape,
    Statement,
    Value,
)
from tt_cnn.bringup.module_calls import ModuleCall, inner_path, joined
from tt_cnn.bringup.own_modules import is_own
from tt_cnn.bringup.torch_graph import Parameter, TorchGraph, TorchNode

TILE = 32
LINE = 8
"""Values of bfloat16 in a word of 16 bytes."""
MOST_SHUFFLED = 2048
"""Channels that are shuffled by a product: the matrix has their square."""
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})

Rule = Callable[["Lowering", TorchNode], Any]
RULES: dict[str, Rule] = {}


class Unsupported(ValueError):
    """No rule of ours brings this op to the card."""


def lowers(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops of torch."""

    def note(rule: Rule) -> Rule:
        for op in ops:
            RULES[op] = rule
        return rule

    return note


class Lowering:
    """Values by torch node, and the statements so far."""

    def __init__(self, graph: TorchGraph) -> None:
        self.graph = graph
        self.modules = dict(graph.model.named_modules(remove_duplicate=False))
        self.program = Program(graph)
        self.values: dict[TorchNode, Any] = {}
        """A `Value`, a `ConstantTensor`, or a list of them."""
        self.taken: set[str] = set()
        self.users = graph.users()

    # -- reading torch's arguments

    def value(self, argument: Any) -> Value:
        """A tensor argument that is on the card."""
        found = self.values[argument] if isinstance(argument, TorchNode) else argument
        if not isinstance(found, Value):
            raise Unsupported("an argument that does not depend on the model's input")
        return found

    def constant(self, argument: Any) -> ConstantTensor | None:
        """A tensor argument that does not depend on the model's input."""
        if isinstance(argument, Parameter):
            return ConstantTensor(argument, argument.shape)
        found = self.values.get(argument) if isinstance(argument, TorchNode) else None
        return found if isinstance(found, ConstantTensor) else None

    def own(self, node: TorchNode) -> Ref | None:
        """The module whose forward the node is; None where some other code calls the op."""
        return Ref(node.call.path) if is_own(node, self.modules.get(node.call.path)) else None

    def made(self, function: str, tensors: Sequence[Any], *arguments: Any, **keywords: Any) -> Made:
        """A torch module of tensors that do not depend on the input."""
        constants = [None if tensor is None else self.constant(tensor) for tensor in tensors]
        if any(tensor is not None and found is None for tensor, found in zip(tensors, constants, strict=True)):
            raise Unsupported("weights that are computed from the input")
        return Made(function, (*arguments, *constants), tuple(keywords.items()))

    # -- making statements

    def emit(
        self,
        node: TorchNode,
        method: str,
        inputs: Sequence[Value],
        output: Value | Sequence[Value],
        arguments: Sequence[Any] = (),
        keywords: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        *,
        name: str = "",
        call: str = "",
        frees: str | Sequence[str] = "",
    ) -> Any:
        """A layer and its call; `name` is used where the op is no module's, `frees` are settings that let the layer
        give its inputs back, in their order."""
        stack = scope_of(node)
        spec = LayerSpec(
            self._named(node, stack[-1], name or node.op),
            method,
            tuple(arguments),
            dict(keywords or {}),
            dict(settings or {}),
        )
        outputs = (output,) if isinstance(output, Value) else tuple(output)
        result = node.fused.get("result", "" if "made" in node.fused else node.name)
        given_back = (frees,) if isinstance(frees, str) else tuple(frees)
        self.program.statements.append(
            Statement(stack, spec, tuple(inputs), outputs, node, call, given_back, result if not name else "")
        )
        return output

    def _named(self, node: TorchNode, scope: ModuleCall, hint: str) -> str:
        """The module's own path where the op is one's, else the op's name in its scope; a number where it is taken."""
        leaf = node.call if node.call.path != scope.path and hint == node.op else None
        inside = inner_path(leaf.path, scope.path) if leaf else re.sub(r"^_+", "", hint)
        base = joined(scope.name, inside)
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def note(self, node: TorchNode, kind: str, text: str) -> None:
        self.program.notes.append(Note(node, kind, text))

    # -- forms

    def in_order(self, node: TorchNode, value: Value, order: Sequence[int], rows: Shape | None = None) -> Value:
        """The value with torch's dimensions in this order in memory; else rearranged, to the shape `rows`."""
        if value.form.lies_in(order):
            return value
        if value.constant is not None:
            return self.on_card(value.constant.constant, value.constant.expanded, order, value.shape)
        shape, places = value.form.movement(order)
        form = Form.in_order(value.form.shape, order)
        if _deals_channels(value.form, order, places):
            return self._shuffled(node, value, form)
        rows = rows or flat(form)
        made = Value(form, rows, tiles=False)
        return self.emit(
            node,
            "rearrange",
            [value],
            made,
            (shape, places, rows),
            name=f"{plain(node)}_input",
            frees="deallocate_input",
        )

    def _shuffled(self, node: TorchNode, value: Value, form: Form) -> Value:
        """Two runs of channels the other way round: what channel shuffles make."""
        groups, each = value.form.runs[-2:]
        channels = groups * each
        rows = (1, 1, prod(form.runs) // channels, channels)
        return self.emit(
            node,
            "channel_shuffle",
            [self.seen(node, value, rows)],
            Value(form, rows),
            (Code(f"nn.ChannelShuffle({groups})"),),
            settings={"channels": channels},
            name="channel_shuffle",
            frees="deallocate_input",
        )

    def seen(self, node: TorchNode, value: Value, shape: Shape) -> Value:
        """The value as a tensor of this shape on the card."""
        if value.shape == shape:
            return value
        if value.constant is not None:
            own = value.constant
            return self.on_card(own.constant, own.expanded, own.order, shape)
        made = Value(value.form, shape, value.tiles, memory=value)
        return self.emit(node, "view", [value], made, (shape,), name=f"{plain(node)}_view", frees="deallocate_input")

    def rows(self, node: TorchNode, value: Value, order: Sequence[int] | None = None) -> Value:
        """In this order (torch's own where None), as (1, 1, rows, last dimension)."""
        rank = len(value.form.dims)
        wanted = tuple(range(rank)) if order is None else tuple(order)
        ordered = self.in_order(node, value, wanted)
        last = prod(ordered.form.runs[run] for run in ordered.form.dims[wanted[-1]])
        return self.seen(node, ordered, (1, 1, prod(ordered.form.runs) // last, last))

    def image(self, node: TorchNode, value: Value) -> Value:
        """(N, C, H, W) as TT-NN's layers of images take it: (1, 1, N*H*W, C)."""
        if len(value.form.dims) != 4:
            raise Unsupported(f"an image of {len(value.form.dims)} dimensions")
        return self.rows(node, value, IMAGE)

    def on_card(self, constant: ConstantTensor, expanded: Shape, order: Sequence[int], shape: Shape) -> Value:
        form = Form.in_order(expanded, order)
        return Value(form, shape, constant=OnCard(constant, expanded, tuple(order), shape))

    # -- the whole

    def run(self) -> Program:
        self._inputs()
        for node in self.graph.nodes:
            self.values[node] = self._lowered(node)
        for node in self.graph.outputs:
            self.program.outputs.append(self._output(node))
        drop_unread(self.program)
        choose_layouts(self.program)
        free_inputs(self.program)
        return self.program

    def _output(self, node: TorchNode) -> Value:
        """In an order of torch's dimensions, and in memory of its own: whoever reads outputs gives them back."""
        value = self.values[node]
        if not isinstance(value, Value):
            raise Unsupported(f"the output {node.name} does not depend on the input")
        rank = len(value.form.dims)
        if order_of(value.form) is None:
            value = self.in_order(node, value, IMAGE if rank == 4 else range(rank))
        others = [*self.program.inputs, *self.program.outputs]
        if any(value.owner is other.owner for other in others):
            made = Value(value.form, value.shape, value.tiles, node=node)
            value = self.emit(node, "function", [value], made, ("clone",), name="output")
        return value

    def _inputs(self) -> None:
        for node in self.graph.inputs:
            shape = cast(Shape, node.shape)
            order = IMAGE if len(shape) == 4 else tuple(range(len(shape)))
            form = Form.in_order(shape, order)
            last = shape[order[-1]]
            rows = (1, 1, prod(shape) // last, last)
            value = Value(form, rows, tiles=False, node=node)
            self.program.inputs.append(value)
            self.values[node] = self._picture(node, value)

    def _picture(self, node: TorchNode, value: Value) -> Value:
        """Pixels of a picture; channels of zeros beside the three are no matter for convolutions alone."""
        if len(self.graph.inputs) > 1 or len(node.shape) != 4 or node.shape[1] != 3:
            return value
        batch, _, height, width = node.shape
        if batch * height * width % TILE and width % LINE:
            return value  # lines of planes would not be whole words: the host gives pixels
        settings: dict[str, Any] = {"input_size": (height, width)}
        if node in self.graph.outputs or any(user.op != "conv2d" for user in self.users[node]):
            settings["memory_config"] = Code("ttnn.L1_MEMORY_CONFIG")
        made = Value(value.form, value.shape, tiles=False, node=node)
        return self.emit(node, "picture", [value], made, settings=settings, name="picture")

    def _lowered(self, node: TorchNode) -> Any:
        if all(_is_constant(self.values[source]) for source in node.inputs()):
            return self._constant(node)
        rule = RULES.get(node.op)
        if rule is not None:
            mark, said = len(self.program.statements), len(self.program.notes)
            try:
                return self._activated(node, rule(self, node), mark)
            except Unsupported as reason:
                del self.program.statements[mark:], self.program.notes[said:]
                return self._activated(node, RULES["fallback"](self, _because(node, str(reason))), mark)
        return RULES["fallback"](self, _because(node, "TT-NN has no such op"))

    def _activated(self, node: TorchNode, value: Any, mark: int) -> Any:
        """With the activation that was drawn into the op, where no layer of the op has it in itself."""
        code = node.fused.get("activation")
        if code is None or any("activation" in each.layer.keywords for each in self.program.statements[mark:]):
            return value
        made = Value(value.form, value.shape, value.tiles, node=node)
        return self.emit(node, "activation", [value], made, (Code(code),), name="activation", frees="deallocate_input")

    def _constant(self, node: TorchNode) -> Any:
        """Ops on parameters alone: computed when the model is made."""
        if isinstance(node.shape, tuple) and node.shape and isinstance(node.shape[0], tuple):
            return [ConstantTensor(node, shape) for shape in node.shape]
        return ConstantTensor(node, node.shape)  # type: ignore[arg-type]


def _is_constant(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, ConstantTensor) for part in parts)


def _deals_channels(form: Form, order: Sequence[int], places: Sequence[int]) -> bool:
    """Whether only the two last runs change places, both of them in the last dimension."""
    last = len(form.runs) - 1
    shuffled = list(places) == [*range(last - 1), last, last - 1] and last > 0
    return shuffled and set(form.dims[order[-1]]) == {last - 1, last} and form.shape[order[-1]] <= MOST_SHUFFLED


def _because(node: TorchNode, reason: str) -> TorchNode:
    node.fused["fallback"] = reason
    return node


def plain(node: TorchNode) -> str:
    return re.sub(r"^_+", "", node.op)


def scope_of(node: TorchNode) -> tuple[ModuleCall, ...]:
    """The calls of the user's own modules and of containers: torch's layers are calls of their own no more."""
    stack = list(node.stack)
    if node.op == "registered_module" and len(stack) > 1:
        stack.pop()  # the user's layer stands for the whole module
    while len(stack) > 1 and stack[-1].qualified.startswith("torch.nn.") and stack[-1].kind not in CONTAINERS:
        stack.pop()
    return tuple(stack)


def flat(form: Form) -> Shape:
    """(1, 1, rows, last run) of what lies in memory."""
    last = form.runs[-1] if form.runs else 1
    return (1, 1, prod(form.runs) // last, last)
