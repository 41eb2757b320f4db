# SPDX-License-Identifier: Apache-2.0
"""Predicted time summed over steps: by op type, by layer, and by block of layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tt_cnn.reports.records import Profile, Row


@dataclass(frozen=True)
class TimeSum:
    """Steps that belong together."""

    name: str
    rows: tuple[Row, ...]

    @property
    def ns(self) -> float:
        return sum(row.cost.ns for row in self.rows)

    @property
    def steps(self) -> int:
        return len(self.rows)

    @property
    def layers(self) -> int:
        return len({row.layer for row in self.rows if row.layer})

    def percent(self, profile: Profile) -> float:
        """Of the device time of one input."""
        return 100 * self.ns / profile.device_ns if profile.device_ns else 0.0


def by_op(profile: Profile) -> list[TimeSum]:
    """The longest first."""
    return sorted(_sums(profile.rows, lambda row: row.op), key=lambda one: -one.ns)


def by_layer(profile: Profile) -> list[TimeSum]:
    """In the order of the model; calls outside of layers have the name of their op."""
    return _sums(profile.rows, lambda row: row.name)


def by_block(profile: Profile) -> list[TimeSum]:
    """In the order of the model. Layers `a.b.c` and `a.b.d` belong to the blocks `a.b` and `a`, which are both listed
    unless they have the same layers: then the shorter name is."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in profile.rows:
        for block in _blocks_of(row.layer):
            groups[block].append(row)
    sums = [TimeSum(name, tuple(rows)) for name, rows in groups.items()]
    several = [one for one in sums if one.layers > 1]
    return [one for one in several if not any(_repeats(one, other) for other in several)]


def _sums(rows: Sequence[Row], name_of: Callable[[Row], str]) -> list[TimeSum]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[name_of(row)].append(row)
    return [TimeSum(name, tuple(each)) for name, each in groups.items()]


def _blocks_of(layer: str) -> Iterator[str]:
    """From the outermost on."""
    parts = layer.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])


def _repeats(inner: TimeSum, outer: TimeSum) -> bool:
    return inner.name.startswith(f"{outer.name}.") and inner.steps == outer.steps
