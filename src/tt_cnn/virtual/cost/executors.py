# SPDX-License-Identifier: Apache-2.0
"""The five pipeline executors as schedules: seconds an input when many follow each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.schedule import Enqueued, Transfer, schedule
from tt_cnn.virtual.planning.program import Step

COMPUTE, TRANSFERS = 0, 1
_INPUTS = 6
_STEADY = 3
"""Inputs at the end whose pace is taken."""


@dataclass(frozen=True)
class Pass:
    """One input's work: what is written, brought to L1, computed, brought to DRAM, and read."""

    write: Transfer
    stage: Sequence[Step]
    run: Sequence[Step]
    reads: Sequence[Transfer]
    spill: Sequence[Step] = ()


class _Line:
    """Collects what an executor enqueues. Marks are kept by name; `None` stands for a mark that is not there yet."""

    def __init__(self) -> None:
        self.calls: list[Enqueued] = []
        self.marks: dict[str, int] = {}

    def put(self, queue: int, work: Sequence[Step] | Transfer, after: Sequence[str] = (), name: str = "") -> int:
        waits = tuple(self.marks[mark] for mark in after if mark in self.marks)
        self.calls.append(Enqueued(queue, work, waits, name))
        return len(self.calls) - 1


def _plain(line: _Line, one: Pass, number: int) -> None:
    line.put(COMPUTE, one.write)
    line.put(COMPUTE, one.run)
    _read(line, one, COMPUTE)


def _one_queue(line: _Line, one: Pass, number: int) -> None:
    line.put(COMPUTE, one.write)
    line.put(COMPUTE, one.stage)
    line.put(COMPUTE, one.run)
    _read(line, one, COMPUTE)


def _overlapped(line: _Line, one: Pass, number: int) -> None:
    line.marks["written"] = line.put(TRANSFERS, one.write, ("staged",))
    line.marks["staged"] = line.put(COMPUTE, one.stage, ("written",))
    line.put(COMPUTE, one.run)
    _read(line, one, COMPUTE)


def _pipelined_io(line: _Line, one: Pass, number: int) -> None:
    line.marks["written"] = line.put(TRANSFERS, one.write, ("staged",))
    if number:
        _read(line, one, TRANSFERS, ("spilled",))
    line.marks["staged"] = line.put(COMPUTE, one.stage, ("written",))
    line.put(COMPUTE, one.run)
    line.marks["spilled"] = line.put(COMPUTE, one.spill, ("read",))


def _read(line: _Line, one: Pass, queue: int, after: Sequence[str] = ()) -> None:
    for transfer in one.reads:
        line.marks["read"] = line.put(queue, transfer, after)


_EXECUTORS: dict[str, tuple[Callable[[_Line, Pass, int], None], bool]] = {
    "plain": (_plain, False),
    "trace": (_one_queue, True),
    "2cq": (_overlapped, False),
    "trace+2cq": (_overlapped, True),
    "trace+2cq+io": (_pipelined_io, True),
}
"""By the names of `models.pipelines`: what is enqueued for an input, and whether the model is a trace."""


def input_ns(executor: str, one: Pass, card: Card, chips: int = 1) -> float:
    """Nanoseconds from one input's end to the next one's, in the steady state; on several chips an input for each."""
    if executor not in _EXECUTORS:
        raise ValueError(f"executor is {executor!r}; it must be one of {', '.join(_EXECUTORS)}")
    enqueue, traced = _EXECUTORS[executor]
    line = _Line()
    last: list[int] = []
    for number in range(_INPUTS):
        enqueue(line, one, number)
        last.append(len(line.calls) - 1)
    times = schedule(line.calls, card, traced, chips)
    ends = {timed.call: timed.end_ns for timed in times}
    finished = [max(end for call, end in ends.items() if call <= number) for number in last]
    return (finished[-1] - finished[-1 - _STEADY]) / _STEADY
