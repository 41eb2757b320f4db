# SPDX-License-Identifier: Apache-2.0
"""Random programs of tensors that come and go between captures and replays, beside a memory of bytes.

The memory knows addresses only, as a card does: who wrote each byte last, under which spec. Where it knows a value, the
virtual card must give that value or refuse; where it does not, the virtual card must refuse, or say that nothing has
written what is read.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import CardError, HazardError
from tt_cnn.virtual.hazards.hazards import HazardWarning
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.types.enums import BufferType

ACTIONS = 200
"""Of one program. Compiling takes the time, so there are fewer programs where every engine is tried out."""
UNIT = 32
"""Bytes that are told apart: all buffers start at multiples of this."""


class Stamp(NamedTuple):
    """What was written last to some bytes: a tensor at a place, under a spec."""

    place: Place
    spec: Any
    value: float | None
    """None where something was read before that was reported as never written."""


class Unknown(Exception):
    """Bytes that nothing has written, or something of another kind, or several things."""


@dataclass
class Bytes:
    units: dict[tuple[BufferType, int], Stamp] = field(default_factory=dict)

    def store(self, place: Place, spec: Any, value: float | None) -> None:
        stamp = Stamp(place, spec, value)
        for unit in units(place):
            self.units[place.buffer_type, unit] = stamp

    def load(self, place: Place, spec: Any) -> float | None:
        found = {self.units.get((place.buffer_type, unit)) for unit in units(place)}
        stamp = found.pop()
        if found or stamp is None or (stamp.place, stamp.spec) != (place, spec):
            raise Unknown
        return stamp.value

    def scribble(self, place: Place) -> None:
        """What temporaries and circular buffers leave behind is not known."""
        reached = units(place)
        self.units = {
            (kind, unit): stamp
            for (kind, unit), stamp in self.units.items()
            if kind is not place.buffer_type or unit not in reached
        }


def units(place: Place) -> range:
    return range(place.address // UNIT, -(-(place.address + place.bank_bytes) // UNIT))


@dataclass(frozen=True)
class Step:
    """A call in terms of addresses."""

    source: tuple[Place, Any]
    scribbles: tuple[Place, ...]
    """Temporaries and circular buffers."""
    target: tuple[Place, Any]
    adds: float

    def run(self, memory: Bytes, reported: bool) -> None:
        try:
            found = memory.load(*self.source)
        except Unknown:
            if not reported:
                raise
            found = None
        for scribble in self.scribbles:
            memory.scribble(scribble)
        memory.store(*self.target, None if reported or found is None else found + self.adds)

    @classmethod
    def of(cls, command: Command, source: Any, target: Any, adds: float) -> Step:
        scribbles = [place for step in command.steps for _, place in step.allocated if place != target[0]]
        for step in command.steps:
            for buffer, address in zip(step.step.buffers, step.buffer_addresses, strict=True):
                scribbles.append(Place(BufferType.L1, address, buffer.bytes))
        return cls(source, tuple(scribbles), target, adds)


def home(tensor: Any) -> tuple[Place, Any]:
    return tensor._buffer.place, tensor.spec


KINDS: list[dict[str, Any]] = [
    {},
    {"memory_config": ttnn.L1_MEMORY_CONFIG},
    {"shape": (1, 1, 32, 576)},
    {"layout": ttnn.ROW_MAJOR_LAYOUT},
    {"dtype": ttnn.float32},
    {"memory_config": ttnn.L1_MEMORY_CONFIG, "layout": ttnn.ROW_MAJOR_LAYOUT},
]


class Program:
    """Does one thing after the other on the card and in the memory, and compares."""

    def __init__(self, card: Any, toys: Any, tensor: Callable[..., Any], seed: int) -> None:
        self.card, self.toys, self.host = card, toys, tensor
        self.random = random.Random(seed)
        self.memory = Bytes()
        self.tensors: list[Any] = []
        self.empty: set[int] = set()
        """Buffers that nothing has written since they were allocated."""
        self.traces: dict[Any, list[Step]] = {}
        self.recording: list[Step] | None = None
        self.commands: list[Command] = []
        self.script: list[str] = []
        self.counts: Counter[str] = Counter()
        self.kinds = self.random.sample(KINDS, self.random.choice((1, 1, 2, 3)))
        """The fewer, the more often a tensor comes to lie exactly where another lay."""
        for kind in self.kinds:
            x = tensor(card, 0.0, **kind)
            toys.bump(toys.into(toys.plus(x), x))
            toys.move(toys.plus(x, temporary=True))
        with suppress(CardError):
            toys.wide(x)
        del x
        card.listeners.append(self.commands.append)

    # --- what programs do ---------------------------------------------------------------------------------------

    def run(self, actions: int) -> None:
        for _ in range(actions):
            self.random.choice(self.ACTIONS)(self)
        for x in self.usable():
            self.read(x)

    def usable(self) -> list[Any]:
        return [x for x in self.tensors if x._buffer.allocated]

    def some(self) -> Any:
        if not self.usable():
            self.upload() if self.recording is None else self.allocate()
        return self.random.choice(self.usable()[-6:])

    def upload(self) -> None:
        given, kind = float(self.random.randrange(100)), self.random.choice(self.kinds)
        x = self.host(self.card, given, **kind)
        self.note(f"x{name(x)} = to_device({given}, {kind})")
        self.tensors.append(x)
        self.memory.store(*home(x), given)

    def allocate(self) -> None:
        x = ttnn.allocate_tensor_on_device(self.host(None, **self.random.choice(self.kinds)).spec, self.card)
        self.note(f"x{name(x)} = allocate({x.spec})")
        self.tensors.append(x)
        self.empty.add(name(x))
        if self.recording is None and self.random.random() < 0.7:
            self.write(x)

    def write(self, x: Any = None) -> None:
        x, given = self.some() if x is None else x, float(self.random.randrange(100))
        kind = {"dtype": x.dtype, "layout": x.layout, "shape": tuple(x.shape)}
        ttnn.copy_host_to_device_tensor(self.host(None, given, **kind), x)
        self.note(f"write({given}, x{name(x)})")
        self.memory.store(*home(x), given)
        self.empty.discard(name(x))

    def free(self) -> None:
        x = self.some()
        self.note(f"free(x{name(x)})")
        ttnn.deallocate(x)
        self.forget(x)

    def drop(self) -> None:
        x = self.some()
        self.note(f"drop(x{name(x)})")
        self.forget(x)

    def forget(self, x: Any) -> None:
        self.tensors = [y for y in self.tensors if y is not x]

    def look(self) -> None:
        self.read(self.some())

    def plus(self) -> None:
        x, temporary = self.some(), self.random.random() < 0.3
        self.call("plus", x, lambda: self.toys.plus(x, temporary=temporary), 1.0)

    def wide(self) -> None:
        x = self.some()
        self.call("wide", x, lambda: self.toys.wide(x), 1.0)

    def bump(self) -> None:
        x = self.some()
        self.call("bump", x, lambda: self.toys.bump(x), 1.0)

    def move(self) -> None:
        x = self.some()
        if self.call("move", x, lambda: self.toys.move(x), 1.0):
            self.forget(x)

    def into(self) -> None:
        x = self.some()
        alike = [y for y in self.usable() if y.spec == x.spec and y._buffer is not x._buffer]
        if alike:
            y = self.random.choice(alike)
            self.call("into", x, lambda: self.toys.into(x, y), 0.0)

    def view(self) -> None:
        self.tensors.append(self.toys.view(self.some()))

    def capture(self) -> None:
        trace = ttnn.begin_trace_capture(self.card)
        self.note(f"begin trace {int(trace)}")
        self.recording = []
        for _ in range(self.random.randrange(1, 9)):
            self.random.choice(self.CAPTURED)(self)
        ttnn.end_trace_capture(self.card, trace)
        self.note("end")
        self.traces[trace], self.recording = self.recording, None

    def replay(self) -> None:
        if not self.traces:
            return
        trace = self.random.choice(list(self.traces)[-3:])
        before = dict(self.memory.units)
        reported, refused = self.told(lambda: ttnn.execute_trace(self.card, trace, blocking=False))
        self.note(f"replay {int(trace)}{' refused' if refused else ''}")
        try:
            for step in self.traces[trace]:
                step.run(self.memory, reported)
        except Unknown:
            assert refused, self.text("the replay was not refused")
            self.counts["rightly refused"] += 1
        else:
            self.counts["refused" if refused else "replayed"] += 1
        if refused:
            self.memory.units = before
            return
        targets = {step.target for step in self.traces[trace]}
        self.empty -= {name(x) for x in self.usable() if home(x) in targets}
        for x in self.usable()[-3:]:
            self.read(x)

    def release(self) -> None:
        if self.traces:
            trace = self.random.choice(list(self.traces))
            self.note(f"release {int(trace)}")
            ttnn.release_trace(self.card, trace)
            del self.traces[trace]

    CALLS = (plus, plus, wide, bump, move, into, view)
    ACTIONS = (*CALLS, upload, allocate, allocate, write, write, free, free, drop, look)
    ACTIONS += (capture, capture, replay, replay, replay, replay, replay, release)
    CAPTURED = (*CALLS, plus, allocate, free, free, drop)

    # --- comparing ----------------------------------------------------------------------------------------------

    def call(self, op: str, x: Any, call: Callable[[], Any], adds: float) -> bool:
        """Whether it was done."""
        source, results = home(x), []
        try:
            reported, refused = self.told(lambda: results.append(call()))
        except CardError as error:  # circular buffers that would reach up to a tensor
            assert "clash" in str(error) or "Cannot load new binaries" in str(error), self.text(str(error))
            return False
        if refused:
            self.note(f"{op}(x{name(x)}) refused")
            self.expect_refusal(source)
            return False
        y = results[0]
        self.note(f"x{name(y)} = {op}(x{name(x)}){', reported' if reported else ''}")
        assert not reported or name(x) in self.empty, self.text("something has written it")
        step = Step.of(self.commands[-1], source, home(y), adds)
        if self.recording is not None:
            self.recording.append(step)
            if y is not x and not any(y is other for other in self.tensors):
                self.empty.add(name(y))  # until a replay
        else:
            try:
                step.run(self.memory, reported)
            except Unknown:
                raise AssertionError(self.text("the call was not refused")) from None
            self.empty.discard(name(y))
        if not any(y is other for other in self.tensors):
            self.tensors.append(y)
        return True

    def read(self, x: Any) -> None:
        found: list[float] = []
        reported, refused = self.told(lambda: found.extend(ttnn.to_torch(x).float().unique().tolist()))
        self.note(f"read(x{name(x)}) gives {'a refusal' if refused else found}{', reported' if reported else ''}")
        if refused:
            self.expect_refusal(home(x))
            return
        try:
            value = self.memory.load(*home(x))
        except Unknown:
            assert reported, self.text("the read was not refused")
        else:
            assert reported or value is None or found == [value], self.text(f"the value is {value}")
            self.counts["read"] += 1
        assert not reported or name(x) in self.empty, self.text("something has written it")

    def expect_refusal(self, place: tuple[Place, Any]) -> None:
        try:
            self.memory.load(*place)
        except Unknown:
            self.counts["rightly refused"] += 1
        else:
            self.counts["refused"] += 1

    def told(self, do: Callable[[], Any]) -> tuple[bool, bool]:
        """Whether it was said that nothing has written what is read, and whether it was refused."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", HazardWarning)
            try:
                do()
            except HazardError:
                return False, True
        return any("nothing has written" in str(one.message) for one in told), False

    def note(self, text: str) -> None:
        self.script.append(text)

    def text(self, what: str) -> str:
        return "\n".join([*self.script, what])


def name(x: Any) -> int:
    return x._buffer.serial


@pytest.mark.parametrize(
    ("engine", "numerics", "programs"),
    [("torch", "device", 8), ("torch", "native", 2), ("cpu", "device", 6), ("cpu", "native", 2)],
)
def test_replays_follow_addresses(open_card, toys, tensor, engine, numerics, programs):
    counts: Counter[str] = Counter()
    for seed in range(programs):
        card = open_card(engine=engine, numerics=numerics)
        program = Program(card, toys, tensor, seed)
        program.run(ACTIONS)
        counts += program.counts
        ttnn.close_device(card)
    assert counts["replayed"] > counts["refused"], f"too much is refused that is known: {counts}"
    assert counts["rightly refused"], f"too little was tried: {counts}"
