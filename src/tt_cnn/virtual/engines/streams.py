# SPDX-License-Identifier: Apache-2.0
"""Streams of a GPU: those of the queue that a thread works for, and values that must outlive it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch

MOST_AT_ONCE, BYTES_AT_ONCE, MOST_KINDS = 16, 1 << 19, 16
"""Host tensors that share a block of pinned memory, which goes with the last of them."""
on_gpus: weakref.WeakSet[object] = weakref.WeakSet()
here = threading.local()
"""`streams` are those of the queue that this thread works for."""


def used_here(value: torch.Tensor) -> None:
    """Keep the memory of a value on a GPU, which another queue may have made, until this queue is done with it."""
    own: Streams | None = getattr(here, "streams", None)
    if own is not None:
        value.record_stream(own.work)


def from_host(value: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
    value.of_host = host  # type: ignore[attr-defined]
    return value


def on_host(value: torch.Tensor) -> torch.Tensor | None:
    """The same values in the host's memory, where they were uploaded and nothing has been computed with them since: the
    host can look at them without waiting for the GPU. They are given only once."""
    host: torch.Tensor | None = getattr(value, "of_host", None)
    if host is not None:
        value.of_host = None  # type: ignore[attr-defined]
    return host


def pinned(host: torch.Tensor) -> torch.Tensor:
    """In pinned memory. Asking the driver whether it lies there takes as long as a launch, so each is asked once."""
    if getattr(host, "is_in_pinned_memory", False):
        return host
    there = host.pin_memory()
    there.is_in_pinned_memory = True  # type: ignore[attr-defined]
    return there


def in_host_memory(value: torch.Tensor) -> torch.Tensor:
    """A host tensor's values where a card reads them best: in pinned memory while there is an engine on a GPU."""
    return value.pin_memory() if on_gpus else value


_Event: Any = torch.cuda.Event.__base__
"""The same without a Python function around each of its own."""


def event_after(stream: Any) -> Any:
    """A mark after all that a stream has."""
    event = _Event()
    event.record(stream)
    return event


class Streams:
    """Of a queue: one for its work, and one for reads to the host, which nothing on the card waits for."""

    def __init__(self, device: torch.device) -> None:
        self.work, self.reads = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.names_of_work, self.names_of_reads = _names(self.work), _names(self.reads)
        self.marked: Any = None
        """An event after all of `work`; None where more was launched, or is waited for, since the last one."""
        self.last_read: Any = None
        """An event after the last read."""
        self._host_memory: dict[Any, list[torch.Tensor]] = {}
        """Places for reads to come."""
        self.reads_since_stamp = False

    def mark(self) -> Any:
        if self.marked is None:
            self.marked = event_after(self.work)
        return self.marked

    def wait_for(self, event: Any) -> None:
        event.wait(self.work)
        self.marked = None

    def host_like(self, value: torch.Tensor) -> torch.Tensor:
        """A new tensor in pinned memory. Small ones are made several at once, since each takes as long as a launch."""
        kind = value.shape, value.dtype
        ready = self._host_memory.get(kind)
        if not ready:
            number = max(1, min(MOST_AT_ONCE, BYTES_AT_ONCE // max(1, value.nbytes)))
            block = torch.empty((number, *value.shape), dtype=value.dtype, pin_memory=True)
            if len(self._host_memory) >= MOST_KINDS:
                self._host_memory.clear()
            ready = self._host_memory[kind] = list(block.unbind())
        return ready.pop()


def _names(stream: torch.cuda.Stream) -> tuple[int, int, int]:
    """As `set_stream` takes them; the stream itself makes them again every time."""
    return stream.stream_id, stream.device_index, stream.device_type


class QueueScope:
    """Work of this thread goes to a queue's stream. Entered for every command, so it takes as little as it can: what
    `torch.cuda.stream` calls itself, without the objects around it."""

    __slots__ = ("_inference", "_outside", "_streams")

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def __enter__(self) -> None:
        own = self._streams
        self._outside = getattr(here, "streams", None), _current_stream(own.work.device_index)
        here.streams = own
        own.marked = None
        set_stream(*own.names_of_work)
        self._inference = torch._C._InferenceMode(True)
        self._inference.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._inference.__exit__(None, None, None)
        here.streams, stream = self._outside
        set_stream(*stream)


class QueueScopes:
    """The scopes of all queues of an engine, entered once for several commands; `on` says whose is next."""

    __slots__ = ("_inference", "_now", "_outside", "_queues")

    def __init__(self, queues: Sequence[Streams]) -> None:
        self._queues = queues
        self._now: Streams | None = None

    def __enter__(self) -> None:
        self._outside = getattr(here, "streams", None), _current_stream(self._queues[0].work.device_index)
        self._inference = torch._C._InferenceMode(True)
        self._inference.__enter__()

    def on(self, queue: int) -> None:
        own = self._queues[queue]
        own.marked = None
        if own is not self._now:
            self._now = here.streams = own
            set_stream(*own.names_of_work)

    def __exit__(self, *error: Any) -> None:
        self._inference.__exit__(None, None, None)
        self._now = None
        here.streams, stream = self._outside
        set_stream(*stream)


def _current_stream(device: int) -> tuple[int, int, int]:
    found: tuple[int, int, int] = torch._C._cuda_getCurrentStream(device)
    return found


def set_stream(stream: int, device: int, kind: int) -> None:
    torch._C._cuda_setStream(stream_id=stream, device_index=device, device_type=kind)
