# SPDX-License-Identifier: Apache-2.0
"""Which nodes become one step: a window with the activation and the addition that follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from tt_cnn.virtual.engines.replay.graph import Node, channels_of, ordered
from tt_cnn.virtual.engines.replay.kernels.instructions import ACTIVATIONS, BINARIES, STAGES

LARGEST_WINDOW = 256
LANES = 16
"""Element-wise steps go so many channels at a time: with fewer of them torch is quicker."""
_ELEMENTWISE = ("unary", "binary", "blocks")
_WITHOUT_OTHER = ("conv_transpose", "byte_conv_transpose", "reduce")
"""Steps that do not know which pixel they write."""
PASSING = ("max_pool", "repeat", "cat", "reshape", "permute", "slice")
"""They hand on the bytes that they get."""
_BYTE_LAYERS = ("byte_conv", "byte_conv_transpose")
_BYTES = (*_BYTE_LAYERS, *_ELEMENTWISE, "dequantize")
"""Steps that take and leave images of bytes as well."""


@dataclass
class Fused:
    """A node, what was taken into its step, and the node whose values the step leaves."""

    node: Node
    result: Node
    chain: list[Node] = field(default_factory=list)
    """What is done to the values one after the other; begins with the node itself where that is element-wise."""
    other: Node | None = None
    """An image that one of them takes too."""

    @property
    def activation(self) -> Node | None:
        """Of a simple chain."""
        return next((one for one in self.chain if one.kind == "unary"), None)

    @property
    def other_first(self) -> bool:
        """Of a simple chain: whether the other image is added before the activation."""
        return self.other is not None and self.chain[0].kind == "binary"


def fuse(outputs: Sequence[Node], only_simple: bool = False) -> dict[int, Fused | None]:
    """For each node that a step computes, its step by the id of the result; None for nodes inside a step.

    `only_simple`: no chain is longer than an activation and an addition.
    """
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
            if only_simple and node.kind in _ELEMENTWISE and not is_simple([node]):
                continue
            step = _grown(node, users, fused, only_simple)
            for inside in (node, *step.chain):
                fused[id(inside)] = None
            fused[id(step.result)] = step
    return fused


def _grown(node: Node, users: dict[int, list[Node]], taken: dict[int, Fused | None], only_simple: bool) -> Fused:
    one = Fused(node, node)
    if node.kind in _ELEMENTWISE:
        one.chain.append(node)
        one.other = next(iter(images_of(node)[1:]), None)
    while True:
        uses = users[id(one.result)]
        user = uses[0]
        if len(uses) > 1 or user is one.result or user.shape != node.shape or id(user) in taken:
            return one
        if user.kind == "quantize":
            one.result = user if node.kind in _BYTES else one.result
            return one
        if only_simple and (node.kind in _WITHOUT_OTHER or not is_simple([*one.chain, user])):
            return one
        if user.kind == "binary" and _image_operand(user, one.result) is not None:
            other = _image_operand(user, one.result)
            if one.other is not None or not is_step(user) or node.kind in _WITHOUT_OTHER:
                return one
            if node.kind not in _BYTES and other is not None and holds_bytes(other):
                return one
            one.other = other
        elif not _is_stage(user):
            return one
        one.chain.append(user)
        one.result = user


def holds_bytes(node: Node) -> bool:
    """Whether a node's values are whole numbers of 8 bits."""
    while node.kind in PASSING:
        node = node.source
    return node.kind == "quantize"


def is_simple(chain: Sequence[Node]) -> bool:
    """At most an activation and the addition of an image, in either order."""
    activations = [one for one in chain if one.kind == "unary" and one.params[0] in ACTIVATIONS]
    additions = [
        one
        for one in chain
        if one.kind == "binary" and one.params[0] == "add" and all(row_of(x, one.shape) is None for x in one.inputs)
    ]
    return len(activations) <= 1 and len(additions) <= 1 and len(activations) + len(additions) == len(chain)


def _image_operand(binary: Node, known: Node) -> Node | None:
    """The operand beside a known one, where it is not a number per channel."""
    other = binary.inputs[1] if binary.inputs[0] is known else binary.inputs[0]
    return other if row_of(other, binary.shape) is None else None


def _is_stage(node: Node) -> bool:
    """Whether a step can do it on its way out, without another image."""
    if node.kind == "unary":
        return node.params[0] in STAGES
    if node.kind == "blocks":
        return bool(node.params[2] == 1)
    if node.kind == "binary":
        return node.params[0] in BINARIES and any(row_of(one, node.shape) is not None for one in node.inputs)
    return False


def images_of(node: Node) -> list[Node]:
    """The operands of an element-wise node that are not a number per channel."""
    return [one for one in node.inputs if row_of(one, node.shape) is None]


def row_of(node: Node, shape: tuple[int, ...]) -> torch.Tensor | None:
    """A constant that differs only along the channels of an image."""
    return None if node.value is None else channels_of(node.value, shape)


def is_step(node: Node) -> bool:
    """Whether the kernels have it."""
    if len(node.shape) != 4:
        return False
    if node.kind in (*_BYTE_LAYERS, "quantize", "dequantize"):
        return True
    if node.kind == "conv":
        constant = all(one.value is not None for one in node.inputs[1:]) and _is_finite(node.inputs[1])
        return constant and (node.params[3] == 1 or _is_depthwise(node))
    if node.kind == "conv_transpose":  # without overlap
        stride, padding, (dilation, more), groups = node.params
        weight = node.inputs[1]
        plain = not any((*padding, *more)) and groups == 1 and tuple(dilation) == (1, 1)
        return plain and weight.value is not None and weight.shape[2:] == stride
    if node.kind in ("max_pool", "avg_pool"):
        return node.params[0][0] * node.params[0][1] <= LARGEST_WINDOW
    if node.kind == "repeat":
        return node.params[0][:2] == (1, 1)
    if node.kind == "sums":
        return _is_finite(node.inputs[1])
    if node.kind == "walk":
        return True
    if _is_stage(node):
        return node.shape[1] >= LANES and node.source.value is None
    if node.kind == "binary":
        same = all(one.shape == node.shape and one.value is None for one in node.inputs)
        return node.params[0] in BINARIES and same and node.shape[1] >= LANES
    if node.kind == "reduce":
        return node.params in (("mean", (2, 3)), ("amax", (2, 3)))
    return False


def _is_depthwise(conv: Node) -> bool:
    """A channel for each, with a kernel that is not too high for the step's list of rows."""
    return bool(conv.params[3] == conv.source.shape[1] == conv.shape[1]) and conv.inputs[1].shape[2] <= LARGEST_WINDOW


def _is_finite(weight: Node) -> bool:
    """Weights that are not would make NaN of the padding, which steps leave out of their sums where they can."""
    return weight.value is not None and bool(torch.isfinite(weight.value).all())


def concatenated(order: Sequence[Node], fused: Mapping[int, Fused | None]) -> dict[int, tuple[Node, int]]:
    """Nodes whose step writes into a concatenation: the whole, and the channel where they begin there."""
    found: dict[int, tuple[Node, int]] = {}
    for cat in order:
        if cat.kind != "cat" or cat.params != (1,) or len(cat.shape) != 4:
            continue
        first = 0
        for part in cat.inputs:
            if fused.get(id(part)) is not None:
                found.setdefault(id(part), (cat, first))
            first += part.shape[1]
    return found
