# SPDX-License-Identifier: Apache-2.0
"""Statements that compute each element by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import zip_longest

from tests.differential.drawing import ACTIVATIONS, Drawing, Info

SMOOTH = (
    "relu", "relu6", "sigmoid", "tanh", "silu", "gelu", "mish", "hardswish", "hardsigmoid", "elu", "selu", "celu",
    "softplus", "softsign", "abs", "neg", "square", "sin", "cos", "erf", "tanhshrink", "identity", "swish",
    "softshrink", "log_sigmoid", "exp", "exp2", "expm1", "sigmoid_accurate", "hardtanh", "atan", "asinh", "erfc",
    "hardmish", "cosh", "sinh", "i1", "xielu",
)  # fmt: skip
JUMPING = (
    "floor", "ceil", "round", "trunc", "frac", "sign", "eqz", "nez", "gtz", "ltz", "gez", "lez", "isfinite", "isinf",
    "isnan", "isposinf", "isneginf", "logical_not", "signbit", "hardshrink", "log", "log2", "log10", "log1p", "sqrt",
    "rsqrt", "reciprocal", "acos", "asin", "atanh", "acosh", "erfinv", "cbrt", "tan", "lgamma", "digamma", "i0",
    "logit", "deg2rad", "rad2deg",
)  # fmt: skip
WITH_NUMBER = (
    "leaky_relu({0}, {1})", "clamp({0}, -0.5, {1})", "relu_max({0}, {1})", "relu_min({0}, {1})", "elu({0}, alpha={1})",
    "add({0}, {1})", "multiply({0}, {1})", "subtract({0}, {1})", "rsub({0}, {1})", "maximum({0}, {1})",
    "minimum({0}, {1})", "div({0}, {1})", "hardtanh({0}, min_val=-{1}, max_val={1})", "add({0}, 0.0)",
    "multiply({0}, 1.0)", "subtract({0}, 0.0)", "softplus({0}, beta={1}, threshold=10.0)", "celu({0}, alpha={1})",
    "softshrink({0}, lambd={1})", "mac({0}, {1}, 0.5)", "mac({0}, {0}, {1})", "lerp({0}, {0}, {1})",
    "addalpha({0}, {0}, {1})", "addcmul({0}, {0}, {0}, value={1})", "subalpha({0}, {0}, {1})", "prelu({0}, 0.25)",
    "clip({0}, -0.5, {1})", "rpow({0}, {1})", "fill({0}, {1})", "full_like({0}, {1})", "zeros_like({0})",
    "ones_like({0})",
    "unary_chain({0}, [ttnn.UnaryWithParam(ttnn.UnaryOpType.NEG), ttnn.UnaryWithParam(ttnn.UnaryOpType.SIGMOID)])",
)  # fmt: skip
JUMPING_WITH_NUMBER = (
    "gt({0}, {1})", "lt({0}, {1})", "ge({0}, {1})", "le({0}, {1})", "eq({0}, 1.0)", "ne({0}, 0.0)", "pow({0}, 2.0)",
    "pow({0}, 3)", "rdiv({0}, {1})", "heaviside({0}, {1})", "threshold({0}, {1}, 0.25)", "remainder({0}, {1})",
    "fmod({0}, {1})", "hardshrink({0}, lambd={1})", "addcdiv({0}, {0}, {0}, value={1})", "floor_div({0}, {1})",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "squared_difference", "rsub", "add", "multiply")
JUMPING_BINARY = (
    "gt", "lt", "eq", "ne", "ge", "le", "div", "logical_and", "logical_or", "logical_xor", "atan2", "hypot", "fmod",
    "remainder", "xlogy", "floor_div", "divide", "ldexp",
)  # fmt: skip
SMOOTH_BINARY = ("logaddexp", "logaddexp2", "bias_gelu", "sub", "mul")
OF_INTEGERS = (
    "add",
    "subtract",
    "multiply",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "maximum",
    "minimum",
    "gt",
    "gcd",
    "lcm",
)
OF_AN_INTEGER = ("bitwise_not({0})", "bitwise_left_shift({0}, 2)", "bitwise_right_shift({0}, 1)")
IN_PLACE = (
    "add_", "subtract_", "multiply_", "rsub_", "sub_", "mul_", "squared_difference_", "logaddexp_", "bias_gelu_",
)  # fmt: skip
JUMPING_IN_PLACE = (
    "div_", "divide_", "eq_", "ne_", "ge_", "gt_", "le_", "lt_", "ldexp_", "logical_and_", "logical_or_",
    "logical_xor_",
)  # fmt: skip
GATED = ("glu", "geglu", "reglu", "swiglu")
SELECTING = (
    "relu",
    "relu6",
    "abs",
    "neg",
    "identity",
    "hardtanh",
    "sign",
    "maximum",
    "minimum",
    "relu_max",
    "relu_min",
)
"""They make no new numbers."""


def unary(draw: Drawing) -> None:
    x = draw.pick(draw.is_float)
    if x is None:
        return
    jumps = draw.free_to_jump(x) and draw.random.random() < 0.4
    numbered = draw.random.random() < 0.35
    if numbered:
        form = draw.random.choice(JUMPING_WITH_NUMBER if jumps else WITH_NUMBER)
    else:
        form = draw.random.choice(JUMPING if jumps else SMOOTH) + "({0})"
    exact = draw.infos[x].exact and form.split("(")[0] in SELECTING
    draw.make("ttnn." + form.format(x, draw.number()), exact, draw.image_like(x))


def binary(draw: Drawing) -> None:
    a = draw.pick(draw.is_float)
    if a is None:
        return
    shape = draw.shape(a)
    b = a if draw.random.random() < 0.15 else draw.pick(lambda n: draw.is_float(n) and _fits(draw, n, shape))
    if b is None:
        return
    if draw.random.random() < 0.3:
        a, b = b, a
    names, both = BINARY, draw.free_to_jump(a) and draw.free_to_jump(b)
    if both and draw.random.random() < 0.25:
        names = JUMPING_BINARY
    elif draw.random.random() < 0.05:
        names = SMOOTH_BINARY
    name = draw.random.choice(names)
    more = ""
    if draw.random.random() < 0.15:
        more = f", activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.{draw.random.choice(ACTIVATIONS)})]"
    exact = name in SELECTING and not more and draw.infos[a].exact and draw.infos[b].exact
    image = draw.image_like(a) if draw.shape(a) == shape else draw.image_like(b)
    draw.make(f"ttnn.{name}({a}, {b}{more})", exact, image if shape in (draw.shape(a), draw.shape(b)) else None)


def _fits(draw: Drawing, name: str, shape: tuple[int, ...]) -> bool:
    """Whether the two are broadcast to something that is not too large."""
    pairs = [*zip_longest(reversed(draw.shape(name)), reversed(shape), fillvalue=1)]
    return all(m == n or 1 in (m, n) for m, n in pairs) and math.prod(map(max, pairs)) <= draw.taste.largest


def in_place(draw: Drawing) -> None:
    """On the state, on an input (which is written again before the next replay), or on something of the trace's own."""
    state = [n for n in draw.infos if n.startswith("s")]
    if state and draw.random.random() < 0.5:
        a: str | None = state[0]
    else:
        a = draw.pick(lambda n: not n.startswith("c") and draw.is_float(n))
    b = None if a is None else draw.pick(lambda n: n != a and draw.dtype(n) == draw.dtype(a) and _same(draw, n, a))
    if a is None or b is None:
        return
    pick = draw.random.random() if draw.is_float(a) else 0.0
    # what grows with every replay would soon be infinite
    names = ("add_", "subtract_", "rsub_") if a.startswith("s") else IN_PLACE if draw.is_float(a) else IN_PLACE[:4]
    if not a.startswith("s") and draw.is_float(a) and draw.free_to_jump(a) and draw.free_to_jump(b):
        names += JUMPING_IN_PLACE
    if pick < 0.6:
        statement = f"ttnn.{draw.random.choice(names)}({a}, {b})"
    elif pick < 0.8:
        statement = f"ttnn.{draw.random.choice(('relu', 'sigmoid', 'tanh'))}({b}, output_tensor={a})"
    elif pick < 0.88:
        statement = f"ttnn.add({a}, {b}, output_tensor={a})"
    elif pick < 0.92:
        statement = f"ttnn.softmax_in_place({a})"
    elif pick < 0.95:
        statement = f"ttnn.assign({b}, {a})"
    elif pick < 0.97:
        statement = f"ttnn.logical_not_({a})" if draw.free_to_jump(a) else f"ttnn.multiply_({a}, 0.5)"
    else:
        statement = f"ttnn.copy({b}, {a})"
    if draw.attempt(statement, None, Info(False)):
        for name, tensor in draw.names.items():  # views of it are changed too
            if name in draw.infos and tensor._buffer is draw.names[a]._buffer:
                draw.infos[name] = replace(draw.infos[name], exact=False)


