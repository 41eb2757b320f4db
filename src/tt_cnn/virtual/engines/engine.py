# SPDX-License-Identifier: Apache-2.0
"""The engine of a card: where values live, how queues map to the host's own streams, and which numerics hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch

from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.streams import QueueScopes
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand
from tt_cnn.virtual.errors.failures import run_commands
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.types.enums import DataType

NUMERICS = ("device", "exact", "native")
EIGHT_BIT = {
    "int8": "use it with numerics='native' and engine='cpu', 'openvino' or 'onnxruntime'",
    "fp8": "use it with numerics='native' and engine='cuda'",
}
"""What each precision is for."""
MAX_QUEUES = 2
"""Of a card."""


class Engine:
    """Torch on the CPU. A queue is a thread."""

    streams = False
    """Jobs only launch work, which goes on by itself: marks tell when it is done."""

    def __init__(self, numerics: str) -> None:
        if numerics not in NUMERICS:
            raise ValueError(f"numerics is {numerics!r}; it must be one of {', '.join(NUMERICS)}")
        self.numerics = numerics
        self.device = torch.device("cpu")

    def allow(self, precision: EightBits) -> None:
        """Let replays compute in 8 bits."""
        name = precision.name
        raise ValueError(f"precision={name!r} is for compiled traces, which this engine has not; {EIGHT_BIT[name]}")

    def scope(self, queue: int) -> AbstractContextManager[Any]:
        """Where the jobs of a queue run."""
        return torch.inference_mode()

    def scope_of_all(self) -> QueueScopes | None:
        """Where the jobs of all queues run, for several of them in a row; None where each needs a scope of its own."""
        return None

    def mark(self, queue: int) -> Any:
        """A mark after all that a queue has launched."""
        return None

    def mark_of_reads(self, queue: int) -> Any:
        """A mark after what a queue has downloaded."""
        return None

    def after(self, mark: Any, queue: int) -> None:
        """Order what follows on a queue after a mark of another."""

    def finish(self, mark: Any) -> None:
        """Block the caller until a mark is reached."""

    def stamp(self) -> Any:
        """The time at which this queue gets here; `seconds` says when that was."""
        return time.perf_counter()

    def seconds(self, stamp: Any) -> float:
        """A stamp in seconds, from a start that all queues share. Waits for it where it lies ahead."""
        return float(stamp)

    def replay(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> Callable[[], None]:
        """What a replay of a trace runs: its commands, one after the other."""
        return partial(run_commands, commands)

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        """What the queue must do at the end of a capture, after all that was enqueued before it."""
        return None

    def pack(self, value: torch.Tensor, dtype: DataType) -> torch.Tensor:
        """Round to what the card's packer stores; `native` numerics keeps what the host computed."""
        if dtype.is_float and self.numerics == "native":
            return value
        return pack(value, dtype)

    def in_host_order(self, function: Callable[..., Sequence[torch.Tensor]]) -> Callable[..., Sequence[torch.Tensor]]:
        """A function of values whose last bits hang on the order in which its host adds up."""
        return function

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """Values are never changed in place, so card and host may share them."""
        return host

    def download(self, value: torch.Tensor) -> torch.Tensor:
        """The values are there once a mark of the queue, or of its reads, is reached that is made after this call."""
        return value
