# SPDX-License-Identifier: Apache-2.0
"""Where values live: a cell on the card for each buffer, a cell on the host for each host tensor.

Values are torch tensors in the padded shape, one for each chip. They are never changed in place: a write puts a new
tensor into the cell. Floating formats are carried as float32 numbers that the format can hold exactly, so that the
host computes with them at full speed.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import torch

from tt_cnn.interrupts import enter, gives_back, in_destructor, leave
from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.engines import Engine, used_here
from tt_cnn.virtual.engines.traced import Values, viewed
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.errors.failures import Failure
from tt_cnn.virtual.hazards.hazards import HazardChecker
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.threads.forks import LostLock, belongs_to_this_process, refuse
from tt_cnn.virtual.threads.latch import Latch
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.tensor_spec import Spec

CARRIER: dict[DataType, torch.dtype] = {
    DataType.BFLOAT16: torch.float32,
    DataType.FLOAT32: torch.float32,
    DataType.BFLOAT8_B: torch.float32,
    DataType.BFLOAT4_B: torch.float32,
    DataType.UINT32: torch.int64,
    DataType.INT32: torch.int32,
    DataType.UINT16: torch.int32,
    DataType.UINT8: torch.uint8,
    DataType.INT8: torch.int8,
}


class Contents(Enum):
    """What is known of a cell's values, counting the commands that are enqueued."""

    NOTHING = "nothing has written them"
    WRITTEN = "they were written"
    FORMER = "they are those of the buffer that lay there before, which a trace uses"
    LOST = "something else was written over them"


class Cell:
    """The values behind one device buffer. Commands hold cells, so data outlives an early deallocation."""

    __slots__ = ("contents", "lost_to", "place", "spec", "values")

    def __init__(self, place: Place, spec: Spec) -> None:
        self.place = place
        self.spec = spec
        self.values: Values = None
        self.contents = Contents.NOTHING
        self.lost_to = ""
        """Who wrote over the values, in words."""

    @property
    def written(self) -> bool:
        return self.contents is Contents.WRITTEN

    def will_be_written(self) -> None:
        """A command that writes it is enqueued."""
        self.contents = Contents.WRITTEN

    def __str__(self) -> str:
        return f"a tensor of shape {self.spec.shape}"

    def read(self, spec: Spec, chips: int, device: torch.device, ignored: bool = False) -> list[torch.Tensor]:
        """The values under a spec; memory that was never written reads as zeros here.

        Raises the failure of a command that should have written them, unless they are `ignored`: only written over.
        """
        values = self.values
        if isinstance(values, Failure) and not ignored:
            raise values.again()
        if not isinstance(values, list):
            return zeros(spec, chips, device)
        shape = tuple(spec.padded_shape)
        used = device.type == "cuda" and not ignored
        if used and not torch._C._len_torch_dispatch_stack():  # no trace is being compiled
            for value in values:
                used_here(value)
        return [v if tuple(v.shape) == shape else viewed(v, shape) for v in values]


def zeros(spec: Spec, chips: int, device: torch.device) -> list[torch.Tensor]:
    """What memory without values reads as."""
    return [torch.zeros(tuple(spec.padded_shape), dtype=CARRIER[spec.dtype], device=device)] * chips


class Dropped(weakref.ref["Buffer"]):
    """What is left of a buffer that was garbage collected."""

    __slots__ = ("cell", "serial")
    serial: int
    cell: Cell

    def __init__(self, buffer: Buffer, when_gone: Callable[[Dropped], None]) -> None:
        super().__init__(buffer, when_gone)  # type: ignore[call-arg]
        self.serial, self.cell = buffer.serial, buffer.cell


class Guard:
    """The lock of a card's books, which also takes back buffers that are garbage collected.

    Python may collect a tensor at any moment and on any thread, in the middle of an allocation too. What is dropped
    while the books are open waits until they are closed again.
    """

    def __init__(self, take_back: Callable[[Dropped], None]) -> None:
        self._lock: threading.RLock | LostLock = threading.RLock()
        self._depth = 0
        self.dropped: deque[Dropped] = deque()
        """Whoever sees a buffer go appends it: `drop`, or the interpreter itself where that was interrupted."""
        self._take_back = take_back
        belongs_to_this_process(self)

    def left_to_parent(self) -> None:
        self._lock, self._depth = LostLock(), 0

    def check_owned(self) -> None:
        """Before waiting for workers, which a child of a fork has not."""
        if isinstance(self._lock, LostLock):
            refuse()

    def __enter__(self) -> None:
        if self._depth and self._lock._is_owned():  # type: ignore[union-attr]
            self._depth += 1
            return
        enter()
        try:
            self._lock.acquire()
        except BaseException:
            leave()
            raise
        self._depth = 1
        if self.dropped:
            self._drain()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._depth > 1:
            self._depth -= 1
            return
        try:
            if self.dropped:
                self._drain()
        finally:
            self._depth = 0
            self._lock.release()
            leave()

    def _drain(self) -> None:
        while self.dropped:
            self._take_back(self.dropped.popleft())

    def drop(self, dropped: Dropped) -> None:
        """Take memory back: now where that is possible, else as soon as the books are closed. Never blocks."""
        with in_destructor:
            self.dropped.append(dropped)
            if self._lock.acquire(blocking=False):
                try:
                    if not self._depth:
                        with self:
                            pass
                finally:
                    self._lock.release()


