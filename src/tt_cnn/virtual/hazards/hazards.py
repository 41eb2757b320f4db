# SPDX-License-Identifier: Apache-2.0
"""Two queues that touch the same memory without an event between them: on a real card the result depends on luck.

Every queue has a clock that ticks with each command. An event carries the clocks of its queue; waiting for it merges
them into the waiting queue's; synchronizing merges them into the host's. A command may touch a range of memory when
every conflicting access to that range is in the past of its queue's clock.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import NamedTuple, NoReturn

from tt_cnn.virtual.errors.card_error import HazardError
from tt_cnn.virtual.types.enums import BufferType

Clock = list[int]
"""The last tick of each queue that is known to be done."""


class HazardWarning(UserWarning):
    """A program that a real card may run wrong now and then."""


class Access(NamedTuple):
    """A range of memory that a command reads or writes."""

    kind: BufferType
    start: int
    end: int
    write: bool
    what: str = ""


class Order:
    """What comes after what: the clocks of all queues and of the host."""

    def __init__(self, queues: int) -> None:
        self.host: Clock = [0] * queues
        self._clocks: list[Clock] = [[0] * queues for _ in range(queues)]

    def tick(self, queue: int) -> Clock:
        """A command enters a queue: after all before it there, and after all that the host has waited for."""
        clock = self._clocks[queue]
        _merge(clock, self.host)
        clock[queue] += 1
        return clock

    def at(self, queue: int) -> Clock:
        """What has happened before a mark in this queue."""
        clock = list(self._clocks[queue])
        _merge(clock, self.host)
        return clock

    def wait(self, queue: int, clock: Clock) -> None:
        _merge(self._clocks[queue], clock)

    def host_waited(self, clock: Clock) -> None:
        """The host has seen these ticks done, so all that it enqueues from now on comes after them."""
        _merge(self.host, clock)

    def seen_by_all(self) -> Clock:
        """Ticks that everything to come on any queue is ordered after."""
        known = [[max(own, host) for own, host in zip(c, self.host, strict=True)] for c in self._clocks]
        ticks = range(len(known))
        # a queue is always ordered after itself, so only what the others know of it counts
        return [min([c[q] for i, c in enumerate(known) if i != q], default=known[q][q]) for q in ticks]


def _merge(into: Clock, other: Clock) -> None:
    for queue, tick in enumerate(other):
        if tick > into[queue]:
            into[queue] = tick


class _Past(NamedTuple):
    """An access that happened, at a tick of a queue."""

    queue: int
    tick: int
    command: object
    """Whose text names it."""


@dataclass(eq=False)
class _Span:
    """Who touched a range of addresses last."""

    start: int
    end: int
    writer: _Past | None = None
    readers: dict[int, _Past] = field(default_factory=dict)
    by: object = None
    """The accesses of the replay that touched it last; None where that was another command."""
    replay: Accesses | None = None
    """Keeps, for all such spans together, when it touched them last."""
    place: int = 0
    """Among the spans of that replay."""

    def settle(self) -> None:
        """Keep it here again: others look."""
        replay = self.replay
        if replay is None:
            return
        self.replay = None
        assert replay.last is not None
        for _, access, _ in replay.by_span[self.place]:
            self.touch(access, replay.last, replay)
        replay.alone.append(self.place)

    def touch(self, access: Access, past: _Past, by: object) -> None:
        self.by = by
        if access.write:
            self.writer = past
            self.readers.clear()
        else:
            self.readers[past.queue] = past

    def past(self) -> list[_Past]:
        return [*self.readers.values(), self.writer] if self.writer is not None else list(self.readers.values())


_start, _end = attrgetter("start"), attrgetter("end")


class Accesses(list[Access]):
    """Accesses that come again with every replay. Their spans are found once and kept while the map stays as it is.

    Most of them only the replay itself touches. As long as that is so on the same queue, there is nothing to check, and
    what they would all note is noted once, in `last`.
    """

    def __init__(self, accesses: Iterable[Access] = ()) -> None:
        super().__init__(accesses)
        self.spans: list[list[_Span]] | None = None
        self.map_version = -1
        self.by_span: list[list[tuple[int, Access, _Span]]] = []
        """What touches each span, numbered in the order in which that happens."""
        self.alone: list[int] = []
        """Spans that are followed one by one."""
        self.last: _Past | None = None

    def found(self, pairs: Sequence[tuple[Access, _Span]]) -> None:
        """The map is new."""
        by_span: dict[int, list[tuple[int, Access, _Span]]] = {}
        for number, (access, span) in enumerate(pairs):
            by_span.setdefault(id(span), []).append((number, access, span))
        self.by_span = list(by_span.values())
        self.alone, self.last = list(range(len(self.by_span))), None

    def pairs_alone(self) -> list[tuple[Access, _Span]]:
        numbered = sorted([one for i in self.alone for one in self.by_span[i]], key=itemgetter(0))
        return [(access, span) for _, access, span in numbered]

    def was_on(self, queue: int) -> bool:
        return self.last is not None and self.last.queue == queue

    def settle(self) -> None:
        for (_, _, span), *_ in self.by_span:
            if span.replay is self:
                span.settle()


class HazardChecker:
    """Follows all queues of a card on the host, as calls are enqueued. `mode` is warn, raise or off."""

    MODES = ("warn", "raise", "off")
    FORGET_EVERY = 4096
    LIMIT = 16384
    """Spans of one memory that are remembered; beyond it the oldest are forgotten, so that a host that never waits
    does not grow. Forgetting can miss a hazard; it never invents one."""

    def __init__(self, mode: str = "warn", queues: int = 1) -> None:
        if mode not in self.MODES:
            raise ValueError(f"hazards is {mode!r}; it must be one of {', '.join(self.MODES)}")
        self.mode = mode
        self.found: list[str] = []
        self.order = Order(queues)
        self._spans: dict[BufferType, list[_Span]] = {kind: [] for kind in BufferType}
        self._version = 0
        self._commands = 0
        self._follows = queues > 1 and mode != "off"

    @property
    def on(self) -> bool:
        return self.mode != "off"

    def enqueue(self, queue: int, command: object, accesses: Sequence[Access]) -> int:
        """A command enters a queue: check its accesses against those of other queues, then remember them.

        Returns the command's tick. One queue is in order by itself and costs nothing more than that. A command that is
        refused does not enter it, and nothing of it is remembered.
        """
        if self._follows:
            self.admit(queue, command, accesses)
        clock = self.order.tick(queue)
        tick = clock[queue]
        if self._follows:
            now = _Past(queue, tick, command)
            pairs = self._followed(accesses, queue)
            by = accesses if isinstance(accesses, Accesses) else None
            quiet = [] if by is None else [i for i in by.alone if by.by_span[i][0][2].by is by]
            for access, span in pairs:
                self._check(span, access, now, clock)
                span.touch(access, now, by)
            if by is not None:
                self._leave_alone(by, quiet, now, clock)
            self._commands += 1
            if self._commands % self.FORGET_EVERY == 0:
                self.forget()
        return tick

    def admit(self, queue: int, command: object, accesses: Sequence[Access]) -> None:
        """Raise where hazards are errors and the command would be one. Nothing changes."""
        if self.mode != "raise" or not self._follows:
            return
        clock = self.order.at(queue)
        clock[queue] += 1
        now = _Past(queue, clock[queue], command)
        for access, span in self._followed(accesses, queue):
            self._check(span, access, now, clock)

    def _check(self, span: _Span, access: Access, now: _Past, clock: Clock) -> None:
        writer = span.writer
        if writer is not None and writer.tick > clock[writer.queue]:
            self._conflict(access, now, writer, "wrote")
        if access.write:
            for past in span.readers.values():
                if past.tick > clock[past.queue]:
                    self._conflict(access, now, past, "reads")

    def _conflict(self, access: Access, now: _Past, past: _Past, did: str) -> None:
        verb = "writes" if access.write else "reads"
        self.report(
            f"{now.command} {verb} {access.what or 'memory'} at {access.kind.name} address {access.start} that "
            f"{past.command} {did}, and nothing orders the two.\n"
            f"  missing: event = ttnn.record_event(device, {past.queue}) after {past.command}, and "
            f"ttnn.wait_for_event({now.queue}, event) before {now.command}"
        )

    def never_written(self, command: str, what: str) -> None:
        if self.on:
            self.report(f"{command} reads {what}, which nothing has written.")

    def report(self, text: str) -> None:
        if self.mode == "raise":
            raise HazardError(text)
        if self.mode == "warn":
            self._note(text)
            warnings.warn(text, HazardWarning, stacklevel=6)

    def refuse(self, text: str) -> NoReturn:
        """A read of unknown values: in every mode an error, since any number would be a wrong one."""
        if self.mode == "warn":
            self._note(text)
        raise HazardError(text)

    def _note(self, text: str) -> None:
        if len(self.found) < 1000:
            self.found.append(text)

    # --- the map of memory --------------------------------------------------------------------------------------

    def _followed(self, accesses: Sequence[Access], queue: int) -> list[tuple[Access, _Span]]:
        """The spans that accesses touch; of a replay those that others have come to since the last one."""
        replay = accesses if isinstance(accesses, Accesses) else None
        if replay is not None and replay.map_version == self._version and replay.was_on(queue):
            pairs = replay.pairs_alone()
        else:
            if replay is not None:
                replay.settle()
            pairs = [(a, span) for a, spans in zip(accesses, self._spans_of(accesses), strict=True) for span in spans]
            if replay is not None:
                replay.found(pairs)
        for _, span in pairs:
            span.settle()  # of another replay
        return pairs

    def _leave_alone(self, replay: Accesses, quiet: Sequence[int], now: _Past, clock: Clock) -> None:
        """Spans that nobody has come to since the replay before need not be looked at by later ones."""
        replay.last = now
        for i in quiet:
            span = replay.by_span[i][0][2]
            if span.writer is None or span.writer.tick <= clock[span.writer.queue]:
                span.replay, span.place = replay, i
        if quiet:
            replay.alone = [i for i in replay.alone if replay.by_span[i][0][2].replay is not replay]

    def _spans_of(self, accesses: Sequence[Access]) -> list[list[_Span]]:
        if isinstance(accesses, Accesses):
            if accesses.spans is None or accesses.map_version != self._version:
                for access in accesses:
                    self._split(access)  # later cuts may change earlier answers, so cut all borders first
                accesses.spans = [self._split(access) for access in accesses]
                accesses.map_version = self._version
            return accesses.spans
        for access in accesses:
            self._split(access)
        return [self._split(access) for access in accesses]

    def _split(self, access: Access) -> list[_Span]:
        """The spans that make up a range, cut at its borders, with new ones where nothing was known."""
        spans = self._spans[access.kind]
        first = bisect_right(spans, access.start, key=_end)
        if first < len(spans) and spans[first].start == access.start and spans[first].end == access.end:
            return [spans[first]]
        last = bisect_left(spans, access.end, key=_start)
        touched: list[_Span] = []
        at = access.start
        for span in spans[first:last]:
            span.settle()
            if span.start < access.start:
                touched.append(_Span(span.start, access.start, span.writer, dict(span.readers)))
                span.start = access.start
            if at < span.start:
                touched.append(_Span(at, span.start))
            touched.append(span)
            if span.end > access.end:
                touched.append(_Span(access.end, span.end, span.writer, dict(span.readers)))
                span.end = access.end
            at = span.end
        if at < access.end:
            touched.append(_Span(at, access.end))
        if len(touched) != last - first:
            spans[first:last] = touched
            self._version += 1
        return [s for s in touched if s.start >= access.start and s.end <= access.end]

    def forget(self) -> None:
        """Drop what everything to come is ordered after, and the oldest beyond the limit."""
        seen = self.order.seen_by_all()
        for kind, spans in self._spans.items():
            for span in spans:
                span.settle()
            kept = [s for s in spans if any(p.tick > seen[p.queue] for p in s.past())]
            if len(kept) > self.LIMIT:
                age = sorted((max(p.tick for p in s.past()) for s in kept), reverse=True)[self.LIMIT - 1]
                kept = [s for s in kept if max(p.tick for p in s.past()) > age]
            if len(kept) != len(spans):
                self._spans[kind] = kept
                self._version += 1

    @property
    def size(self) -> int:
        return sum(map(len, self._spans.values()))
