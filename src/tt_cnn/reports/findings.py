"""What would make a model faster, in plain words, ranked by the time that it would save.

Every finding was checked before it is told: the advice was planned on the card's memory as it is at that step, and its
time predicted by the same cost model; of transfers in small pages only the transfer itself is. What does not fit, or
saves too little, is not told. Findings about one layer are ways to choose from, their savings do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.reports.profile import Profile, Row

LEAST_SHARE = 0.002
"""Of the device time: what saves less is not worth a reader's time."""
LEAST_NS = 1000.0
BUSY = 0.75
"""Of the card's cores; a layer with fewer is tried on others."""
MEASURE = "Measure the PCC again afterwards."


@dataclass(frozen=True)
class Finding:
    kind: str
    """One of `KINDS`."""
    layer: str
    problem: str
    advice: str
    saves_ns: float
    """Of one input's time, predicted."""
    rows: tuple[int, ...]
    """The steps that it is about."""
    change: dict[str, Any] = field(default_factory=dict, hash=False)
    """The advice as arguments of the call, by the names of TT-NN."""
    caution: str = ""
    """What the advice may cost."""

    def __str__(self) -> str:
        said = f"{self.layer} {self.problem}; {self.advice} and save about {microseconds(self.saves_ns)}"
        return f"{said}. {self.caution}" if self.caution else f"{said}."


Finder = Callable[[Profile], Iterator[Finding]]

KINDS: dict[str, str] = {
    "few cores": "Cores that have nothing to do",
    "weights": "Weights of more bits than needed",
    "fidelity": "More math passes than needed",
    "block height": "Small activation blocks",
    "double buffering": "No double buffering",
    "matmul program": "Matmuls that could be dealt out better",
    "resharding": "Moving between shardings",
    "DRAM round trip": "Round trips to DRAM",
    "tilize churn": "Tiles undone and made again",
    "concat": "Concatenating through interleaved memory",
    "small pages": "Transfers in small pages",
}
"""All kinds of findings, and their headings."""


def find(profile: Profile, least_ns: float | None = None) -> list[Finding]:
    """All findings, the one that saves most first. `least_ns`: what a finding must save to be told."""
    from tt_cnn.reports.findings_convolution import convolution_findings
    from tt_cnn.reports.findings_matmul import matmul_findings
    from tt_cnn.reports.findings_movement import movement_findings

    if least_ns is None:
        least_ns = max(LEAST_NS, LEAST_SHARE * profile.device_ns)
    finders: tuple[Finder, ...] = (convolution_findings, matmul_findings, movement_findings)
    found = [one for finder in finders for one in finder(profile) if one.saves_ns >= least_ns]
    return sorted(found, key=lambda one: (-one.saves_ns, one.rows, one.kind))


def worth_a_look(rows: Sequence[Row], profile: Profile) -> bool:
    """A call cannot save more than it takes."""
    return sum(row.cost.ns for row in rows) >= LEAST_SHARE * profile.device_ns


def microseconds(ns: float) -> str:
    us = ns / 1e3
    return f"{us:.0f} µs" if us >= 10 else f"{us:.1f} µs"
