# SPDX-License-Identifier: Apache-2.0
"""GELU as torch computes it, but right at infinity on every machine.

Some builds of torch (2.11 with AVX-512) give NaN for the GELU of infinity in float32 and bfloat16; it is infinity.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.primitive import is_noting


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    y = F.gelu(x, approximate=approximate)
    if is_noting() or _torch_is_right():  # a noted GELU is one operation, and engines compute it by this function
        return y
    return torch.where(x == math.inf, x, y)


@functools.cache
def _torch_is_right() -> bool:
    infinities = torch.full((64,), math.inf)
    return bool(F.gelu(infinities).isinf().all()) and bool(F.gelu(infinities, approximate="tanh").isinf().all())
