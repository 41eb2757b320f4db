"""Two queues that touch the same memory without an event between them: on a real card the result depends on luck.

Every queue has a clock that ticks with each command. An event carries the clocks of its queue; waiting for it merges
them into the waiting queue's; synchronizing merges them into the host's. A command may touch a range of memory when
every conflicting access to that range is in the past of its queue's clock.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from tt_cnn.virtual.errors import HazardError
from tt_cnn.virtual.types.enums import BufferType


class HazardWarning(UserWarning):
    """A program that a real card may run wrong now and then."""


@dataclass(frozen=True)
class Access:
    """A range of memory that a command reads or writes."""

    kind: BufferType
    start: int
    end: int
    write: bool
    what: str = ""


@dataclass(frozen=True)
class _Past:
    """An access that happened, at a tick of a queue."""

    queue: int
    tick: int
    command: str


@dataclass
class _Span:
    """Who touched a range of addresses last."""

    start: int
    end: int
    writer: _Past | None = None
    readers: dict[int, _Past] = field(default_factory=dict)


class HazardChecker:
    """Follows all queues of a card on the host, as calls are enqueued. `mode` is warn, raise or off."""

    MODES = ("warn", "raise", "off")

    def __init__(self, mode: str = "warn") -> None:
        if mode not in self.MODES:
            raise ValueError(f"hazards is {mode!r}; it must be one of {', '.join(self.MODES)}")
        self.mode = mode
        self.found: list[str] = []
        self._clocks: dict[int, dict[int, int]] = {}
        self._host: dict[int, int] = {}
        self._spans: dict[BufferType, list[_Span]] = {}

    @property
    def on(self) -> bool:
        return self.mode != "off"

    # --- order --------------------------------------------------------------------------------------------------

    def _clock(self, queue: int) -> dict[int, int]:
        return self._clocks.setdefault(queue, {})

    def event(self, queue: int) -> dict[int, int]:
        """What has happened before a mark in this queue."""
        clock = dict(self._clock(queue))
        _merge(clock, self._host)
        return clock

    def wait(self, queue: int, clock: dict[int, int]) -> None:
        _merge(self._clock(queue), clock)

    def host_waited(self, clock: dict[int, int]) -> None:
        """The host has seen these ticks done, so all that it enqueues from now on comes after them."""
        _merge(self._host, clock)

    # --- accesses -----------------------------------------------------------------------------------------------

    def enqueue(self, queue: int, command: str, accesses: list[Access]) -> None:
        """A command enters a queue: check its accesses against those of other queues, then remember them."""
        clock = self._clock(queue)
        _merge(clock, self._host)
        clock[queue] = clock.get(queue, 0) + 1
        now = _Past(queue, clock[queue], command)
        for access in accesses:
            for span in self._split(access):
                self._check(span, access, now, clock)
                if access.write:
                    span.writer = now
                    span.readers = {}
                else:
                    span.readers[queue] = now

    def _check(self, span: _Span, access: Access, now: _Past, clock: dict[int, int]) -> None:
        conflicts = [span.writer] if span.writer else []
        if access.write:
            conflicts += span.readers.values()
        for past in conflicts:
            if past.queue != now.queue and past.tick > clock.get(past.queue, 0):
                verb = "writes" if access.write else "reads"
                did = "wrote" if past is span.writer else "reads"
                self.report(
                    f"{now.command} {verb} {access.what or 'memory'} at {access.kind.name} address {access.start} that "
                    f"{past.command} {did}, and nothing orders the two.\n"
                    f"  missing: event = ttnn.record_event(device, {past.queue}) after {past.command}, and "
                    f"ttnn.wait_for_event({now.queue}, event) before {now.command}"
                )

    def never_written(self, command: str, what: str) -> None:
        self.report(f"{command} reads {what}, which nothing has written.")

    def report(self, text: str) -> None:
        if self.mode == "raise":
            raise HazardError(text)
        if self.mode == "warn":
            if len(self.found) < 1000:
                self.found.append(text)
            warnings.warn(text, HazardWarning, stacklevel=6)

    def _split(self, access: Access) -> list[_Span]:
        """The spans that make up a range, cut at its borders, with new ones where nothing was known."""
        spans = self._spans.setdefault(access.kind, [])
        first = bisect_right(spans, access.start, key=lambda s: s.end)
        last = bisect_left(spans, access.end, key=lambda s: s.start)
        touched: list[_Span] = []
        at = access.start
        for span in spans[first:last]:
            if span.start < access.start:
                touched.append(_Span(span.start, access.start, span.writer, dict(span.readers)))
                span.start = access.start
            if at < span.start:
                touched.append(_Span(at, span.start))
            if span.end > access.end:
                rest = _Span(access.end, span.end, span.writer, dict(span.readers))
                span.end = access.end
                touched += [span, rest]
            else:
                touched.append(span)
            at = span.end
        if at < access.end:
            touched.append(_Span(at, access.end))
        spans[first:last] = touched
        return [s for s in touched if s.start >= access.start and s.end <= access.end]

    def forget_ordered(self) -> None:
        """Drop spans that everything to come is ordered after, so that a long run does not grow."""
        for kind, spans in self._spans.items():
            self._spans[kind] = [s for s in spans if not self._ordered(s)]

    def _ordered(self, span: _Span) -> bool:
        past = [*span.readers.values(), *([span.writer] if span.writer else [])]
        return all(p.tick <= self._host.get(p.queue, 0) for p in past)

    @property
    def size(self) -> int:
        return sum(map(len, self._spans.values()))


def _merge(into: dict[int, int], other: dict[int, int]) -> None:
    for queue, tick in other.items():
        if tick > into.get(queue, 0):
            into[queue] = tick
