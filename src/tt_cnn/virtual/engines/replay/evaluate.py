# SPDX-License-Identifier: Apache-2.0
"""A node's value by torch: for what an engine has no step for, and for looking at the values within a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tt_cnn.virtual.engines.replay.fp8.e4m3 import rounded as rounded_to_e4m3
from tt_cnn.virtual.engines.replay.graph import Node, ordered, used_inputs
from tt_cnn.virtual.numerics.convolution.quick import Plan, rounded, sums, walked
from tt_cnn.virtual.numerics.convolution.windows import Window, zeros_around
from tt_cnn.virtual.numerics.formats import BLOCK
from tt_cnn.virtual.numerics.gelu import gelu
from tt_cnn.virtual.numerics.packer import to_blocks
from tt_cnn.virtual.numerics.primitive import PRIMITIVES, parameters_of
from tt_cnn.virtual.numerics.steady import steady
from tt_cnn.virtual.numerics.vector_unit import order

_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "max": torch.maximum,
    "min": torch.minimum,
}  # fmt: skip
_UNARY: dict[str, Callable[..., torch.Tensor]] = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Log": steady(torch.log),
    "Sqrt": torch.sqrt, "Neg": torch.neg, "Abs": torch.abs, "Reciprocal": torch.reciprocal, "Floor": torch.floor,
    "Ceil": torch.ceil, "Erf": torch.erf, "Sin": steady(torch.sin), "Cos": steady(torch.cos), "silu": F.silu,
    "mish": F.mish, "HardSwish": F.hardswish, "Softplus": F.softplus, "rsqrt": torch.rsqrt,
    "hardsigmoid": F.hardsigmoid, "leaky_relu": F.leaky_relu, "elu": F.elu, "clip": torch.clamp,
    "gelu": gelu,
}  # fmt: skip
_UNARY |= {name: PRIMITIVES[name] for name in ("to_bfloat16", "round_away", "round_even", "stored", "flush_denormals")}
_UNARY |= {"at_least": order.at_least, "at_most": order.at_most}
_UNARY |= {"cut": lambda x, bits: PRIMITIVES["cut"](x, bits=bits), "nearest_even": lambda x: rounded(x, None)}
_REDUCE: dict[str, Callable[..., torch.Tensor]] = {
    "mean": torch.mean, "sum": torch.sum, "amax": torch.amax, "amin": torch.amin,
}  # fmt: skip


def value_of(node: Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The node's operation on the values of its inputs."""
    return _KINDS[node.kind](node, *inputs)


def unary_number(name: str, value: float, params: Sequence[Any]) -> float:
    """A unary operation on one number."""
    return float(_UNARY[name](torch.tensor([value]), *params))


def binary_number(name: str, a: float, b: float) -> float:
    return float(_BINARY[name](torch.tensor(a), torch.tensor(b)))


def walk(
    outputs: Sequence[Node], inputs: Sequence[torch.Tensor], known: Mapping[int, torch.Tensor] | None = None
) -> Iterator[tuple[Node, torch.Tensor]]:
    """All nodes with their values, each forgotten when no node needs it any more.

    `inputs` are those that count, in order; `known` values, by the identity of their nodes, are not computed again.
    """
    known = known or {}
    given = dict(zip(used_inputs(outputs), inputs, strict=True))
    order = [node for node in ordered(outputs, known) if id(node) not in known]
    last = {id(one): node for node in order for one in node.inputs}
    values: dict[int, torch.Tensor] = {}
    for node in order:
        if node.kind == "input":
            value = given[node.params[0]]
        elif node.value is not None:
            value = node.value
        else:
            value = value_of(node, [values[id(one)] if id(one) in values else known[id(one)] for one in node.inputs])
        values[id(node)] = value
        yield node, value
        for one in node.inputs:
            if last[id(one)] is node:
                values.pop(id(one), None)


