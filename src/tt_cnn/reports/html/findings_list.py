# SPDX-License-Identifier: Apache-2.0
"""Findings by kind, the kind and the finding that save most first, and what they save together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tt_cnn.reports.equal_findings import EqualFindings, group_equal
from tt_cnn.reports.findings import KINDS
from tt_cnn.reports.html.svg import tag, text
from tt_cnn.reports.records import Finding, Profile, microseconds
from tt_cnn.reports.words import counted

_SHOWN = 3
"""Of each kind; the others are folded away. Equal findings of several layers count as one."""


def findings_list(findings: Sequence[Finding], profile: Profile) -> str:
    if not findings:
        return tag("p", "Nothing was found: no change that was planned saves a noticeable time.")
    most = findings[0].saves_ns
    intro = (
        f"{counted(len(findings), 'change')} that would save time, each planned and timed before it is listed. "
        "Several about one layer are ways to choose from: their savings do not add up."
    )
    groups = "".join(_group(kind, ours, profile, most) for kind, ours in by_kind(findings).items())
    return tag("p", text(intro)) + _together(profile) + groups


def by_kind(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """In the order of the list."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for one in findings:
        groups[one.kind].append(one)
    return dict(groups)


def _together(profile: Profile) -> str:
    together = profile.together
    if together is None or not together.applied:
        return ""
    share = 100 * together.saves_ns / profile.device_ns if profile.device_ns else 0.0
    said = (
        f"{len(together.applied)} of them can be applied together. The whole model, planned with all of them at once, "
        f"takes {microseconds(together.saves_ns)} less ({share:.1f} % of the device time). "
    )
    how = "tt-cnn optimize MODEL --apply findings.json"
    return tag("p", text(said) + tag("code", text(how)) + text(" takes them over."), class_="together")


def _group(kind: str, findings: Sequence[Finding], profile: Profile, most: float) -> str:
    groups = group_equal(findings)
    first, rest = groups[:_SHOWN], groups[_SHOWN:]
    shown = tag("ol", "".join(_item(one, profile, most) for one in first), class_="findings")
    if rest:
        more = tag("ol", "".join(_item(one, profile, most) for one in rest), class_="findings", start=len(first) + 1)
        shown += tag("details", tag("summary", f"{len(rest)} more") + more)
    return tag("h3", text(f"{KINDS[kind]} ({len(findings)})")) + shown


def _item(equal: EqualFindings, profile: Profile, most: float) -> str:
    finding = equal.first
    share = 100 * finding.saves_ns / profile.device_ns if profile.device_ns else 0.0
    up_to = "up to " if len(equal.members) > 1 else ""
    of_device = f" ({up_to}{share:.1f} % of the device time)" if finding.rows else ""
    saved = tag("strong", text(f"−{microseconds(finding.saves_ns)}"), class_="saved")
    layers = f"settings of {counted(sum(len(one.changes) for one in equal.members), 'layer')}"
    kind = tag("span", text(layers if finding.changes else "in the model's code"), class_="kind")
    gauge = tag(
        "span", tag("span", style=f"width:{100 * finding.saves_ns / most:.1f}%"), class_="gauge", aria_hidden="true"
    )
    who = tag("code", text(finding.layer)) if len(equal.members) == 1 else text(equal.layers)
    said = tag(
        "span",
        who + text(f" {finding.problem}; {finding.advice} and save about {equal.saving}{of_device}."),
        class_="said",
    )
    caution = tag("span", text(finding.caution), class_="caution") if finding.caution else ""
    head = tag("div", saved + kind + ("" if len(equal.members) > 1 else _step(finding)), class_="top")
    return tag("li", head + gauge + said + _members(equal) + caution, data_kind=finding.kind)


def _members(equal: EqualFindings) -> str:
    """The layers of equal findings, each with what it saves and its step."""
    if len(equal.members) == 1:
        return ""
    lines = "".join(
        tag("li", tag("code", text(one.layer)) + text(f" −{microseconds(one.saves_ns)} ") + _step(one))
        for one in equal.members
    )
    return tag("details", tag("summary", "Each layer") + tag("ul", lines, class_="layers"))


def _step(finding: Finding) -> str:
    if not finding.rows:
        return ""
    return tag("a", text(f"step {finding.rows[0]}"), href="#l1", data_goto=finding.rows[0])