class LiveBuffer(NamedTuple):
    """What replays and errors must know of memory that is in use."""

    place: Place
    spec: Spec
    made_by: str


class Owner(Protocol):
    """A tensor, as its buffer sees it."""

    @property
    def holds_its_buffer(self) -> bool: ...


class Holder(Protocol):
    """A device, as its buffers see it."""

    card: Card
    closed: bool
    engine: Engine
    hazards: HazardChecker
    lock: Guard

    @property
    def memory(self) -> Memory: ...

    def captures(self, queue: int) -> bool: ...

    def let_go(self, serial: int, cell: Cell) -> None: ...

    def take_back(self, here: Place, spec: Spec, by: str = "") -> None: ...


class Buffer:
    """Memory of the card held by tensors; given back when the last of them is gone, or on request."""

    def __init__(self, device: Holder, cell: Cell, serial: int, made_by: str) -> None:
        self.device = device
        self.cell = cell
        self.place = cell.place
        self.spec = cell.spec
        self.dropped: Dropped | None = None
        self._owners: list[weakref.ref[Owner]] = []
        self.allocated = True
        self.freed_by = ""
        self.serial = serial
        self.made_by = made_by

    def held_by(self, tensor: Owner) -> None:
        self._owners.append(weakref.ref(tensor))

    @property
    def tensors(self) -> list[Owner]:
        """All that stand on it, deallocated ones too."""
        return [tensor for one in self._owners if (tensor := one()) is not None]

    @property
    def owners(self) -> int:
        """Tensors that hold it and were not deallocated."""
        self._owners = [one for one in self._owners if (tensor := one()) is not None and tensor.holds_its_buffer]
        return len(self._owners)

    @property
    def written(self) -> bool:
        return self.cell.contents is Contents.WRITTEN

    def will_be_written(self, queue: int) -> None:
        """A command that writes it is enqueued; in a trace it is the replays that write it."""
        if not self.written and not self.device.captures(queue):
            self.cell.will_be_written()

    def check_readable(self, reader: str, what: str) -> None:
        """Say so where nothing has written it; refuse where its content is unknown."""
        hazards = self.device.hazards
        if self.cell.contents is Contents.LOST:
            hazards.refuse(
                f"{reader} reads {what} at {self.place.buffer_type.name} address {self.place.address}, but "
                f"{self.cell.lost_to} wrote over it.\n"
                f"  write it again before it is read, or allocate it before begin_trace_capture"
            )
        elif not self.written:
            hazards.never_written(reader, what)

    def free(self, by: str) -> None:
        """Give the memory back. Doing it twice is harmless, as on the card."""
        with self.device.lock:
            if self.allocated:
                self.given_back(by)
                self.device.take_back(self.place, self.spec, by)

    def given_back(self, by: str) -> None:
        """Its memory is no longer its own."""
        self.allocated = False
        self.freed_by = by
        self.device.let_go(self.serial, self.cell)

    @gives_back
    def __del__(self) -> None:
        if self.allocated:
            assert self.dropped is not None
            self.device.lock.drop(self.dropped)


class PendingRead:
    """A read that was enqueued and not waited for. Its values are there once the host has synchronized with it."""

    __slots__ = ("_device", "_queue", "_tick", "done", "mark")

    def __init__(self, device: Holder, done: Latch) -> None:
        self._device = device
        self.done = done
        self.mark: Any = None
        """The engine's, of the read, where that goes on behind the queue."""
        self._queue = 0
        self._tick = 0

    def enqueued(self, queue: int, tick: int) -> None:
        self._queue, self._tick = queue, tick

    def wait(self) -> None:
        """Wait for the values; a program that has not synchronized would see half of them on a real card."""
        self._device.lock.check_owned()
        hazards = self._device.hazards
        if hazards.on and self._tick > hazards.order.host[self._queue]:
            hazards.report(
                f"the host uses the result of a non-blocking read on queue {self._queue} before it has waited for it.\n"
                f"  missing: ttnn.synchronize_device(device) or ttnn.event_synchronize(event) after the read"
            )
        self.done.wait()
        self._device.engine.finish(self.mark)


class HostStorage:
    """Values on the host, one tensor per chip (one in all for a tensor that was never distributed)."""

    __slots__ = ("pending", "values")

    def __init__(self, values: Values, pending: PendingRead | None = None) -> None:
        self.values = values
        self.pending = pending

    def get(self) -> list[torch.Tensor]:
        if self.pending is not None:
            self.pending.wait()
            self.pending = None
        if isinstance(self.values, Failure):
            self.values.reveal()
        if self.values is None:
            raise CardError("The host tensor was never filled.", "  read a device tensor into it first")
        return self.values
