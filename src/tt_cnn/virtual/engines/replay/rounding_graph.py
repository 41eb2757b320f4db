# SPDX-License-Identifier: Apache-2.0
"""The graph with the card's roundings in it. They too move layouts towards the outputs; one that changes nothing goes.

A block format rounds 16 neighbours along one axis together. What fills the last block counts as zeros, and zeros
neither move a block's exponent nor are they rounded: it is the same whether an axis is filled before or after.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.engines.replay import evaluate
from tt_cnn.virtual.engines.replay.graph import Graph, Node, Shape, broadcast, kept_axes
from tt_cnn.virtual.engines.replay.held import holds_blocks, is_kept
from tt_cnn.virtual.numerics.convolution.quick import Plan
from tt_cnn.virtual.numerics.formats import BLOCK
from tt_cnn.virtual.types.enums import DataType

ROUNDINGS = ("to_bfloat16", "round_away", "round_even", "nearest_even", "stored", "cut", "flush_denormals")
"""Unary operations that round each value by itself."""


class RoundingGraph(Graph):
    # --- roundings -----------------------------------------------------------------------------------------------

    def unary(self, name: str, x: Node, *params: Any) -> Node:
        if x.kind == "pad":
            before, after, fill = x.params
            number = evaluate.unary_number(name, fill, params)
            if not math.isnan(number):
                return self.pad(self.unary(name, x.source, *params), before, after, number)
        if name not in ROUNDINGS:
            return super().unary(name, x, *params)
        if is_kept(x, name, params):
            return x
        if x.kind == "cat":
            return self.cat([self.unary(name, part, *params) for part in x.inputs], x.params[0])
        if x.kind in ("repeat", "spread"):
            return self._like(x, self.unary(name, x.source, *params))
        return super().unary(name, x, *params)

    def blocks(self, x: Node, dtype: DataType, precise: bool, axis: int) -> Node:
        """Values as a block format holds them, 16 along `axis` with one exponent."""
        axis %= len(x.shape)
        if holds_blocks(x, dtype, axis):
            return x
        moved = self._moved_blocks(x, dtype, precise, axis)
        return moved or self._node("blocks", (x,), (dtype, precise, axis), x.shape)

    def _moved_blocks(self, x: Node, dtype: DataType, precise: bool, axis: int) -> Node | None:
        """The rounding before x's own operation, where that is the same."""
        if x.kind == "permute":
            return self.permute(self.blocks(x.source, dtype, precise, x.params[0][axis]), x.params[0])
        if x.kind == "reshape":
            kept = kept_axes(x.source.shape, x.shape)
            return self.reshape(self.blocks(x.source, dtype, precise, kept[axis]), x.shape) if axis in kept else None
        if x.kind == "pad":
            before, after, fill = x.params
            if fill or before[axis] % BLOCK:
                return None
            return self.pad(self.blocks(x.source, dtype, precise, axis), before, after, 0.0)
        if x.kind == "cat":
            if x.params[0] == axis and any(part.shape[axis] % BLOCK for part in x.inputs[:-1]):
                return None
            return self.cat([self.blocks(part, dtype, precise, axis) for part in x.inputs], x.params[0])
        if (x.kind == "repeat" and x.params[0][axis] == 1) or (x.kind == "spread" and axis == 1):
            return self._like(x, self.blocks(x.source, dtype, precise, axis))
        return None

    def rounded(self, x: Node, dtype: DataType | None) -> Node:
        """An image's sums as they are kept between two blocks of the inner dimension."""
        if dtype is None:
            return self.unary("nearest_even", x)
        if dtype is DataType.BFLOAT16:
            return self.unary("to_bfloat16", x)
        return x if dtype is DataType.FLOAT32 else self.blocks(x, dtype, False, 1)

    def binary(self, name: str, a: Node, b: Node) -> Node:
        """Padding waits until after the operation where what it meets is one number."""
        if a.kind == "pad" and b.value is not None and broadcast(a.shape, b.shape) == a.shape:
            before, after, fill = a.params
            stops = tuple(low + n for low, n in zip(before, a.source.shape, strict=True))
            outside = _outside(b.value, before, stops, a.shape)
            if outside is not None:
                there = self._broadcast_slice(b, a.shape, before, stops)
                number = evaluate.binary_number(name, fill, outside)
                return self.pad(self.binary(name, a.source, there), before, after, number)
        return super().binary(name, a, b)

    def _like(self, x: Node, source: Node) -> Node:
        """x's operation on another source of the same shape."""
        return self._node(x.kind, (source,), x.params, x.shape)

    def _pushed_slice(self, x: Node, starts: Shape, stops: Shape) -> Node | None:
        if x.kind == "blocks":
            dtype, precise, axis = x.params
            if starts[axis] % BLOCK or (stops[axis] % BLOCK and stops[axis] != x.shape[axis]):
                return None
            return self.blocks(self.slice(x.source, starts, stops), dtype, precise, axis)
        if x.kind == "sums" and _touches_each_pixel_once(x):
            if (starts[1], stops[1]) != (0, x.shape[1]):
                return None
            channels = x.source.shape[1]
            cut = self.slice(x.source, (starts[0], 0, *starts[2:]), (stops[0], channels, *stops[2:]))
            shape = [b - a for a, b in zip(starts, stops, strict=True)]
            return self._node("sums", (cut, x.inputs[1]), x.params, shape)
        return super()._pushed_slice(x, starts, stops)

    # --- sums ----------------------------------------------------------------------------------------------------

    def sums(self, x: Node, weight: Node, plan: Plan) -> Node:
        """The sums of a convolution (batch, channels, height, width), rounded as the plan says."""
        top, bottom, left, right = plan.window.padding
        padding, stride, dilation = (top, left, bottom, right), plan.window.stride, plan.window.dilation
        total = self._transposed(x, weight, plan) if plan.is_whole else None
        if total is None:
            conv = self.conv(x, weight, None, stride, padding, dilation, plan.groups)
            params = (*conv.params[:3], plan.pieces, plan.between, plan.scale, plan.narrow)
            total = conv if plan.groups > 1 else self._node("sums", conv.inputs, params, conv.shape)
        for dtype in plan.last:
            total = self.rounded(total, dtype)
        return self._node("walk", (total,), (plan.walk,), total.shape) if plan.walk else total

    def spread(self, x: Node, size: Sequence[int], first: Sequence[int], stride: Sequence[int]) -> Node:
        """The pixels of an image (batch, channels, height, width) within a larger one of zeros."""
        return self._node("spread", (x,), (tuple(size), tuple(first), tuple(stride)), (*x.shape[:2], *size))

    def _transposed(self, x: Node, weight: Node, plan: Plan) -> Node | None:
        """A convolution over pixels with zeros between them, none of which meet in a result."""
        if x.kind != "spread" or weight.value is None:
            return None
        size, first, stride = x.params
        kernel = plan.window.kernel
        plain = plan.window.stride == plan.window.dilation == (1, 1) and not any(plan.window.padding)
        n, _, h, w = x.source.shape
        whole = (h * stride[0], w * stride[1])
        fits = tuple(a + k - 1 for a, k in zip(whole, kernel, strict=True)) == size
        if not plain or plan.groups != 1 or kernel != stride or not fits or first != (kernel[0] - 1, kernel[1] - 1):
            return None
        turned = self.constant(weight.value.flip(2, 3).transpose(0, 1).contiguous())
        extra = ((1, 1), (0, 0))
        return self.conv_transpose(x.source, turned, None, stride, (0, 0, 0, 0), extra, 1, (n, weight.shape[0], *whole))

    # --- what only torch can do ----------------------------------------------------------------------------------

    def call(self, name: str, parameters: int, tensors: Sequence[Node], shape: Sequence[int]) -> Node:
        """A primitive as it is."""
        return self._node("call", tuple(tensors), (name, parameters), shape)


def _touches_each_pixel_once(node: Node) -> bool:
    stride, padding, *_ = node.params
    return node.inputs[1].shape[2:] == (1, 1) and stride == (1, 1) and not any(padding)


def _outside(value: torch.Tensor, starts: Shape, stops: Shape, shape: Shape) -> float | None:
    """The one number that a constant, repeated to a shape, holds outside of a part of it."""
    if value.numel() == 1:
        return float(value.reshape(-1)[0])
    padded = [i for i, n in enumerate(shape) if (starts[i], stops[i]) != (0, n)]
    axis = padded[0] - (len(shape) - value.dim())
    if len(padded) != 1 or axis < 0 or value.shape[axis] == 1:
        return None
    start, stop = starts[padded[0]], stops[padded[0]]
    low, high = value.narrow(axis, 0, start), value.narrow(axis, stop, value.shape[axis] - stop)
    found = torch.cat([low, high], axis).unique()
    return float(found[0]) if found.numel() == 1 else None
