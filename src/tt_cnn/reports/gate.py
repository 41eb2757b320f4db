# SPDX-License-Identifier: Apache-2.0
"""Limits that a change must keep: judged, and written for a pull request or a test report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from tt_cnn.reports.records import Profile
from tt_cnn.reports.words import counted


@dataclass(frozen=True)
class Verdict:
    """One limit, and what was found."""

    what: str
    """`fps end to end with trace+2cq`"""
    found: str
    limit: str
    """`at least 190`"""
    passed: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.found}, {self.limit} is needed"


@dataclass(frozen=True)
class Share:
    """A part of a core's L1, in percent or in bytes."""

    text: str
    percent: float = 0.0
    bytes: int = 0

    def of(self, size: int) -> int:
        return self.bytes or int(size * self.percent / 100)


_UNITS = {"b": 1, "kb": 1024, "mb": 1024**2}


def share(text: str) -> Share:
    """`95%`, `1300KB` or a number of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%|b|kb|mb)?", text.strip().lower())
    if found is None or float(found[1]) <= 0 or (found[2] == "%" and float(found[1]) > 100):
        raise ValueError(f"--max-l1 is {text!r}; it must be like 95% (of a core's L1) or 1300KB")
    if found[2] == "%":
        return Share(text, percent=float(found[1]))
    return Share(text, bytes=int(float(found[1]) * _UNITS[found[2] or "b"]))


def judge_profile(
    profile: Profile,
    *,
    min_fps: float | None = None,
    max_l1: Share | None = None,
    min_pcc: Mapping[str, float] | None = None,
) -> list[Verdict]:
    """What was asked for, in this order. `min_pcc`: by output."""
    verdicts = []
    if min_fps is not None:
        what = f"fps end to end with {profile.executor}, predicted"
        verdicts.append(Verdict(what, f"{profile.fps:.1f}", f"at least {min_fps:g}", profile.fps >= min_fps))
    if max_l1 is not None:
        found = f"{profile.l1_peak / 1024:.0f} of {profile.l1_size / 1024:.0f} KB"
        found += f" ({100 * profile.l1_peak / profile.l1_size:.1f} %)"
        at = f" at {profile.tightest.name}" if profile.tightest is not None else ""
        fits = profile.l1_peak <= max_l1.of(profile.l1_size)
        verdicts.append(Verdict(f"L1 peak per core{at}", found, f"at most {max_l1.text}", fits))
    measured = {one.layer: one.pcc for one in profile.accuracy}
    for output, least in (min_pcc or {}).items():
        pcc = measured.get(output)
        found = "not measured" if pcc is None else f"{pcc:.5f}"
        verdicts.append(
            Verdict(f"PCC of {output} with PyTorch", found, f"at least {least:g}", pcc is not None and pcc >= least)
        )
    return verdicts


def judge_points(figures: Mapping[str, float], minimum: Mapping[str, float]) -> list[Verdict]:
    """Figures of an evaluation, in points."""
    unknown = sorted(minimum.keys() - figures.keys())
    if unknown:
        raise ValueError(f"--min names {', '.join(unknown)}; the figures are {', '.join(figures) or 'none'}")
    return [
        Verdict(f"{name} on the card", f"{figures[name]:.2f}", f"at least {least:g}", figures[name] >= least)
        for name, least in minimum.items()
    ]


def verdicts_markdown(title: str, figures: Iterable[tuple[str, str]], verdicts: Sequence[Verdict]) -> str:
    """A table for a pull request: the limits first, then the figures that no limit is about."""
    missed = sum(not one.passed for one in verdicts)
    state = f": {counted(missed, 'limit')} missed" if missed else ""
    lines = [f"### {_cell(title)}{state}", "", "| | found | needed | |", "|---|---:|---:|---|"]
    lines += [
        f"| {_cell(one.what)} | {_cell(one.found)} | {_cell(one.limit)} | {'passed' if one.passed else '**missed**'} |"
        for one in verdicts
    ]
    judged = tuple(one.what for one in verdicts)
    others = [(what, found) for what, found in figures if not any(one.startswith(what) for one in judged)]
    lines += [f"| {_cell(what)} | {_cell(found)} | | |" for what, found in others]
    return "\n".join([*lines, "", ""])


def verdicts_junit(suite: str, verdicts: Sequence[Verdict], seconds: float) -> str:
    """A test report: one case per limit."""
    missed = sum(not one.passed for one in verdicts)
    cases = "".join(_case(suite, one) for one in verdicts)
    head = f'<testsuite name={quoteattr(suite)} tests="{len(verdicts)}" failures="{missed}" errors="0" skipped="0"'
    suites = f'<testsuites>{head} time="{seconds:.3f}">{cases}</testsuite></testsuites>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{suites}\n'


def _case(suite: str, one: Verdict) -> str:
    name = f"<testcase classname={quoteattr(suite)} name={quoteattr(f'{one.what}, {one.limit}')}"
    if one.passed:
        return f"{name}><system-out>{escape(one.found)}</system-out></testcase>"
    return f"{name}><failure message={quoteattr(str(one))}>{escape(str(one))}</failure></testcase>"


def _cell(text: str) -> str:
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|").replace("`", "\\`")
