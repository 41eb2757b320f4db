# SPDX-License-Identifier: Apache-2.0
"""What the routes see of a served model, wherever it runs: in this process, in one of its own, or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

Outputs = tuple[torch.Tensor, ...]
State = Literal["loading", "ready", "failed", "stopped"]


class NotServed(RuntimeError):
    """The model cannot take the request now: `status` is 429 where it may be tried again at once, else 503."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class CannotUpdate(RuntimeError):
    """The model is served as before: there is no other place for a new one, or it cannot be loaded."""


@dataclass(frozen=True)
class Signature:
    """What goes in and what comes out."""

    input_name: str
    input_shape: tuple[int, ...]
    """Of one image, as a batch."""
    outputs: Mapping[str, tuple[int, ...]]
    """Their shapes for one image."""


class Served(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def state(self) -> State: ...

    @property
    def reason(self) -> str:
        """Why it is not ready; empty where it is."""

    @property
    def signature(self) -> Signature | None:
        """Known once it was ready."""

    def start(self) -> None:
        """Begin to load it."""

    def stop(self) -> None:
        """Refuse what comes from now on, answer what waits, close the card."""

    def submit(self, images: torch.Tensor) -> Future[Outputs]:
        """The outputs of these images, once they went through. `NotServed` where it cannot take them."""

    def update(self) -> None:
        """Load the model and its weights again, and go on with those. `CannotUpdate` where that does not work."""
