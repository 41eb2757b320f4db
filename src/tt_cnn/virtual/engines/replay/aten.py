# SPDX-License-Identifier: Apache-2.0
"""Torch's operations as graph nodes: one small function each, by the name that a trace gives them.

A function that returns None says that it has no node for these arguments. Operations that change a tensor in place
have no node: what else looks at that tensor would have to be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.graph import Graph, Node

TRANSLATIONS: dict[str, Callable[..., Any]] = {}
END = 1 << 60
"""Slices that go to the end have a stop beyond any axis."""


EXACT: set[str] = set()
"""Those that give the same bits whoever computes them: they move numbers, or round each result exactly. What adds up
or approximates a function, or chooses between +0 and -0, does not; the card's numerics has primitives for it."""


def aten(*names: str, exact: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TRANSLATIONS[f"aten.{name}"] = function
            if exact:
                EXACT.add(f"aten.{name}")
        return function

    return register


# --- nothing happens ---------------------------------------------------------------------------------------------


@aten("alias.default", "clone.default", "detach.default", "lift_fresh_copy.default", "contiguous.default", exact=True)
def same(graph: Graph, x: Node, **_: Any) -> Node:
    return x


@aten("_to_copy.default", exact=True)
def converted(graph: Graph, x: Node, *, dtype: torch.dtype | None = None, **_: Any) -> Node | None:
    """Graphs compute in float32 throughout."""
    return x if dtype in (None, torch.float32) else None


# --- layout ------------------------------------------------------------------------------------------------------


@aten("view.default", "_unsafe_view.default", "reshape.default", exact=True)
def view(graph: Graph, x: Node, shape: Sequence[int]) -> Node:
    known = math.prod(n for n in shape if n != -1)
    return graph.reshape(x, [math.prod(x.shape) // known if n == -1 else n for n in shape])


@aten("permute.default", exact=True)
def permute(graph: Graph, x: Node, dims: Sequence[int]) -> Node:
    return graph.permute(x, dims)


@aten("transpose.int", exact=True)
def transpose(graph: Graph, x: Node, a: int, b: int) -> Node:
    dims = list(range(len(x.shape)))
    dims[a], dims[b] = dims[b], dims[a]
    return graph.permute(x, dims)


@aten("t.default", exact=True)
def t(graph: Graph, x: Node) -> Node:
    return graph.permute(x, (1, 0)) if len(x.shape) == 2 else x


@aten("unsqueeze.default", exact=True)
def unsqueeze(graph: Graph, x: Node, dim: int) -> Node:
    at = dim % (len(x.shape) + 1)
    return graph.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


@aten("squeeze.dim", "squeeze.dims", exact=True)
def squeeze(graph: Graph, x: Node, dims: int | Sequence[int]) -> Node:
    gone = {d % len(x.shape) for d in ([dims] if isinstance(dims, int) else dims)}
    return graph.reshape(x, [n for i, n in enumerate(x.shape) if i not in gone or n != 1])


@aten("slice.Tensor", exact=True)
def slice_(
    graph: Graph, x: Node, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Node:
    size, dim = x.shape[dim], dim % len(x.shape)
    first, last, _ = slice(start, end if end is None or end < END else None).indices(size)
    starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[dim], stops[dim], steps[dim] = first, max(first, last), step
    return graph.slice(x, starts, stops, steps)


@aten("select.int", exact=True)
def select(graph: Graph, x: Node, dim: int, index: int) -> Node:
    dim, index = dim % len(x.shape), index % x.shape[dim]
    one = slice_(graph, x, dim, index, index + 1)
    return graph.reshape(one, [n for i, n in enumerate(x.shape) if i != dim])


@aten("split.Tensor", "split_with_sizes.default", exact=True)
def split(graph: Graph, x: Node, sizes: int | Sequence[int], dim: int = 0) -> tuple[Node, ...]:
    length = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - at) for at in range(0, length, sizes)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(slice_(graph, x, dim, a, a + n) for a, n in zip(starts, sizes, strict=True))


@aten("expand.default", exact=True)
def expand(graph: Graph, x: Node, shape: Sequence[int], **_: Any) -> Node:
    missing = len(shape) - len(x.shape)
    lead = graph.reshape(x, (1,) * missing + x.shape)
    return graph.expand(lead, [lead.shape[i] if n == -1 else n for i, n in enumerate(shape)])


@aten("constant_pad_nd.default", exact=True)
def constant_pad(graph: Graph, x: Node, pad: Sequence[int], value: float = 0.0) -> Node:
    """Torch counts pads from the last axis; negative ones cut."""
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = pad[2 * i], pad[2 * i + 1]
    if any(n < 0 for n in pad):
        starts = [max(0, -b) for b in before]
        stops = [n - max(0, -a) for n, a in zip(x.shape, after, strict=True)]
        x = graph.slice(x, starts, stops)
    return graph.pad(x, [max(0, b) for b in before], [max(0, a) for a in after], float(value))


@aten("cat.default", exact=True)
def cat(graph: Graph, parts: Sequence[Node], dim: int = 0) -> Node:
    return graph.cat([p for p in parts if math.prod(p.shape)], dim)


@aten("stack.default", exact=True)
def stack(graph: Graph, parts: Sequence[Node], dim: int = 0) -> Node:
    return graph.cat([unsqueeze(graph, p, dim) for p in parts], dim)


@aten("index.Tensor", exact=True)
def index(graph: Graph, x: Node, indices: Sequence[Node | None]) -> Node | None:
    """Picking along one axis, where that repeats its entries: nearest upsampling."""
    given = [(axis, one) for axis, one in enumerate(indices) if one is not None]
    if len(given) != 1 or given[0][1].value is None or given[0][1].value.dim() != 1:
        return None
    axis, picked = given[0][0], given[0][1].value
    times = len(picked) // x.shape[axis]
    if times == 0 or len(picked) != times * x.shape[axis]:
        return None
    if not torch.equal(picked, torch.arange(len(picked), device=picked.device) // times):
        return None
    return graph.repeat(x, axis, times)


@aten("upsample_nearest2d.default", exact=True)
def upsample_nearest(graph: Graph, x: Node, size: Sequence[int], *scales: float | None) -> Node | None:
    """Where a scale is said it is what counts, not the quotient of the sizes."""
    times = [a // b for a, b in zip(size, x.shape[2:], strict=True)]
    if [n * k for n, k in zip(x.shape[2:], times, strict=True)] != list(size):
        return None
    if any(scale not in (None, times[i]) for i, scale in enumerate(scales)):
        return None
    return graph.repeat(graph.repeat(x, 2, times[0]), 3, times[1])


# --- element by element ------------------------------------------------------------------------------------------

_UNARY = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "neg": "Neg",
    "abs": "Abs", "reciprocal": "Reciprocal", "floor": "Floor", "ceil": "Ceil", "erf": "Erf", "sin": "Sin",
    "cos": "Cos", "silu": "silu", "mish": "mish", "hardswish": "HardSwish", "rsqrt": "rsqrt",
    "hardsigmoid": "hardsigmoid",
}  # fmt: skip
_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "max", "minimum": "min", "pow": "pow"}


_ROUNDED_EXACTLY = ("relu", "neg", "abs", "floor", "ceil", "sqrt", "reciprocal", "rsqrt")


def _unary(name: str) -> Callable[..., Node]:
    return lambda graph, x: graph.unary(name, x)


for _torch_name, _name in _UNARY.items():
    aten(f"{_torch_name}.default", exact=_torch_name in _ROUNDED_EXACTLY)(_unary(_name))


def operand(graph: Graph, x: Any) -> Node:
    return x if isinstance(x, Node) else graph.constant(torch.tensor(float(x)))


def _binary(name: str) -> Callable[..., Node]:
    def translate(graph: Graph, a: Any, b: Any, alpha: float = 1) -> Node:
        right = operand(graph, b)
        if alpha != 1:
            right = graph.binary("mul", right, operand(graph, alpha))
        return graph.binary(name, operand(graph, a), right)

    return translate


for _torch_name, _name in _BINARY.items():
    aten(
        *(f"{_torch_name}.{kind}" for kind in ("Tensor", "Scalar", "default")), exact=_name not in ("pow", "max", "min")
    )(_binary(_name))
aten("pow.Tensor_Tensor")(_binary("pow"))


@aten("pow.Tensor_Scalar")
def power(graph: Graph, x: Node, exponent: float) -> Node:
    """Torch takes roots and products for some, and those of -0 and minus infinity are not the powers."""
    if exponent in _POWERS:
        return graph.unary(_POWERS[exponent], x)
    if exponent == 1:
        return x
    if exponent in (2, 3, -2):
        square = graph.binary("mul", x, x)
        return square if exponent == 2 else graph.binary("mul", square, x) if exponent == 3 else _inverse(graph, square)
    return graph.binary("pow", x, operand(graph, exponent))


_POWERS = {0.5: "Sqrt", -0.5: "rsqrt", -1: "Reciprocal"}


def _inverse(graph: Graph, x: Node) -> Node:
    return graph.unary("Reciprocal", x)


@aten("rsub.Scalar", "rsub.Tensor", exact=True)
def rsub(graph: Graph, a: Node, b: Any, alpha: float = 1) -> Node:
    return _binary("sub")(graph, b, a, alpha)


@aten("clamp.default", exact=True)
def clamp(graph: Graph, x: Node, low: float | None = None, high: float | None = None) -> Node | None:
    if low == 0 and high is None:
        return graph.unary("Relu", x)
    bounds = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    return None if any(map(math.isnan, bounds)) else graph.unary("clip", x, *bounds)


@aten("hardtanh.default", exact=True)
def hardtanh(graph: Graph, x: Node, low: float = -1, high: float = 1) -> Node | None:
    return clamp(graph, x, low, high)


@aten("clamp_min.default", exact=True)
def clamp_min(graph: Graph, x: Node, low: float) -> Node | None:
    return clamp(graph, x, low, None)


@aten("clamp_max.default", exact=True)
def clamp_max(graph: Graph, x: Node, high: float) -> Node | None:
    return clamp(graph, x, None, high)


@aten("clamp.Tensor", "clamp_min.Tensor")
def clamp_by_values(graph: Graph, x: Node, low: Node | None = None, high: Node | None = None) -> Node:
    x = x if low is None else graph.binary("max", x, low)
    return x if high is None else graph.binary("min", x, high)


@aten("clamp_max.Tensor")
def clamp_max_by_values(graph: Graph, x: Node, high: Node) -> Node:
    return clamp_by_values(graph, x, None, high)


LARGEST_THRESHOLD = 88.0
"""Beyond it torch's own softplus is infinite before it becomes linear, which an engine's is not."""


@aten("softplus.default")
def softplus(graph: Graph, x: Node, beta: float = 1, threshold: float = 20) -> Node | None:
    if beta == 0 or not threshold <= LARGEST_THRESHOLD:
        return None
    return graph.unary("Softplus", x, *(() if (beta, threshold) == (1, 20) else (float(beta), float(threshold))))


@aten("leaky_relu.default", exact=True)
def leaky_relu(graph: Graph, x: Node, slope: float = 0.01) -> Node:
    return graph.unary("leaky_relu", x, float(slope))


@aten("elu.default")
def elu(graph: Graph, x: Node, alpha: float = 1.0, *scales: float) -> Node | None:
    return graph.unary("elu", x, float(alpha)) if all(s == 1 for s in scales) else None


@aten("gelu.default")
def gelu(graph: Graph, x: Node, *, approximate: str = "none") -> Node | None:
    return graph.unary("gelu", x, approximate)


# --- windows, products, reductions -------------------------------------------------------------------------------


@aten("convolution.default")
def convolution(
    graph: Graph,
    x: Node,
    weight: Node,
    bias: Node | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Node | None:
    if len(x.shape) != 4 or not weight.is_constant:
        return None
    if not transposed:
        return graph.conv(x, weight, bias, stride, (*padding, *padding), dilation, groups)
    size = [
        (n - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[2 + i] - 1) + output_padding[i] + 1
        for i, n in enumerate(x.shape[2:])
    ]
    shape = (x.shape[0], weight.shape[1] * groups, *size)
    extra = (tuple(dilation), tuple(output_padding))
    return graph.conv_transpose(x, weight, bias, stride, (*padding, *padding), extra, groups, shape)


@aten("max_pool2d_with_indices.default", "max_pool2d.default", exact=True)
def max_pool(
    graph: Graph,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Node | None:
    if ceil_mode or len(x.shape) != 4:
        return None
    kernel, stride, padding, dilation = (_pair(v) for v in (kernel, stride or kernel, padding, dilation))
    size = _pooled(x.shape[2:], kernel, stride, padding, dilation)
    return graph.pool(x, "max_pool", kernel, stride, (*padding, *padding), (*x.shape[:2], *size), dilation)


@aten("avg_pool2d.default")
def avg_pool(
    graph: Graph,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Node | None:
    if ceil_mode or len(x.shape) != 4:
        return None
    kernel, stride, padding = (_pair(v) for v in (kernel, stride or kernel, padding))
    size = _pooled(x.shape[2:], kernel, stride, padding, (1, 1))
    shape = (*x.shape[:2], *size)
    counted = count_include_pad or divisor_override is not None
    pooled = graph.pool(x, "avg_pool", kernel, stride, (*padding, *padding), shape, (counted,))
    if divisor_override is None:
        return pooled
    return graph.binary("mul", pooled, operand(graph, kernel[0] * kernel[1] / divisor_override))


def _pair(value: int | Sequence[int]) -> Sequence[int]:
    if isinstance(value, int):
        return (value, value)
    return tuple(value) * 2 if len(value) == 1 else tuple(value)


def _pooled(size: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[int]:
    return [(n + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i, n in enumerate(size)]


@aten("mm.default", "bmm.default", "matmul.default")
def matmul(graph: Graph, a: Node, b: Node) -> Node:
    return graph.matmul(a, b)


@aten("addmm.default")
def addmm(graph: Graph, bias: Node, a: Node, b: Node, *, beta: float = 1, alpha: float = 1) -> Node | None:
    return graph.binary("add", graph.matmul(a, b), bias) if beta == alpha == 1 else None


@aten("_softmax.default", "softmax.int")
def softmax(graph: Graph, x: Node, dim: int, dtype: bool | torch.dtype | None = None) -> Node | None:
    """The one says whether float16 becomes float32, the other has a type of its own."""
    return graph.softmax(x, dim) if dtype in (None, False, torch.float32) else None


def _reduction(name: str) -> Callable[..., Node | None]:
    def translate(
        graph: Graph, x: Node, dims: Any = None, keep: bool = False, *, dtype: torch.dtype | None = None
    ) -> Node | None:
        if dtype not in (None, torch.float32):
            return None
        axes = [dims] if isinstance(dims, int) else dims or range(len(x.shape))  # no axis means all of them
        return graph.reduce(name, x, list(axes), keep)

    return translate


for _name in ("mean", "sum", "amax", "amin"):
    aten(f"{_name}.dim", f"{_name}.default", f"{_name}.dim_IntList")(_reduction(_name))
