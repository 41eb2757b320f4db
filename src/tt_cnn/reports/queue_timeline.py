# SPDX-License-Identifier: Apache-2.0
"""When each step and transfer of several inputs would happen, on each queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tt_cnn.reports.recording import Recorded
from tt_cnn.reports.records import Span, SpanKind, Transfer
from tt_cnn.signpost import is_signpost
from tt_cnn.virtual.cost.between import transfer_ns
from tt_cnn.virtual.cost.schedule import Enqueued, schedule
from tt_cnn.virtual.cost.schedule import Transfer as Moved
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import LiveBuffer


@dataclass(frozen=True)
class Timeline:
    spans: list[Span]
    input_ns: float
    """From the end of an input to the end of the next, when the queues run evenly."""
    latency_ns: float


def timeline_of(streams: Sequence[Sequence[Recorded]], device: MeshDevice, traced: bool) -> Timeline:
    """`streams` holds what was enqueued with each input; after the last of them only reads that were late."""
    book = _Book(device)
    for number, stream in enumerate(streams):
        book.begin_input(number)
        for note in stream:
            if not is_signpost(note.command):
                book.enqueue(note)
    late = len(streams) > 1 and bool(streams[-1])
    spans = [
        replace(span, input=span.input - 1) if late and span.kind == "read" else span for span in book.spans(traced)
    ]
    return Timeline(spans, *_rates([span for span in spans if span.input >= 0], last=2 if late else 1))


def transfers_of(notes: Iterable[Recorded], device: MeshDevice) -> tuple[Transfer, ...]:
    """Writes and reads among the commands."""
    return tuple(_transfer(note, device) for note in notes if is_transfer(note.command))


def is_transfer(command: Command) -> bool:
    return command.plan is None and command.trace_id is None and bool(command.accesses)


def _transfer(note: Recorded, device: MeshDevice) -> Transfer:
    command = note.command
    direction: Literal["write", "read"] = "write" if any(a.write for a in command.accesses) else "read"
    spec = _buffer_of(note).spec
    size = spec.num_pages * spec.page_bytes
    return Transfer(
        direction=direction,
        call_name=command.name,
        queue=command.queue,
        bytes=size,
        page_bytes=spec.page_bytes,
        ns=transfer_ns(device.card, direction, size, spec.page_bytes, device.chips),
        shape=tuple(spec.shape),
        dtype=spec.dtype.name,
        memory=f"{spec.memory_config.buffer_type.name}_{spec.memory_config.memory_layout.name}",
    )


def _buffer_of(note: Recorded) -> LiveBuffer:
    """The card's side of a transfer."""
    access = note.command.accesses[0]
    for one in note.live.values():
        if one.place.buffer_type is access.kind and one.place.address == access.start:
            return one
    raise ValueError(f"{note.command} moves a tensor that was given back before it was enqueued")


@dataclass
class _Book:
    """Commands as the cost model's schedule takes them. Their ticks on the queues say what they come after."""

    device: MeshDevice
    _enqueued: list[Enqueued] = field(default_factory=list)
    _inputs: list[int] = field(default_factory=list)
    _layers: list[str] = field(default_factory=list)
    _first_rows: list[int] = field(default_factory=list)
    """For each of the enqueued: its input, its layer, and the row of its first step."""
    _by_tick: list[dict[int, int]] = field(default_factory=list)
    """For each queue what was enqueued with a tick; of a replay the last command."""
    _input: int = 0
    _row: int = 0

    def begin_input(self, number: int) -> None:
        self._input, self._row = number, 0

    def enqueue(self, note: Recorded) -> None:
        command = note.command
        work: list[Step] | Moved = [placed.step for placed in command.steps]
        if is_transfer(command):
            moved = _transfer(note, self.device)
            work = Moved(moved.direction, moved.bytes, moved.page_bytes)
        while len(self._by_tick) < len(note.after):
            self._by_tick.append({})
        number = len(self._enqueued)
        self._enqueued.append(Enqueued(command.queue, work, self._others_before(note), command.name))
        self._inputs.append(self._input)
        self._layers.append(command.layer)
        self._first_rows.append(self._row)
        self._by_tick[command.queue][note.after[command.queue]] = number
        self._row += len(command.steps)

    def _others_before(self, note: Recorded) -> tuple[int, ...]:
        """The last command of each other queue that it is ordered after; those from before the first are done."""
        found = []
        for queue, tick in enumerate(note.after):
            known = self._by_tick[queue]
            if queue != note.command.queue and known:
                last = max((t for t in known if t <= tick), default=None)
                found += [known[last]] if last is not None else []
        return tuple(found)

    def spans(self, traced: bool) -> list[Span]:
        spans: list[Span] = []
        rows = list(self._first_rows)
        for timed in schedule(self._enqueued, self.device.card, traced, self.device.chips):
            work, number = self._enqueued[timed.call].work, self._inputs[timed.call]
            if isinstance(work, Moved):
                kind: SpanKind = work.direction
                row, name = None, self._enqueued[timed.call].name
            else:
                kind, row = "step", rows[timed.call]
                rows[timed.call] += 1
                name = f"{self._layers[timed.call]} {timed.name}".strip()
            spans.append(Span(timed.queue, timed.start_ns, timed.end_ns, kind, name, row, number))
        return spans


def _rates(spans: Sequence[Span], last: int) -> tuple[float, float]:
    """Time between the ends of two inputs, and from the start to the end of one.

    The input that is looked at is the last one or, where reads are late, the one before it, which another follows.
    """
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for span in spans:
        starts[span.input] = min(starts.get(span.input, span.start_ns), span.start_ns)
        ends[span.input] = max(ends.get(span.input, 0.0), span.end_ns)
    numbers = sorted(ends)
    if not numbers:
        return 0.0, 0.0
    at = numbers[max(0, len(numbers) - last)]
    latency = ends[at] - starts[at]
    return (ends[at] - ends[at - 1] if at - 1 in ends else latency), latency
