# SPDX-License-Identifier: Apache-2.0
"""What is measured: something that takes images and gives the model's outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

Outputs = tuple[torch.Tensor, ...]


class Subject(ABC):
    """From NCHW float32 images in ordinary memory to outputs in ordinary memory: conversions count for all."""

    name: str
    compile_seconds: float = 0.0

    @abstractmethod
    def run(self, batches: Sequence[torch.Tensor]) -> list[Outputs]:
        """The outputs for each batch, in order."""

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Give back what it holds."""
