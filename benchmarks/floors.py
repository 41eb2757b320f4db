# SPDX-License-Identifier: Apache-2.0
"""What no engine can be below: the time of a model's products alone, at the rate that this processor reaches now."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch
from torch import nn

from tt_cnn.virtual.kernel_library import library

SAVED_BY_WINOGRAD = 4
"""F(4x4, 3x3) takes 36 products for 16 results in place of 144."""
_PEAKS = {"float32": ("kernels", "products_of_floats"), "int8": ("bytes", "products_of_bytes")}
ROUNDS = 5


def products_per_second(kind: str) -> float:
    """All threads together, from registers and the first cache."""
    name, function = _PEAKS[kind]
    peak = getattr(library(name), function)
    peak.restype = ctypes.c_double
    return float(max(peak(ctypes.c_int64(torch.get_num_threads())) for _ in range(ROUNDS)))


def products_of(model: nn.Module, example: torch.Tensor, winograd: bool = False) -> float:
    """The multiplications of convolutions and linear layers; with `winograd`, of 3x3 kernels those that it leaves."""
    total = 0.0

    def count(module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.ConvTranspose2d):
            products = inputs[0].numel() * math.prod(module.weight.shape[1:])
        else:
            products = output.numel() * math.prod(module.weight.shape[1:])
        plain = isinstance(module, nn.Conv2d) and module.kernel_size == (3, 3) and module.stride == (1, 1)
        saves = winograd and plain and module.groups == 1 and module.dilation == (1, 1)
        total += products / (SAVED_BY_WINOGRAD if saves else 1)

    layers = [one for one in model.modules() if isinstance(one, nn.Conv2d | nn.ConvTranspose2d | nn.Linear)]
    hooks = [one.register_forward_hook(count) for one in layers]
    try:
        with torch.inference_mode():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return total
