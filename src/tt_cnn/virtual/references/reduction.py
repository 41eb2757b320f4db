# SPDX-License-Identifier: Apache-2.0
"""Reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tt_cnn.virtual.references.registry import golden


def _dims(x: Tensor, dim: Any) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(x.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _reduction(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(input_tensor: Tensor, dim: Any = None, keepdim: bool = False, scalar: float = 1.0, **_: Any) -> Tensor:
        return reduce(input_tensor.float(), _dims(input_tensor, dim), keepdim) * scalar

    return function


golden("sum")(_reduction(torch.sum))
golden("mean")(_reduction(torch.mean))
golden("max")(_reduction(torch.amax))
golden("min")(_reduction(torch.amin))


def _spread(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(
        input_tensor: Tensor, dim: Any = None, keepdim: bool = False, correction: bool | None = None, **_: Any
    ) -> Tensor:
        by = 1 if correction is None else int(correction)
        return reduce(input_tensor.float(), _dims(input_tensor, dim), correction=by, keepdim=keepdim)

    return function


golden("var")(_spread(torch.var))
golden("std")(_spread(torch.std))


@golden("argmax")
def _argmax(input_tensor: Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> Tensor:
    return torch.argmax(input_tensor.float(), dim=dim, keepdim=keepdim)
