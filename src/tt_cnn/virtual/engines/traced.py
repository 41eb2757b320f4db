# SPDX-License-Identifier: Apache-2.0
"""What an engine sees of a trace: commands, and the cells that they read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch

from tt_cnn.virtual.errors.failures import Failure

Values = list[torch.Tensor] | Failure | None
"""One tensor for each chip; the failure of the command that should have written them; None where nothing has."""


class TracedCell(Protocol):
    """The values behind one buffer."""

    values: Values


class TracedCommand(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> Sequence[TracedCell]: ...

    @property
    def writes(self) -> Sequence[TracedCell]: ...

    def run(self) -> None:
        """Compute, from the values in `reads` to those in `writes`."""

    def execute(self) -> None:
        """The same, where a failure stands in all that should have been written, and is raised."""


def viewed(value: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Values that were written under another shape: the same memory, in the same order.

    Shards may be longer than the rows that they hold, and a view may have less of such padding, or more.
    """
    if value.shape == shape:
        return value
    missing = math.prod(shape) - value.numel()
    if not missing:
        return value.reshape(shape)
    flat = value.reshape(-1)
    return (flat[:missing] if missing < 0 else torch.nn.functional.pad(flat, (0, missing))).reshape(shape)


def contiguous(value: torch.Tensor) -> torch.Tensor:
    """Without a call of torch where nothing is to be done: it would let other threads' Python go first."""
    return value if value.is_contiguous() else value.contiguous()