def _same(draw: Drawing, one: str, other: str) -> bool:
    return draw.shape(one) == draw.shape(other)


def integers(draw: Drawing) -> None:
    a = draw.pick(lambda n: not draw.is_float(n))
    if a is None:
        x = draw.pick(lambda n: draw.is_float(n) and draw.infos[n].exact)
        if x is not None:
            draw.make(f"ttnn.typecast({x}, ttnn.{draw.random.choice(('int32', 'uint32', 'uint16'))})", True)
        return
    if draw.random.random() < 0.3:
        draw.make(f"ttnn.typecast({a}, ttnn.{draw.random.choice(('bfloat16', 'float32', 'int32'))})", True)
        return
    if draw.random.random() < 0.15:
        draw.make("ttnn." + draw.random.choice(OF_AN_INTEGER).format(a), True)
        return
    b = draw.pick(lambda n: draw.dtype(n) == draw.dtype(a) and _fits(draw, n, draw.shape(a)))
    if b is not None:
        draw.make(f"ttnn.{draw.random.choice(OF_INTEGERS)}({a}, {b})", True)


def selection(draw: Drawing) -> None:
    c = draw.pick(lambda n: draw.is_float(n) and draw.free_to_jump(n))
    x = None if c is None else draw.pick(lambda n: draw.is_float(n) and draw.shape(n) == draw.shape(c))
    y = None if c is None else draw.pick(lambda n: draw.is_float(n) and draw.shape(n) == draw.shape(c))
    if c and x and y:
        draw.make(f"ttnn.where({c}, {x}, {y})", draw.infos[x].exact and draw.infos[y].exact, draw.image_like(x))


def gated(draw: Drawing) -> None:
    """One half times a function of the other; halves are whole tiles."""
    x = draw.pick(lambda n: draw.is_float(n) and len(draw.shape(n)) == 4 and draw.shape(n)[-1] % 64 == 0)
    if x is not None:
        draw.make(f"ttnn.{draw.random.choice(GATED)}({x}, -1)")