def evaluated(outputs: Sequence[Node], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The values of the outputs."""
    wanted = {id(node) for node in outputs}
    found = {id(node): value for node, value in walk(outputs, inputs) if id(node) in wanted}
    return [found[id(node)] for node in outputs]


def _slice(node: Node, x: torch.Tensor) -> torch.Tensor:
    return x[tuple(slice(*one) for one in zip(*node.params, strict=True))]


def _pad(node: Node, x: torch.Tensor) -> torch.Tensor:
    before, after, fill = node.params
    return F.pad(x, [side for pair in reversed(list(zip(before, after, strict=True))) for side in pair], value=fill)


def _around(x: torch.Tensor, padding: Sequence[int], fill: float) -> torch.Tensor:
    top, left, bottom, right = padding
    return F.pad(x, (left, right, top, bottom), value=fill) if any(padding) else x


def _conv(node: Node, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    stride, (top, left, bottom, right), dilation, groups = node.params
    if (top, left) == (bottom, right):
        return F.conv2d(x, weight, bias, stride, (top, left), dilation, groups)
    return F.conv2d(F.pad(x, (left, right, top, bottom)), weight, bias, stride, 0, dilation, groups)


def _conv_transpose(
    node: Node, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """A processor adds up the places of a kernel in the numbers of its operands, a GPU in 32 bits."""
    stride, padding, (dilation, more), groups = node.params
    if x.dtype in (torch.float16, torch.bfloat16) and x.device.type == "cpu":
        wide = None if bias is None else bias.float()
        return _conv_transpose(node, x.float(), weight.float(), wide).to(x.dtype)
    return F.conv_transpose2d(x, weight, bias, stride, padding[:2], more, groups, dilation)


def _max_pool(node: Node, x: torch.Tensor) -> torch.Tensor:
    kernel, stride, padding, dilation = node.params
    return F.max_pool2d(_around(x, padding, -math.inf), kernel, stride, 0, dilation)


def _avg_pool(node: Node, x: torch.Tensor) -> torch.Tensor:
    kernel, stride, padding, (count_padding,) = node.params
    return F.avg_pool2d(x, kernel, stride, padding[:2], False, count_padding)


def _repeat(node: Node, x: torch.Tensor) -> torch.Tensor:
    for axis, times in enumerate(node.params[0]):
        x = x.repeat_interleave(times, axis) if times > 1 else x
    return x


def _blocks(node: Node, x: torch.Tensor) -> torch.Tensor:
    dtype, precise, axis = node.params
    rows = x.movedim(axis, -1)
    length = rows.shape[-1]
    packed = to_blocks(F.pad(rows, (0, -length % BLOCK)).contiguous(), dtype=dtype, precise=precise)
    return packed[..., :length].movedim(-1, axis)


def _sums(node: Node, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    stride, (top, left, bottom, right), dilation, pieces, between, *_ = node.params
    kernel = (weight.shape[2], weight.shape[3])
    plan = Plan(Window(kernel, stride, (top, bottom, left, right), dilation), 1, pieces, between, ())
    return _as_image(node, sums.function(x.permute(0, 2, 3, 1), weight, plan=plan))


def _walk(node: Node, x: torch.Tensor) -> torch.Tensor:
    return _as_image(node, walked(x.permute(0, 2, 3, 1).reshape(-1, x.shape[1]), node.params[0]))


def _as_image(node: Node, rows: torch.Tensor) -> torch.Tensor:
    n, c, h, w = node.shape
    return rows.reshape(n, h, w, c).permute(0, 3, 1, 2)


def _spread(node: Node, x: torch.Tensor) -> torch.Tensor:
    size, first, stride = node.params
    return zeros_around(x.permute(0, 2, 3, 1), size=size, first=first, stride=stride).permute(0, 3, 1, 2)


def _quantize(node: Node, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """No whole number stands for NaN or an infinity: with such among them all values stay as they are."""
    if not bool(torch.isfinite(x).all()):
        return x
    return ((x / scale).round() + zero).clamp(0, 255).to(zero.dtype)


def _dequantize(node: Node, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        return x
    shape = [-1 if (axis,) == node.params else 1 for axis in range(x.dim())]
    return (x.float() - zero.float().reshape(shape)) * scale.reshape(shape)


_KINDS: dict[str, Callable[..., Any]] = {
    "reshape": lambda node, x: x.reshape(node.shape),
    "permute": lambda node, x: x.permute(node.params[0]),
    "expand": lambda node, x: x.expand(node.shape),
    "slice": _slice,
    "pad": _pad,
    "cat": lambda node, *parts: torch.cat(parts, node.params[0]),
    "repeat": _repeat,
    "unary": lambda node, x: _UNARY[node.params[0]](x, *node.params[1:]),
    "binary": lambda node, a, b: _BINARY[node.params[0]](a, b),
    "blocks": _blocks,
    "sums": _sums,
    "walk": _walk,
    "spread": _spread,
    "call": lambda node, *tensors: PRIMITIVES[node.params[0]](*tensors, **parameters_of(node.params[1])),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "matmul": lambda node, a, b: a @ b,
    "softmax": lambda node, x: x.softmax(node.params[0]),
    "reduce": lambda node, x: _REDUCE[node.params[0]](x, dim=node.params[1], keepdim=True),
    "quantize": _quantize,
    "dequantize": _dequantize,
    "e4m3": lambda node, x: rounded_to_e4m3(x, node.params[0]),
}
