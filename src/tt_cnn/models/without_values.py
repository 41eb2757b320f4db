# SPDX-License-Identifier: Apache-2.0
"""Models built for planning: their weights have shapes, and whatever values their memory happens to hold."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class WithoutValues(TorchFunctionMode):
    """Weights are made, copied and multiplied, and their memory is left as it is found: filling it takes a second."""

    large = 1 << 14
    """Elements. What is smaller may be looked at: anchors, sizes."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if getattr(function, "__module__", "") == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        if function in (torch.Tensor.clone, torch.Tensor.mul) and args[0].numel() >= self.large:
            return torch.empty_like(args[0], memory_format=torch.contiguous_format)
        return function(*args, **named)
