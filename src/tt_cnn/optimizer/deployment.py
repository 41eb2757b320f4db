# SPDX-License-Identifier: Apache-2.0
"""How a model is run: what no layer's configuration says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tt_cnn.builder.overrides import Assignment

FIRST_EXECUTOR = "trace+2cq"
"""The one that models are profiled behind by default."""


@dataclass(frozen=True)
class Deployment:
    """A batch on some chips of a card, behind an executor."""

    card: str = "n150"
    chips: int = 1
    batch_size: int = 1
    """Images of one chip's input."""
    executor: str = FIRST_EXECUTOR

    @property
    def images(self) -> int:
        """Of one input, on all chips."""
        return self.batch_size * self.chips

    def __str__(self) -> str:
        chips = f"{self.chips} chips of {self.card}" if self.chips > 1 else f"one chip of {self.card}"
        return f"batch {self.batch_size} on {chips} behind {self.executor}"


@runtime_checkable
class EndToEnd(Protocol):
    """A predictor that also knows the time between two inputs behind an executor."""

    def input_ns(self, assignment: Assignment, executor: str = FIRST_EXECUTOR) -> float: ...
