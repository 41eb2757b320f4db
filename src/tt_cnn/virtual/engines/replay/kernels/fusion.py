"""Which nodes become one step: a window with the activation and the addition that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.kernels.steps import ACTIVATIONS

LARGEST_WINDOW = 256


@dataclass
class Fused:
    """A node, what was taken into its step, and the node whose values the step leaves."""

    node: Node
    result: Node
    activation: Node | None = None
    other: Node | None = None
    """What is added: before the activation, or after it."""
    other_first: bool = False


def fuse(outputs: Sequence[Node]) -> dict[int, Fused | None]:
    """For each node that a step computes, its step by the id of the result; None for nodes inside a step."""
    order = ordered(outputs)
    users: dict[int, list[Node]] = {}
    for node in order:
        for one in node.inputs:
            users.setdefault(id(one), []).append(node)
    for node in outputs:
        users.setdefault(id(node), []).append(node)  # it is used by the caller
    fused: dict[int, Fused | None] = {}
    for node in order:
        if id(node) not in fused and is_step(node):
            step = _grown(node, users, fused)
            inside = node
            while inside is not step.result:
                fused[id(inside)] = None
                inside = users[id(inside)][0]
            fused[id(step.result)] = step
    return fused


def _grown(node: Node, users: dict[int, list[Node]], taken: dict[int, Fused | None]) -> Fused:
    one = Fused(node, node)
    if node.kind == "unary":
        one = Fused(node, node, activation=node)
    elif node.kind == "binary":
        one = Fused(node, node, other=node.inputs[1], other_first=True)
    if node.kind in ("conv_transpose", "reduce"):
        return one
    while True:
        uses = users[id(one.result)]
        user = uses[0]
        if len(uses) > 1 or user is one.result or user.shape != node.shape or id(user) in taken:
            return one
        if user.kind == "unary" and user.params[0] in ACTIVATIONS and one.activation is None:
            one.activation = user
        elif user.kind == "binary" and is_step(user) and one.other is None:
            one.other = user.inputs[1] if user.inputs[0] is one.result else user.inputs[0]
            one.other_first = one.activation is None
        else:
            return one
        one.result = user


def is_step(node: Node) -> bool:
    """Whether the kernels have it."""
    if len(node.shape) != 4:
        return False
    if node.kind == "conv":
        constant = all(one.value is not None for one in node.inputs[1:])
        return constant and (node.params[3] == 1 or node.params[3] == node.source.shape[1] == node.shape[1])
    if node.kind == "conv_transpose":  # without overlap
        stride, padding, (dilation, more), groups = node.params
        weight = node.inputs[1]
        plain = not any((*padding, *more)) and groups == 1 and tuple(dilation) == (1, 1)
        return plain and weight.value is not None and weight.shape[2:] == stride
    if node.kind in ("max_pool", "avg_pool"):
        return node.params[0][0] * node.params[0][1] <= LARGEST_WINDOW
    if node.kind == "repeat":
        return node.params[0][:2] == (1, 1)
    if node.kind == "unary":
        return node.params[0] in ACTIVATIONS and _large(node)
    if node.kind == "binary":
        return node.params[0] == "add" and all(one.shape == node.shape for one in node.inputs) and _large(node)
    if node.kind == "reduce":
        return node.params == ("mean", (2, 3))
    return False


def _large(node: Node) -> bool:
    """Element-wise steps go channel by channel: with few channels torch is quicker."""
    return node.shape[1] >= 16 and all(one.value is None for one in node.inputs)
