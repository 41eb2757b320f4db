# SPDX-License-Identifier: Apache-2.0
"""Exponents of what grows with the work, and where something grows faster than its peers'."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

OURS = "tt-cnn"
TOLERANCE = 0.1
"""Between exponents. Times of a point differ by 5 % from run to run, which over 1 to 8 times the work makes 0.03 of an
exponent and 0.05 of a difference of two: this is twice that, and a factor of 1.23 at 8 times the work."""
JUMP = 1.3
"""How many times as fast as the work time may grow between one point and the next: 5 % of each of two times, and the
caches that the larger one no longer fits, which peers lose as well."""


@dataclass(frozen=True)
class Point:
    """One subject at one size of the work."""

    subject: str
    label: str
    """What was made larger: 1024x1024."""
    work: float
    """Multiplications of a replay."""
    seconds: float
    """Of a replay."""
    memory: float
    """Bytes, the most while it replays, without what was there before it was made."""
    compile_seconds: float
    compile_memory: float
    """As `memory`, while it was made."""
    arena: float = 0.0
    """Bytes for images, where that is known."""
    engines: str = ""
    pcc: float = 1.0


def exponent(work: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms, by least squares: values grow as work to this power."""
    if len(work) != len(values) or len(set(work)) < 2:
        raise ValueError(f"{len(work)} sizes with {len(values)} values; an exponent needs two different sizes and more")
    if min(*work, *values) <= 0:
        raise ValueError("an exponent needs sizes and values above 0")
    return statistics.linear_regression([math.log(x) for x in work], [math.log(y) for y in values]).slope


@dataclass(frozen=True)
class Series:
    """What grew, and all subjects at each of its sizes."""

    name: str
    points: tuple[Point, ...]

    def of(self, subject: str) -> list[Point]:
        return sorted((one for one in self.points if one.subject == subject), key=lambda one: one.work)

    @property
    def subjects(self) -> list[str]:
        return list(dict.fromkeys(one.subject for one in self.points))

    @property
    def fastest_peer(self) -> str | None:
        """At the largest size."""
        peers = [name for name in self.subjects if name != OURS]
        return min(peers, key=lambda name: self.of(name)[-1].seconds) if peers else None

    def exponent_of(self, subject: str, what: str) -> float:
        points = self.of(subject)
        return exponent([one.work for one in points], [getattr(one, what) for one in points])

    @property
    def misses(self) -> list[str]:
        """Where ours grows faster than the fastest peer's or than the work."""
        found, peer = [], self.fastest_peer
        for what in ("seconds", "memory") if peer is not None else ():
            ours, theirs = self.exponent_of(OURS, what), self.exponent_of(str(peer), what)
            if ours > theirs + TOLERANCE:
                found.append(
                    f"{self.name}: {what} grow as the work to the {ours:.2f}, {peer}'s to the {theirs:.2f}; at most "
                    f"{TOLERANCE} more are wanted"
                )
        points = self.of(OURS)
        for smaller, larger in pairwise(points):
            work, seconds = larger.work / smaller.work, larger.seconds / smaller.seconds
            if seconds > JUMP * work:
                found.append(
                    f"{self.name}: from {smaller.label} to {larger.label} the work grows {work:.2f} times, time "
                    f"{seconds:.2f} times; at most {JUMP} times as fast is wanted"
                )
        return found

    def lines(self) -> list[str]:
        """A table of all points, and one of the exponents."""
        rows = [
            f"| {self.name} | 10^9 products | subject | ms | MiB | compile s | compile MiB | images MiB | PCC |",
            "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        ]
        for one in sorted(self.points, key=lambda one: (one.work, self.subjects.index(one.subject))):
            engines = f" ({one.engines})" if one.engines else ""
            rows.append(
                f"| {one.label} | {one.work / 1e9:.2f} | {one.subject}{engines} | {one.seconds * 1e3:.1f} | "
                f"{one.memory / 2**20:.0f} | {one.compile_seconds:.1f} | {one.compile_memory / 2**20:.0f} | "
                f"{f'{one.arena / 2**20:.0f}' if one.arena else ''} | {one.pcc:.6f} |"
            )
        rows += ["", "| exponent of | time | memory | compile time | compile memory |", "|---|--:|--:|--:|--:|"]
        for name in self.subjects:
            powers = [
                self.exponent_of(name, what) for what in ("seconds", "memory", "compile_seconds", "compile_memory")
            ]
            rows.append(f"| {name} | {' | '.join(f'{one:.2f}' for one in powers)} |")
        return rows
