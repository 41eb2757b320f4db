# SPDX-License-Identifier: Apache-2.0
"""What the ops mean, in plain torch: the numbers of `native` numerics and of integer tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.gelu import gelu

Function = Callable[..., Tensor]


def _as(test: Function) -> Function:
    """Tests answer in the dtype of what they test."""
    return lambda x, *rest: test(x, *rest).to(x.dtype)


def _clamp(x: Tensor, lower: float | None = None, upper: float | None = None) -> Tensor:
    return x.clamp(lower, upper)


def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    if eps is not None and eps >= 0:
        x = x.clamp(min(eps, 1 - eps), max(eps, 1 - eps))
    return torch.log(x / (1 - x))


def _hardmish(x: Tensor) -> Tensor:
    return x * (0.5 * x + 1.0).clamp(0.0, 1.0)


def _xielu(x: Tensor, alpha_p: float, alpha_n: float) -> Tensor:
    left = alpha_n * (torch.expm1(x.clamp(max=-1e-6)) - x)
    return torch.where(x > 0, alpha_p * x * x, left) + 0.5 * x


def _rdiv(x: Tensor, value: float, rounding: str | None = None) -> Tensor:
    return torch.div(value, x, rounding_mode=rounding)


def _sigmoid_accurate(x: Tensor) -> Tensor:
    return torch.sigmoid(x)


def _is_negative(x: Tensor) -> Tensor:
    """No NaN is: hosts set their signs or not, as they like."""
    return torch.signbit(x) & ~x.isnan()


def _round(x: Tensor, decimals: int = 0) -> Tensor:
    return torch.round(x, decimals=decimals)


UNARY: dict[str, Function] = {
    "abs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "add_unary": torch.add,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "bitwise_not": torch.bitwise_not,
    "cbrt": lambda x: torch.sign(x) * x.abs().pow(1.0 / 3.0),
    "ceil": torch.ceil,
    "celu": lambda x, alpha=1.0: F.celu(x, alpha),
    "clamp": _clamp,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "deg2rad": torch.deg2rad,
    "digamma": torch.digamma,
    "elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "eqz": _as(lambda x: x == 0),
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "fill": lambda x, value: torch.full_like(x, value),
    "floor": torch.floor,
    "fmod_unary": torch.fmod,
    "frac": torch.frac,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, "tanh"),
    "gez": _as(lambda x: x >= 0),
    "gtz": _as(lambda x: x > 0),
    "hardmish": _hardmish,
    "hardshrink": lambda x, lambd=0.5: F.hardshrink(x, lambd),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardtanh": lambda x, lower=-1.0, upper=1.0: x.clamp(lower, upper),
    "heaviside": lambda x, value: torch.heaviside(x, torch.tensor(value, dtype=x.dtype)),
    "i0": torch.special.i0,
    "i1": torch.special.i1,
    "identity": lambda x: x,
    "isfinite": _as(torch.isfinite),
    "isinf": _as(torch.isinf),
    "isnan": _as(torch.isnan),
    "isneginf": _as(torch.isneginf),
    "isposinf": _as(torch.isposinf),
    "leaky_relu": lambda x, slope=0.01: (
        F.leaky_relu(x, slope) if x.is_floating_point() else x
    ),  # integers here have no sign
    "lez": _as(lambda x: x <= 0),
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "log_sigmoid": F.logsigmoid,
    "logical_not": _as(lambda x: x == 0),
    "logit": _logit,
    "ltz": _as(lambda x: x < 0),
    "maximum_unary": lambda x, value: x.clamp(min=value),
    "minimum_unary": lambda x, value: x.clamp(max=value),
    "mish": F.mish,
    "mul_unary": torch.mul,
    "neg": torch.neg,
    "nez": _as(lambda x: x != 0),
    "polygamma": lambda x, order: torch.polygamma(int(order), x),
    "pow": torch.pow,
    "prelu": lambda x, slope: torch.where(x > 0, x, x * slope),
    "rad2deg": torch.rad2deg,
    "rdiv": _rdiv,
    "reciprocal": torch.reciprocal,
    "relu": torch.relu,
    "relu6": lambda x: x.clamp(0, 6),
    "relu_max": lambda x, upper: x.clamp(0, upper),
    "relu_min": lambda x, lower: x.clamp(min=max(lower, 0)),
    "remainder_unary": torch.remainder,
    "round": _round,
    "rpow": lambda x, base: torch.pow(base, x),
    "rsqrt": torch.rsqrt,
    "selu": lambda x, scale=1.0507, alpha=1.67326: scale * torch.where(x > 0, x, alpha * torch.expm1(x)),
    "sigmoid": torch.sigmoid,
    "sigmoid_accurate": _sigmoid_accurate,
    "sign": torch.sign,
    "signbit": _as(_is_negative),
    "silu": F.silu,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "softplus": lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold),
    "softshrink": lambda x, lambd=0.5: F.softshrink(x, lambd),
    "softsign": F.softsign,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "sub_unary": torch.sub,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "tanhshrink": F.tanhshrink,
    "threshold": lambda x, limit, value: F.threshold(x, limit, value),
    "trunc": torch.trunc,
    "xielu": _xielu,
}

BINARY: dict[str, Function] = {
    "add": torch.add,
    "sub": torch.sub,
    "rsub": lambda a, b: b - a,
    "mul": torch.mul,
    "div": torch.div,
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": _as(torch.eq),
    "ne": _as(torch.ne),
    "lt": _as(torch.lt),
    "le": _as(torch.le),
    "gt": _as(torch.gt),
    "ge": _as(torch.ge),
    "logical_and": _as(torch.logical_and),
    "logical_or": _as(torch.logical_or),
    "logical_xor": _as(torch.logical_xor),
    "squared_difference": lambda a, b: (a - b) * (a - b),
    "pow": torch.pow,
    "ldexp": lambda a, b: a * torch.exp2(b),
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "bias_gelu": lambda a, b: gelu(a + b),
    "hypot": torch.hypot,
    "xlogy": torch.xlogy,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
    "gcd": torch.gcd,
    "lcm": torch.lcm,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "left_shift": torch.bitwise_left_shift,
    "right_shift": torch.bitwise_right_shift,
}
