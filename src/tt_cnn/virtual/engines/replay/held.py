# SPDX-License-Identifier: Apache-2.0
"""What is known of a node's values: which formats hold them already."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.engines.replay.graph import Node, kept_axes
from tt_cnn.virtual.numerics.formats import BLOCK, MAGNITUDE_BITS
from tt_cnn.virtual.types.enums import DataType

_WHOLE = 23
_BFLOAT16 = 7
_MOVING = ("reshape", "permute", "slice", "repeat", "expand", "max_pool", "spread", "cat")
"""Operations that make no new values; zeros and minus infinity, which some add, are in all formats."""


def mantissa_bits(node: Node) -> int:
    """Bits of the mantissa that the values have at most."""
    if node.kind == "blocks":
        return MAGNITUDE_BITS[node.params[0]] - 1
    if node.kind == "unary":
        name, *params = node.params
        if name in ("to_bfloat16", "round_away", "round_even", "nearest_even", "stored"):
            return min(_BFLOAT16, mantissa_bits(node.source))
        if name == "cut":
            return min(params[0], mantissa_bits(node.source))
        return mantissa_bits(node.source) if name in ("flush_denormals", "Relu") else _WHOLE
    if node.kind in _MOVING or (node.kind == "pad" and node.params[2] == 0.0):
        return max(mantissa_bits(one) for one in node.inputs)
    return _WHOLE


def is_clean(node: Node, makers: tuple[str, ...] = ("to_bfloat16",)) -> bool:
    """Whether there is no denormal, no -0 and no NaN among the values."""
    if node.kind == "blocks":
        return True
    if node.kind == "unary":
        name = node.params[0]
        return name in makers or (name in (*_KEEPING, "cut", "Relu") and is_clean(node.source, makers))
    if node.kind in _MOVING or (node.kind == "pad" and node.params[2] == 0.0):
        return all(is_clean(one, makers) for one in node.inputs)
    return False


def is_flushed(node: Node) -> bool:
    """Whether there is no denormal and no -0; NaN there may be."""
    return is_clean(node, ("to_bfloat16", "round_away", "stored"))


_KEEPING = ("to_bfloat16", "round_away", "round_even", "nearest_even", "stored", "flush_denormals")


def is_kept(node: Node, rounding: str, params: tuple[Any, ...]) -> bool:
    """Whether a rounding leaves all values as they are."""
    if rounding == "cut":
        return mantissa_bits(node) <= params[0]
    if rounding == "flush_denormals":
        return is_flushed(node)
    clean = is_clean(node) if rounding == "to_bfloat16" else is_flushed(node)
    return clean and mantissa_bits(node) <= _BFLOAT16


def holds_blocks(node: Node, dtype: DataType, axis: int) -> bool:
    """Whether the values are those of a block format along an axis: rounded to it before, and only moved since."""
    if node.kind == "blocks":
        return bool(node.params[0] is dtype and node.params[2] == axis)
    if node.kind == "unary":
        return node.params[0] in (*_KEEPING, "Relu") and holds_blocks(node.source, dtype, axis)
    if node.kind == "permute":
        return holds_blocks(node.source, dtype, node.params[0][axis])
    if node.kind == "reshape":
        kept = kept_axes(node.source.shape, node.shape)
        return axis in kept and holds_blocks(node.source, dtype, kept[axis])
    if node.kind == "slice":
        starts, _, steps = node.params
        return starts[axis] % BLOCK == 0 and steps[axis] == 1 and holds_blocks(node.source, dtype, axis)
    if node.kind == "pad":
        before, _, fill = node.params
        return fill == 0.0 and before[axis] % BLOCK == 0 and holds_blocks(node.source, dtype, axis)
    if node.kind == "cat":
        aligned = node.params[0] != axis or all(part.shape[axis] % BLOCK == 0 for part in node.inputs[:-1])
        return aligned and all(holds_blocks(part, dtype, axis) for part in node.inputs)
    if node.kind == "repeat":
        return node.params[0][axis] == 1 and holds_blocks(node.source, dtype, axis)
    return node.kind == "spread" and axis == 1 and holds_blocks(node.source, dtype, axis)
