# SPDX-License-Identifier: Apache-2.0
"""`findings.json`: what a profile found, each change as data, for people and for `tt-cnn optimize --apply`."""

from __future__ import annotations

import json
from pathlib import Path

from tt_cnn.reports.findings import find
from tt_cnn.reports.profile_json import PROFILE_KIND, as_plain, load_profile, read_record
from tt_cnn.reports.records import Finding, Profile, Together

FINDINGS = "findings.json"
_KIND = "tt-cnn findings"


def write_findings(profile: Profile, path: Path) -> None:
    data = {
        "kind": _KIND,
        "model": profile.model.name,
        "card": profile.card,
        "findings": list(find(profile)),
        "together": profile.together,
    }
    path.write_text(json.dumps(data, indent=1, allow_nan=False, default=as_plain) + "\n", encoding="utf-8")


def read_findings(path: Path) -> tuple[tuple[Finding, ...], Together | None]:
    """From findings.json, profile.json, or a profile's folder."""
    if path.is_dir():
        return _of_profile(load_profile(path))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error})") from error
    if isinstance(data, dict) and data.get("kind") == PROFILE_KIND:
        return _of_profile(load_profile(path))
    if not isinstance(data, dict) or data.get("kind") != _KIND or not isinstance(data.get("findings"), list):
        raise ValueError(f"{path} has no findings: it does not say that its kind is {_KIND!r}")
    try:
        findings = tuple(read_record(Finding, one, f"findings[{n}]") for n, one in enumerate(data["findings"]))
        together = data.get("together")
        return findings, None if together is None else read_record(Together, together, "together")
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error


def _of_profile(profile: Profile) -> tuple[tuple[Finding, ...], Together | None]:
    return tuple(find(profile)), profile.together
