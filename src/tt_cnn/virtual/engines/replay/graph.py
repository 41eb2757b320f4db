# SPDX-License-Identifier: Apache-2.0
"""A program as a graph of pure operations on logical tensors, put into its simplest form while it is built.

TT-NN's tensors are flattened, channels last and padded to tiles; a host engine wants images with channels first. The
constructors below move permutations and reshapes towards the outputs and slices towards the inputs, where they meet
their opposites and vanish: what stays is the network as its author drew it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Shape = tuple[int, ...]
_LAYOUT = ("permute", "reshape")


@dataclass(eq=False)
class Node:
    """One operation. Two of the same kind, parameters and inputs are the same object."""

    kind: str
    inputs: tuple[Node, ...]
    params: tuple[Any, ...]
    shape: Shape
    value: torch.Tensor | None = field(default=None, repr=False)
    """Of a constant."""

    @property
    def source(self) -> Node:
        return self.inputs[0]

    @property
    def is_constant(self) -> bool:
        return self.value is not None


class Graph:
    """Makes nodes. Every method takes nodes and gives the simplest node that means the same."""

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
        """Only what is the same bit for bit is simplified."""
        self._made: dict[Any, Node] = {}
        self._constants: dict[int, Node] = {}

    # --- leaves --------------------------------------------------------------------------------------------------

    def input(self, index: int, shape: Shape) -> Node:
        return self._node("input", (), (index,), shape)

    def constant(self, value: torch.Tensor) -> Node:
        """Kept by identity, so that a weight used twice is stored once."""
        if id(value) not in self._constants:
            self._constants[id(value)] = Node("constant", (), (), tuple(value.shape), value)
        return self._constants[id(value)]

    def _node(self, kind: str, inputs: tuple[Node, ...], params: tuple[Any, ...], shape: Sequence[int]) -> Node:
        key = (kind, tuple(map(id, inputs)), params)
        if key not in self._made:
            self._made[key] = Node(kind, inputs, params, tuple(shape))
        return self._made[key]

    # --- layout: sinks towards the outputs -----------------------------------------------------------------------

    def reshape(self, x: Node, shape: Sequence[int]) -> Node:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.value is not None:
            return self.constant(x.value.reshape(shape))
        if x.kind == "reshape":
            return self.reshape(x.source, shape)
        if x.kind == "permute" and _moves_only_units(x.source.shape, x.params[0]):
            return self.reshape(x.source, shape)
        return self._node("reshape", (x,), (shape,), shape)

    def permute(self, x: Node, dims: Sequence[int]) -> Node:
        dims = tuple(d % len(x.shape) for d in dims)
        if dims == tuple(range(len(dims))):
            return x
        if x.value is not None:
            return self.constant(x.value.permute(dims).contiguous())
        if x.kind == "permute":
            return self.permute(x.source, [x.params[0][d] for d in dims])
        if x.kind == "pad":
            before, after, fill = x.params
            moved = [before[d] for d in dims], [after[d] for d in dims]
            return self.pad(self.permute(x.source, dims), *moved, fill)
        if _moves_only_units(x.shape, dims):
            return self.reshape(x, [x.shape[d] for d in dims])
        return self._node("permute", (x,), (dims,), [x.shape[d] for d in dims])

    def slice(self, x: Node, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None) -> Node:
        starts, stops = tuple(starts), tuple(stops)
        steps = tuple(steps or (1,) * len(starts))
        if not any(starts) and stops == x.shape and set(steps) == {1}:
            return x
        if x.value is not None:
            index = tuple(slice(a, b, s) for a, b, s in zip(starts, stops, steps, strict=True))
            return self.constant(x.value[index].contiguous())
        pushed = self._pushed_slice(x, starts, stops) if set(steps) == {1} else None
        if pushed is not None:
            return pushed
        shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(starts, stops, steps, strict=True)]
        return self._node("slice", (x,), (starts, stops, steps), shape)

    def _pushed_slice(self, x: Node, starts: Shape, stops: Shape) -> Node | None:
        """The slice taken before x's own operation, where that is the same."""
        if x.kind == "slice" and set(x.params[2]) == {1}:
            inner = x.params[0]
            return self.slice(
                x.source,
                [a + b for a, b in zip(starts, inner, strict=True)],
                [a + b for a, b in zip(stops, inner, strict=True)],
            )
        if x.kind == "permute":
            dims = x.params[0]
            order = sorted(range(len(dims)), key=dims.__getitem__)
            inside = self.slice(x.source, [starts[i] for i in order], [stops[i] for i in order])
            return self.permute(inside, dims)
        if x.kind == "pad":
            return self._slice_of_pad(x, starts, stops)
        if x.kind == "unary":
            return self.unary(x.params[0], self.slice(x.source, starts, stops), *x.params[1:])
        if x.kind == "binary":
            parts = [self._broadcast_slice(one, x.shape, starts, stops) for one in x.inputs]
            return self.binary(x.params[0], *parts)
        if x.kind == "reshape":
            return self._slice_of_reshape(x, starts, stops)
        if x.kind == "cat":
            return self._slice_of_cat(x, starts, stops)
        return None

    def _slice_of_pad(self, x: Node, starts: Shape, stops: Shape) -> Node | None:
        before, _, fill = x.params
        inner = x.source.shape
        low = [a - b for a, b in zip(starts, before, strict=True)]
        high = [a - b for a, b in zip(stops, before, strict=True)]
        if any(h <= 0 or lo >= n for lo, h, n in zip(low, high, inner, strict=True)):
            return None
        kept = self.slice(x.source, [max(0, lo) for lo in low], [min(n, h) for h, n in zip(high, inner, strict=True)])
        return self.pad(
            kept, [max(0, -lo) for lo in low], [max(0, h - n) for h, n in zip(high, inner, strict=True)], fill
        )

    def _broadcast_slice(self, x: Node, shape: Shape, starts: Shape, stops: Shape) -> Node:
        """A slice of an operand, which has the whole of the axes along which it is repeated."""
        missing = len(shape) - len(x.shape)
        pairs = [
            (0, 1) if n == 1 and shape[missing + i] != 1 else (starts[missing + i], stops[missing + i])
            for i, n in enumerate(x.shape)
        ]
        return self.slice(x, [a for a, _ in pairs], [b for _, b in pairs])

    def _slice_of_reshape(self, x: Node, starts: Shape, stops: Shape) -> Node | None:
        """Axes that the reshape leaves alone can be cut before it; all others must be whole."""
        kept = kept_axes(x.source.shape, x.shape)
        inside = {kept[i]: (starts[i], stops[i]) for i in range(len(starts)) if i in kept}
        whole = all((starts[i], stops[i]) == (0, n) for i, n in enumerate(x.shape) if i not in kept)
        if not whole:
            return None
        pairs = [inside.get(i, (0, n)) for i, n in enumerate(x.source.shape)]
        cut = self.slice(x.source, [a for a, _ in pairs], [b for _, b in pairs])
        return self.reshape(cut, [b - a for a, b in zip(starts, stops, strict=True)])

    def _slice_of_cat(self, x: Node, starts: Shape, stops: Shape) -> Node | None:
        axis = x.params[0]
        parts, at = [], 0
        for one in x.inputs:
            size = one.shape[axis]
            low, high = max(0, starts[axis] - at), min(size, stops[axis] - at)
            at += size
            if low >= high:
                continue
            begin = [low if i == axis else s for i, s in enumerate(starts)]
            end = [high if i == axis else s for i, s in enumerate(stops)]
            parts.append(self.slice(one, begin, end))
        return self.cat(parts, axis) if parts else None

    def pad(self, x: Node, before: Sequence[int], after: Sequence[int], fill: float) -> Node:
        before, after = tuple(before), tuple(after)
        if not any(before) and not any(after):
            return x
        shape = [a + n + b for a, n, b in zip(before, x.shape, after, strict=True)]
        if x.value is not None:
            flat = [side for pair in reversed(list(zip(before, after, strict=True))) for side in pair]
            return self.constant(torch.nn.functional.pad(x.value, flat, value=fill))
        if x.kind == "pad" and x.params[2] == fill:
            more, less = (
                [a + b for a, b in zip(side, known, strict=True)]
                for side, known in ((before, x.params[0]), (after, x.params[1]))
            )
            return self.pad(x.source, more, less, fill)
        return self._node("pad", (x,), (before, after, fill), shape)

    # --- element by element --------------------------------------------------------------------------------------

    def unary(self, name: str, x: Node, *params: Any) -> Node:
        if x.kind == "reshape":
            return self.reshape(self.unary(name, x.source, *params), x.shape)
        if x.kind == "permute":
            return self.permute(self.unary(name, x.source, *params), x.params[0])
        return self._node("unary", (x,), (name, *params), x.shape)

    def binary(self, name: str, a: Node, b: Node) -> Node:
        shape = broadcast(a.shape, b.shape)
        if a.shape == shape and _changes_nothing(name, b, self.exact):
            return a
        for layout, other in ((a, b), (b, a)):
            sunk = self._sunk_binary(name, layout, other, shape, swapped=layout is b)
            if sunk is not None:
                return sunk
        if name == "add" and a.kind in ("conv", "conv_transpose") and b.value is not None and len(a.inputs) == 2:
            bias = channels_of(b.value, a.shape)
            if bias is not None:
                return self._node(a.kind, (*a.inputs, self.constant(bias)), a.params, a.shape)
        foldable = name == "mul" and a.kind == "binary" and a.params == ("mul",) and shape == a.source.shape
        if foldable and not self.exact:
            one, two = _number(a.inputs[1]), _number(b)
            if one is not None and two is not None:
                return self.binary("mul", a.source, self.constant(one * two))
        return self._node("binary", (a, b), (name,), shape)

    def _sunk_binary(self, name: str, a: Node, b: Node, shape: Shape, swapped: bool) -> Node | None:
        """The operation before a's permutation or reshape, with b brought there."""
        if a.shape != shape or a.kind not in _LAYOUT:
            return None
        if a.kind == "permute":
            rank = len(shape)
            inverse = sorted(range(rank), key=a.params[0].__getitem__)
            there = self.permute(self.reshape(b, (1,) * (rank - len(b.shape)) + b.shape), inverse)
        elif b.shape == shape:
            there = self.reshape(b, a.source.shape)
        else:
            found = self._unreshaped_broadcast(b, a)
            if found is None:
                return None
            there = found
        pair = (there, a.source) if swapped else (a.source, there)
        if b.value is not None or b.kind == a.kind or there.kind not in _LAYOUT:
            inside = self.binary(name, *pair)
        else:  # what b has taken on must not be handed back
            inside = self._node("binary", pair, (name,), a.source.shape)
        return self.permute(inside, a.params[0]) if a.kind == "permute" else self.reshape(inside, shape)

    def _unreshaped_broadcast(self, b: Node, a: Node) -> Node | None:
        """b, which repeats along all but axes that a's reshape leaves alone, as it goes with a's source."""
        missing = len(a.shape) - len(b.shape)
        kept = kept_axes(a.source.shape, a.shape)
        shape = [1] * len(a.source.shape)
        for i, n in enumerate(b.shape):
            if n == 1:
                continue
            if missing + i not in kept:
                return None
            shape[kept[missing + i]] = n
        return self.reshape(b, shape)

    def cat(self, parts: Sequence[Node], axis: int) -> Node:
        axis %= len(parts[0].shape)
        if len(parts) == 1:
            return parts[0]
        if all(p.value is not None for p in parts):
            return self.constant(torch.cat([p.value for p in parts if p.value is not None], axis))
        sunk = self._sunk_cat(list(parts), axis)
        if sunk is not None:
            return sunk
        flat = [q for p in parts for q in (p.inputs if p.kind == "cat" and p.params == (axis,) else (p,))]
        shape = list(flat[0].shape)
        shape[axis] = sum(p.shape[axis] for p in flat)
        return self._node("cat", tuple(flat), (axis,), shape)

    def _sunk_cat(self, parts: list[Node], axis: int) -> Node | None:
        first = parts[0]
        if all(p.kind == "permute" and p.params == first.params for p in parts):
            dims = first.params[0]
            return self.permute(self.cat([p.source for p in parts], dims[axis]), dims)
        if not all(p.kind == "reshape" for p in parts):
            return None
        rank = len(first.source.shape)
        kept = kept_axes(first.source.shape, first.shape)
        if axis not in kept:
            return None
        inner = kept[axis]
        for p in parts:
            same = [n for i, n in enumerate(p.source.shape) if i != inner]
            if kept_axes(p.source.shape, p.shape).get(axis) != inner or len(p.source.shape) != rank:
                return None
            if same != [n for i, n in enumerate(first.source.shape) if i != inner]:
                return None
        shape = list(first.shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        return self.reshape(self.cat([p.source for p in parts], inner), shape)

    # --- images (batch, channels, height, width) -----------------------------------------------------------------

    def conv(
        self, x: Node, weight: Node, bias: Node | None, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Node:
        """`padding` is (top, left, bottom, right)."""
        x, padding = self._with_padding(x, padding, 0.0)
        n, _, h, w = x.shape
        size = [
            (side + padding[i] + padding[i + 2] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1
            for i, side in enumerate((h, w))
        ]
        inputs = (x, weight) if bias is None else (x, weight, bias)
        params = (tuple(stride), padding, tuple(dilation), groups)
        return self._node("conv", inputs, params, (n, weight.shape[0], *size))

    def pool(self, x: Node, kind: str, kernel: Any, stride: Any, padding: Any, shape: Shape, extra: Any = ()) -> Node:
        """`max_pool` (extra: dilation) or `avg_pool` (extra: count padding, divisor)."""
        if kind == "max_pool":
            x, padding = self._with_padding(x, padding, -math.inf)
        return self._node(kind, (x,), (tuple(kernel), tuple(stride), tuple(padding), tuple(extra)), shape)

    def _with_padding(self, x: Node, padding: Sequence[int], fill: float) -> tuple[Node, tuple[int, ...]]:
        """A pad of the two last axes becomes the window's own."""
        padding = tuple(padding)
        if x.kind != "pad" or not _pads_like(x.params[2], fill) or (fill != 0.0 and any(padding)):
            return x, padding
        before, after, _ = x.params
        if any(before[:-2]) or any(after[:-2]):
            return x, padding
        sides = (before[-2], before[-1], after[-2], after[-1])
        return x.source, tuple(a + b for a, b in zip(padding, sides, strict=True))

    def repeat(self, x: Node, axis: int, times: int) -> Node:
        """Every entry along an axis `times` over."""
        axis %= len(x.shape)
        if x.kind == "permute":
            return self.permute(self.repeat(x.source, x.params[0][axis], times), x.params[0])
        shape = list(x.shape)
        shape[axis] *= times
        factors = [1] * len(shape)
        if x.kind == "repeat":
            factors, x = list(x.params[0]), x.source
        factors[axis] *= times
        return self._node("repeat", (x,), (tuple(factors),), shape)

    # --- all else ------------------------------------------------------------------------------------------------

    def matmul(self, a: Node, b: Node) -> Node:
        shape = (*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        return self._node("matmul", (a, b), (), shape)

    def softmax(self, x: Node, axis: int) -> Node:
        axis %= len(x.shape)
        if x.kind == "permute":
            return self.permute(self.softmax(x.source, x.params[0][axis]), x.params[0])
        return self._node("softmax", (x,), (axis,), x.shape)

    def reduce(self, name: str, x: Node, axes: Sequence[int], keep: bool) -> Node:
        axes = tuple(sorted(a % len(x.shape) for a in axes))
        if x.kind == "permute" and keep:
            dims = x.params[0]
            return self.permute(self.reduce(name, x.source, [dims[a] for a in axes], True), dims)
        kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
        reduced = self._node("reduce", (x,), (name, axes), kept)
        return reduced if keep else self.reshape(reduced, [n for i, n in enumerate(x.shape) if i not in axes])

    def conv_transpose(
        self, x: Node, weight: Node, bias: Node | None, stride: Any, padding: Any, extra: Any, groups: int, shape: Shape
    ) -> Node:
        inputs = (x, weight) if bias is None else (x, weight, bias)
        return self._node("conv_transpose", inputs, (tuple(stride), tuple(padding), tuple(extra), groups), shape)

    def expand(self, x: Node, shape: Sequence[int]) -> Node:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.value is not None:
            return self.constant(x.value.expand(shape).contiguous())
        return self._node("expand", (x,), (shape,), shape)


def ordered(outputs: Sequence[Node], known: Iterable[int] = ()) -> list[Node]:
    """All nodes that the outputs need, each after its inputs; those of `known` identity and what only they need not."""
    order: list[Node] = []
    seen: set[int] = set(known)
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(outputs)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((one, False) for one in reversed(node.inputs) if id(one) not in seen)
    return order


def used_inputs(outputs: Sequence[Node]) -> list[int]:
    """The numbers of the inputs that an output depends on."""
    return sorted(node.params[0] for node in ordered(outputs) if node.kind == "input")


def kept_axes(inner: Shape, outer: Shape) -> dict[int, int]:
    """Axes of a reshape's result that are axes of its source: outer to inner, those of size 1 left out."""
    kept: dict[int, int] = {}
    i = j = 0
    while i < len(inner) and j < len(outer):
        if inner[i] == outer[j]:
            if inner[i] != 1:
                kept[j] = i
            i, j = i + 1, j + 1
            continue
        if inner[i] == 1:
            i += 1
            continue
        if outer[j] == 1:
            j += 1
            continue
        left, right = inner[i], outer[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * inner[i], i + 1
            else:
                right, j = right * outer[j], j + 1
    return kept


def broadcast(a: Shape, b: Shape) -> Shape:
    """Of two operands that fit; torch's own function imports its symbolic shapes, which takes a second."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(n if m == 1 else m for m, n in pairs)


def _moves_only_units(shape: Shape, dims: Sequence[int]) -> bool:
    """A permutation that leaves all axes longer than 1 in their order is a reshape."""
    moved = [d for d in dims if shape[d] != 1]
    return moved == sorted(moved)


def _changes_nothing(name: str, b: Node, exact: bool) -> bool:
    """Adding 0 (casts are written so) and multiplying by 1. What makes 0 of -0 is something where bits count."""
    neutral = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}.get(name)
    number = _number(b)
    return neutral is not None and number is not None and float(number) == neutral and not (exact and name == "add")


def _number(node: Node) -> torch.Tensor | None:
    return node.value.reshape(()) if node.value is not None and node.value.numel() == 1 else None


def channels_of(value: torch.Tensor, shape: Shape) -> torch.Tensor | None:
    """A constant that differs only along the channels of an image, as a row of them."""
    full = (1,) * (4 - value.dim()) + tuple(value.shape)
    if len(shape) != 4 or len(full) != 4 or full[0] != 1 or full[2:] != (1, 1) or full[1] not in (1, shape[1]):
        return None
    return value.reshape(-1).expand(shape[1]).contiguous()


def _pads_like(fill: float, wanted: float) -> bool:
    """A maximum takes any padding that no value is below as minus infinity."""
    return fill == wanted or (wanted == -math.inf and fill <= -3.0e38)
