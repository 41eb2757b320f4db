# SPDX-License-Identifier: Apache-2.0
"""Interleaved rounds: every subject runs in every round, so that a noisy machine is noisy for all of them."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tt_cnn.bench.subject import Outputs, Subject
from tt_cnn.testing.pcc import agreement

SETTLING = 0.1
"""Seconds of a turn that do not count."""
LONG_ENOUGH = 0.05
"""Seconds that do, at least."""


@dataclass(frozen=True)
class Timing:
    """Seconds per batch of one subject, round by round, and how near its outputs are to the reference's."""

    name: str
    seconds: tuple[float, ...]
    batch_size: int
    pcc: float
    compile_seconds: float
    repeats: bool
    """Two runs on the same input gave the same bits."""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)]

    @property
    def fps(self) -> float:
        return self.batch_size / self.median


@dataclass(frozen=True)
class Comparison:
    """Ours first, then the peers."""

    timings: tuple[Timing, ...]

    @property
    def ours(self) -> Timing:
        return self.timings[0]

    def ratio(self, other: Timing) -> float:
        """How many times as long the other takes: the median over rounds, each with its own noise."""
        return statistics.median(b / a for a, b in zip(self.ours.seconds, other.seconds, strict=True))


def compare(
    subjects: Sequence[Subject],
    expected: Outputs,
    example: torch.Tensor,
    *,
    rounds: int = 7,
    batches: int = 3,
    after_round: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run `rounds` rounds of at least so many batches each, all subjects in each round, in an order drawn for it.

    Batches before the clock starts are for the caches, and for the threads of the subject before it: those of ONNX
    Runtime, for one, wait awake for some tens of milliseconds, on a processor that whoever comes next shares with them.
    """
    seconds: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    drawn = random.Random(0)
    for _ in range(rounds):
        for subject in drawn.sample(subjects, len(subjects)):
            number = max(batches, batches_of_a_turn(settled(subject, example)))
            start = time.perf_counter()
            subject.run([example] * number)
            seconds[subject.name].append((time.perf_counter() - start) / number)
        after_round()
    return Comparison(tuple(_timing(s, seconds[s.name], expected, example) for s in subjects))


def batches_of_a_turn(seconds: float) -> int:
    """How many of so many seconds are measured together, at least."""
    return math.ceil(LONG_ENOUGH / seconds)


def settled(subject: Subject, example: torch.Tensor) -> float:
    """Run batches that do not count, and tell the seconds of the last one."""
    begin = start = time.perf_counter()
    while True:
        subject.run([example])
        now = time.perf_counter()
        if now - begin >= SETTLING:
            return now - start
        start = now


def _timing(subject: Subject, seconds: list[float], expected: Outputs, example: torch.Tensor) -> Timing:
    (first,), (second,) = subject.run([example]), subject.run([example])
    pairs = list(zip(expected, first, strict=True))
    return Timing(
        subject.name,
        tuple(seconds),
        example.shape[0],
        min(agreement(golden, found) for golden, found in pairs),
        subject.compile_seconds,
        all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
    )
