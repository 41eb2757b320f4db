# SPDX-License-Identifier: Apache-2.0
"""What would make a model faster, in plain words, ranked by the time that it would save.

Every finding was checked before it is reported: the advice was planned on the card's memory as it is at that step, and
its time predicted by the same cost model; of transfers in small pages only the transfer itself is. What does not fit,
or saves too little, is not reported. Findings about one layer are ways to choose from, their savings do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tt_cnn.builder.advice import settings_for
from tt_cnn.builder.overrides import Assignment
from tt_cnn.reports.findings_calls import call_findings
from tt_cnn.reports.findings_dram import dram_findings
from tt_cnn.reports.findings_joined import joined_findings
from tt_cnn.reports.findings_movement import movement_findings
from tt_cnn.reports.records import Finding, Profile
from tt_cnn.reports.replanning import LEAST_SHARE, Replanner

LEAST_NS = 1000.0

Finder = Callable[[Replanner], Iterator[Finding]]
_FINDERS: tuple[Finder, ...] = (call_findings, joined_findings, movement_findings, dram_findings)

KINDS: dict[str, str] = {
    "few cores": "Cores that have nothing to do",
    "weights": "Weights of more bits than needed",
    "fidelity": "More math passes than needed",
    "block height": "Small activation blocks",
    "double buffering": "No double buffering",
    "matmul program": "Matmuls that could be distributed better",
    "activation": "Activations of their own",
    "average": "Averages of whole images",
    "DRAM": "Tensors in DRAM that fit into L1",
    "resharding": "Moving between shardings",
    "DRAM round trip": "Round trips to DRAM",
    "tilize churn": "Tiles undone and made again",
    "concat": "Concatenating through interleaved memory",
    "small pages": "Transfers in small pages",
}
"""All kinds of findings, and their headings."""


def find(profile: Profile, least_ns: float | None = None) -> list[Finding]:
    """All findings, the one that saves most first. `least_ns`: what a finding must save to be reported.

    A profile that was read from a file has those that were found when it was made.
    """
    if profile.findings is not None and (least_ns is None or not profile.calls):
        return [one for one in profile.findings if one.saves_ns >= (least_ns or 0.0)]
    if profile.rows and not profile.calls:
        raise ValueError("This profile has neither calls nor findings: another version wrote it. Make it again.")
    if least_ns is None:
        least_ns = max(LEAST_NS, LEAST_SHARE * profile.device_ns)
    replanner = Replanner(profile)
    found = [
        _with_settings(one, profile) for finder in _FINDERS for one in finder(replanner) if one.saves_ns >= least_ns
    ]
    return sorted(found, key=lambda one: (-one.saves_ns, one.rows, one.kind))


def _with_settings(finding: Finding, profile: Profile) -> Finding:
    """With the change as settings, where the finding is about a layer that can say it."""
    configuration = profile.configurations.get(finding.layer)
    settings = None if configuration is None else settings_for(configuration, finding.change)
    if not settings:
        return finding
    return replace(finding, changes=Assignment({finding.layer: settings}).to_dict())


__all__ = ["KINDS", "Finder", "Finding", "find"]
