"""Findings as a list, the one that saves most first."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.reports.findings import KINDS
from tt_cnn.reports.html.svg import tag, text
from tt_cnn.reports.records import Finding, Profile, microseconds

_SHOWN = 12


def findings_list(findings: Sequence[Finding], profile: Profile) -> str:
    if not findings:
        return tag("p", "Nothing was found: no change that was planned saves a noticeable time.")
    first, rest = findings[:_SHOWN], findings[_SHOWN:]
    most = findings[0].saves_ns
    intro = (
        f"{len(findings)} changes that would save time, each planned and timed before it is told. Several about one "
        "layer are ways to choose from: their savings do not add up."
    )
    shown = tag("ol", "".join(_item(one, profile, most) for one in first), class_="findings")
    if rest:
        more = tag("ol", "".join(_item(one, profile, most) for one in rest), class_="findings", start=len(first) + 1)
        shown += tag("details", tag("summary", f"{len(rest)} more") + more)
    return tag("p", text(intro)) + shown


def _item(finding: Finding, profile: Profile, most: float) -> str:
    share = 100 * finding.saves_ns / profile.device_ns if profile.device_ns else 0.0
    of_device = f" ({share:.1f} % of the device time)" if finding.rows else ""
    saved = tag("strong", text(f"−{microseconds(finding.saves_ns)}"), class_="saved")
    kind = tag("span", text(KINDS[finding.kind]), class_="kind")
    gauge = tag(
        "span", tag("span", style=f"width:{100 * finding.saves_ns / most:.1f}%"), class_="gauge", aria_hidden="true"
    )
    said = tag(
        "span",
        tag("code", text(finding.layer))
        + text(f" {finding.problem}; {finding.advice} and save about {microseconds(finding.saves_ns)}{of_device}."),
        class_="said",
    )
    caution = tag("span", text(finding.caution), class_="caution") if finding.caution else ""
    steps = tag("a", text(f"step {finding.rows[0]}"), href="#l1", data_goto=finding.rows[0]) if finding.rows else ""
    return tag("li", tag("div", saved + kind + steps, class_="top") + gauge + said + caution, data_kind=finding.kind)
