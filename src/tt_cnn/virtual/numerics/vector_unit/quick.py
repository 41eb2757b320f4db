# SPDX-License-Identifier: Apache-2.0
"""Host functions that stand in for long kernels when the last bit does not matter.

Only kernels whose own error is well below the rounding of a bfloat16 register are replaced: what is left is that
rounding, which is kept. Kernels that truncate, saturate early or are short anyway have no stand-in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor

from tt_cnn.virtual.numerics.gelu import gelu
from tt_cnn.virtual.numerics.steady import steady

_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "celu": functional.celu,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "elu": functional.elu,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, "tanh"),
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "mish": functional.mish,
    "reciprocal": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "swish": functional.silu,
    "tan": torch.tan,
    "tanh": torch.tanh,
}
_ROUNDED_EXACTLY = ("reciprocal", "rsqrt", "sqrt")
HOST_FUNCTIONS = {name: f if name in _ROUNDED_EXACTLY else steady(f) for name, f in _FUNCTIONS.items()}
