# SPDX-License-Identifier: Apache-2.0
"""The engine of a GPU."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch

from tt_cnn.virtual.engines.engine import EIGHT_BIT, MAX_QUEUES, Engine
from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.streams import (
    QueueScope,
    QueueScopes,
    Streams,
    event_after,
    from_host,
    here,
    on_gpus,
    pinned,
    set_stream,
)
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand
from tt_cnn.virtual.numerics.primitive import compiled

_E4M3_FROM = (8, 9)
"""The compute capability from which GPUs multiply e4m3 numbers."""


@cache
def say_without_triton() -> None:
    """Once in a process: all that follows is slow, and nothing else would say why."""
    warnings.warn(
        "Triton was not found, so the card's units are followed in torch, a hundred times slower; pip install triton",
        RuntimeWarning,
        stacklevel=2,
    )


class CudaEngine(Engine):
    """Torch on CUDA. A queue is a pair of streams; a mark is a pair of CUDA events: of what the queue has computed, and
    of what it has read to the host."""

    streams = True

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        if not torch.cuda.is_available():
            raise RuntimeError("engine='cuda' was asked for, but torch sees no CUDA device; use engine='cpu'")
        self.device = torch.device("cuda", torch.cuda.current_device())
        on_gpus.add(self)
        self._queues = [Streams(self.device) for _ in range(MAX_QUEUES)]
        self._start: Any = None
        """What stamps are counted from: the first of them."""
        self.precision: EightBits | None = None
        self._followed = self._functions() if numerics == "exact" else None

    @staticmethod
    def _functions() -> Mapping[str, Callable[..., torch.Tensor]]:
        """What `exact` numerics calls in place of the torch functions that define it."""
        if importlib.util.find_spec("triton") is None:
            say_without_triton()
            return {}
        from tt_cnn.virtual.engines.replay.cuda.exact.registers import FOLLOWED  # with Triton, which is optional

        return FOLLOWED

    def allow(self, precision: EightBits) -> None:
        if precision.name != "fp8":
            raise ValueError(
                f"precision={precision.name!r} was asked for with engine='cuda'; {EIGHT_BIT[precision.name]}; "
                "on a GPU it is precision='fp8'"
            )
        if self.numerics != "native":
            raise ValueError(f"precision='fp8' was asked for with numerics={self.numerics!r}; {EIGHT_BIT['fp8']}")
        capability = torch.cuda.get_device_capability(self.device)
        if capability < _E4M3_FROM:
            raise RuntimeError(
                "precision='fp8' needs a GPU that multiplies e4m3 numbers, of compute capability "
                f"{'.'.join(map(str, _E4M3_FROM))} or more; {torch.cuda.get_device_name(self.device)} has "
                f"{'.'.join(map(str, capability))}; leave precision out to replay in 16 bits"
            )
        if importlib.util.find_spec("triton") is None:
            raise RuntimeError(
                "precision='fp8' needs Triton, which compiles its kernels, and it is not there; pip install triton, or "
                "leave precision out to replay the commands one by one"
            )
        self.precision = precision

    def scope(self, queue: int) -> AbstractContextManager[Any]:
        scope = QueueScope(self._queues[queue])
        return scope if self._followed is None else self._following(scope, self._followed)

    def scope_of_all(self) -> QueueScopes | None:
        return QueueScopes(self._queues) if self._followed is None else None

    @staticmethod
    @contextmanager
    def _following(scope: QueueScope, functions: Mapping[str, Callable[..., torch.Tensor]]) -> Iterator[None]:
        with scope, compiled(functions):
            yield

    @property
    def _streams(self) -> Streams | None:
        """Those of the queue that this thread works for."""
        return getattr(here, "streams", None)

    def mark(self, queue: int) -> Any:
        own = self._queues[queue]
        return own.mark(), own.last_read

    def mark_of_reads(self, queue: int) -> Any:
        own = self._queues[queue]
        return None, own.last_read

    def after(self, mark: Any, queue: int) -> None:
        """Reads leave the card as it is, so other queues need not wait for them."""
        self._queues[queue].wait_for(mark[0])

    def finish(self, mark: Any) -> None:
        for event in mark or ():
            if event is not None:
                event.synchronize()

    def stamp(self) -> Any:
        """On the stream of the reads where the queue has read since the last one."""
        own = self._streams
        assert own is not None, "stamps are made by a queue"
        event = torch.cuda.Event(enable_timing=True)
        event.record(own.reads if own.reads_since_stamp else own.work)
        own.reads_since_stamp = False
        if self._start is None:
            event.synchronize()
            self._start = event
        return event

    def seconds(self, stamp: Any) -> float:
        stamp.synchronize()
        return float(self._start.elapsed_time(stamp)) / 1000

    def replay(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> Callable[[], None]:
        """With `native` numerics, a CUDA graph of kernels of 16 bits; with `exact`, of what the commands launch. The
        commands themselves where Triton lacks."""
        if self._followed:
            from tt_cnn.virtual.engines.replay.cuda.exact.replay import FollowedReplay  # with Triton, which is optional

            return FollowedReplay(commands, outputs)
        if self.numerics != "native" or importlib.util.find_spec("triton") is None:
            return super().replay(commands, outputs)
        from tt_cnn.virtual.engines.replay.cuda.replay import CudaReplay, Fp8Replay  # with Triton, which is optional

        if self.precision is not None:
            return Fp8Replay(commands, outputs, self.precision)
        return CudaReplay(commands, outputs)

    def captured(self, replay: Callable[[], None]) -> Callable[[], None] | None:
        return getattr(replay, "note_values", None)

    def in_host_order(self, function: Callable[..., Sequence[torch.Tensor]]) -> Callable[..., Sequence[torch.Tensor]]:
        """`exact` numerics has the CPU's bits, so it is the CPU that computes them."""
        if self.numerics != "exact":
            return function

        def on_the_cpu(*values: torch.Tensor) -> list[torch.Tensor]:
            return [one.to(self.device) for one in function(*(value.cpu() for value in values))]

        return on_the_cpu

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        """On a queue through pinned memory, which torch keeps until the copy is done. Others are not ordered with
        the queues: what they upload is there when this returns, and stays until all queues are done with it."""
        if self._streams is not None:
            return from_host(pinned(host).to(self.device, non_blocking=True), host)
        value = from_host(host.to(self.device), host)
        torch.cuda.current_stream(self.device).synchronize()
        for queue in self._queues:
            value.record_stream(queue.work)
        return value

    def download(self, value: torch.Tensor) -> torch.Tensor:
        """Into pinned memory, on a stream of its own: the queue goes on. A mark says when the values are there."""
        own = self._streams
        assert own is not None, "reads are done by a queue"
        host = own.host_like(value)
        own.mark().wait(own.reads)
        set_stream(*own.names_of_reads)
        try:
            host.copy_(value, non_blocking=True)
            own.last_read = event_after(own.reads)
        finally:
            set_stream(*own.names_of_work)
        value.record_stream(own.reads)
        own.reads_since_stamp = True
        return host
