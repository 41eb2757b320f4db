# SPDX-License-Identifier: Apache-2.0
"""Host functions that give a number the same bits wherever it lies in a tensor.

Torch computes what fills whole vectors by other code than what is left over at the end of a run, and the two differ in
the last bit for functions that are not rounded exactly (`torch.erf` by Sleef, or by the C library). So that a command
gives the same bits in a trace, where its tensors may lie differently, all runs are filled up to whole vectors here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

VECTOR = 64
"""Numbers that torch's loops take at once, on any machine, divide this."""
GRAIN = 32768
"""Torch gives a thread at least so many."""


def steady(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An element-wise function of float32 tensors (and numbers) made so."""

    def run(*arguments: Any) -> Tensor:
        tensors = [one for one in arguments if isinstance(one, Tensor)]
        if tensors[0].device.type != "cpu":
            return function(*arguments)
        shape = torch.broadcast_shapes(*(one.shape for one in tensors))
        size = shape.numel()
        missing = _filled(size) - size
        filled = [
            torch.nn.functional.pad(one.expand(shape).reshape(-1), (0, missing)) if isinstance(one, Tensor) else one
            for one in arguments
        ]
        return function(*filled)[:size].reshape(shape)

    return run


def ordered(x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Sorted values and where they stood, equal ones in their order and NaN above all numbers.

    GPUs sort by bits: a NaN whose sign is set, as x86 makes them, would come first there. With plain ones they agree.
    """
    if x.is_floating_point() and x.device.type != "cpu":
        x = with_plain_nans(x)
    values, places = torch.sort(x, dim=dim, descending=descending, stable=True)
    return values, places


def with_plain_nans(x: Tensor) -> Tensor:
    """Every NaN as the one whose sign is not set."""
    return torch.where(x.isnan(), math.nan, x)


def _filled(size: int) -> int:
    """The next number of values that all threads get whole vectors of."""
    threads = torch.get_num_threads()
    while True:
        tasks = max(1, min(threads, -(-size // GRAIN)))
        filled = -(-size // (VECTOR * tasks)) * VECTOR * tasks
        if filled == size:
            return filled
        size = filled
