# SPDX-License-Identifier: Apache-2.0
"""Counting: for each field, how many records agree, in all and by op, and the first differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tt_cnn.conformance.corpus import Record
from tt_cnn.conformance.verdict import Verdict

FIELDS = (
    "numerics",
    "values",
    "error",
    "status",
    "message",
    "output",
    "address",
    "more",
    "rest",
    "steps",
    "factories",
    "cores",
    "cbs",
    "borrowed",
    "allocations",
    "peak",
    "graph_peak",
)


@dataclass
class Count:
    agree: int = 0
    total: int = 0

    @property
    def percent(self) -> float:
        return 100.0 * self.agree / self.total if self.total else 100.0

    def add(self, agrees: bool) -> None:
        self.agree += agrees
        self.total += 1


@dataclass(frozen=True)
class Difference:
    """A field of a record on which the virtual card and the recording differ."""

    place: str
    op: str
    field: str
    case: dict[str, Any]
    recorded: Any
    found: Any


@dataclass
class Tally:
    """What a replay found."""

    records: int = 0
    counts: dict[str, Count] = field(default_factory=dict)
    by_op: dict[str, dict[str, Count]] = field(default_factory=dict)
    by_family: dict[str, dict[str, Count]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    """Calls that could not be made, by the name that the virtual card does not have yet; their status disagrees."""
    differences: dict[str, list[Difference]] = field(default_factory=dict)

    def add(self, op: str, record: Record, verdicts: dict[str, Verdict], step: int | None = None) -> None:
        """The verdicts on a record, or on one of its steps."""
        place, case = record.place, record.case
        if step is not None:
            place, case = f"{place} step {step}", case["steps"][step]
        for name, verdict in verdicts.items():
            self.counts.setdefault(name, Count()).add(verdict.agrees)
            self.by_op.setdefault(op, {}).setdefault(name, Count()).add(verdict.agrees)
            self.by_family.setdefault(record.family, {}).setdefault(name, Count()).add(verdict.agrees)
            if not verdict.agrees:
                difference = Difference(place, op, name, case, verdict.recorded, verdict.found)
                self.differences.setdefault(name, []).append(difference)

    def add_missing(self, name: str) -> None:
        self.missing[name] = self.missing.get(name, 0) + 1

    def fields(self) -> list[str]:
        """The fields that were compared at all, in their usual order."""
        return [name for name in FIELDS if name in self.counts]

    def as_json(self) -> dict[str, Any]:
        def counts(of: dict[str, Count]) -> dict[str, Any]:
            return {
                name: {"agree": of[name].agree, "total": of[name].total, "percent": round(of[name].percent, 2)}
                for name in FIELDS
                if name in of
            }

        return {
            "records": self.records,
            "fields": counts(self.counts),
            "ops": {op: counts(of) for op, of in sorted(self.by_op.items())},
            "families": {family: counts(of) for family, of in sorted(self.by_family.items())},
            "not_implemented": dict(sorted(self.missing.items())),
        }
