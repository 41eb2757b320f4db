# SPDX-License-Identifier: Apache-2.0
"""Findings that give several layers the same advice for the same reason, put into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.reports.records import Finding, microseconds

_NAMED = 3
"""Layers that a line names; the others are counted."""


@dataclass(frozen=True)
class EqualFindings:
    members: tuple[Finding, ...]
    """Of different layers; the one that saves most comes first."""

    @property
    def first(self) -> Finding:
        return self.members[0]

    @property
    def saving(self) -> str:
        """`23 µs`, `23 µs each`, or `5.8 µs to 23 µs each`: every one is planned alone."""
        most, least = microseconds(self.first.saves_ns), microseconds(self.members[-1].saves_ns)
        if len(self.members) == 1:
            return most
        return f"{most} each" if most == least else f"{least} to {most} each"

    @property
    def layers(self) -> str:
        names = [one.layer for one in self.members]
        if len(names) == 1:
            return names[0]
        shown, more = names[:_NAMED], len(names) - _NAMED
        listed = f"{', '.join(shown)} and {more} more" if more > 0 else f"{', '.join(shown[:-1])} and {shown[-1]}"
        return f"{len(names)} layers ({listed}): each"

    def __str__(self) -> str:
        said = f"{self.layers} {self.first.problem}; {self.first.advice} and save about {self.saving}"
        return f"{said}. {self.first.caution}" if self.first.caution else f"{said}."


def group_equal(findings: Sequence[Finding]) -> list[EqualFindings]:
    """In the order of the list, where each group stands at its first member's place."""
    groups: dict[tuple[str, str, str, str], list[Finding]] = defaultdict(list)
    for one in findings:
        groups[one.kind, one.problem, one.advice, one.caution].append(one)
    return [EqualFindings(tuple(sorted(each, key=lambda one: -one.saves_ns))) for each in groups.values()]
