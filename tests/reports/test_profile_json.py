# SPDX-License-Identifier: Apache-2.0
"""Profiles survive being written and read, and what is not a profile is refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.reports.findings import find
from tt_cnn.reports.html import report_html
from tt_cnn.reports.html.memory_chart import step_data
from tt_cnn.reports.profile import Profile
from tt_cnn.reports.profile_json import load_profile, save_profile


@pytest.mark.parametrize("options", [{}, {"executor": "plain"}, {"card": "p150"}])
def test_a_profile_comes_back_as_it_was(
    options: dict[str, Any], profile_of: Callable[..., Profile], tmp_path: Path
) -> None:
    profile = profile_of("vanilla_unet", **options)
    path = save_profile(profile, tmp_path / "profile.json")
    assert load_profile(path) == profile == load_profile(tmp_path)


def test_findings_are_read_back_and_calls_are_not(unet: Profile, tmp_path: Path) -> None:
    loaded = load_profile(save_profile(unet, tmp_path / "profile.json"))
    assert find(loaded) == find(unet) != []
    assert [str(one) for one in find(loaded, least_ns=20_000.0)] == [str(one) for one in find(unet, least_ns=20_000.0)]
    assert loaded.calls == () and {row.step for row in loaded.rows} == {None}
    assert "Nothing was found" not in report_html(loaded)
    with pytest.raises(ValueError, match="neither calls nor findings"):
        find(replace(loaded, findings=None))


def test_circular_buffers_keep_their_names(unet: Profile, tmp_path: Path) -> None:
    row = unet.rows[5]
    named = tuple(replace(b, name=f"buffer {i}") for i, b in enumerate(row.circular_buffers))
    profile = replace(unet, rows=(*unet.rows[:5], replace(row, circular_buffers=named), *unet.rows[6:]))
    loaded = load_profile(save_profile(profile, tmp_path / "profile.json"))
    assert loaded.rows[5].circular_buffers == named
    shown = step_data(loaded)[5]["cbs"]
    assert shown and shown == [[b.address, b.bytes, b.name] for b in named if not b.borrowed]


@pytest.fixture
def data(unet: Profile, tmp_path: Path) -> dict[str, Any]:
    return json.loads(save_profile(unet, tmp_path / "good.json").read_text())


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another kind": (lambda d: d.update(kind="graph"), "its kind is not 'tt-cnn profile'"),
    "another version": (lambda d: d.update(schema=2), "has schema 2; this version of tt-cnn reads 1"),
    "no profile": (lambda d: d.pop("profile"), "profile is NoneType; it must be an object"),
    "a missing field": (lambda d: d["profile"].pop("rows"), "profile has no rows"),
    "a strange field": (lambda d: d["profile"].update(more=1), "profile has more"),
    "a wrong type": (lambda d: d["profile"]["rows"][3].update(cores="8"), r"profile.rows\[3\].cores is '8'; .* int"),
    "a bool for a number": (lambda d: d["profile"]["rows"][0].update(cores=True), "cores is True; .* int"),
    "a wrong direction": (lambda d: d["profile"]["transfers"][0].update(direction="up"), "must be one of 'write'"),
    "a wrong length": (lambda d: d["profile"]["model"].update(resolution=[1]), "has 1 entries; it must have 2"),
    "no list": (lambda d: d["profile"].update(rows={}), "profile.rows is dict; it must be a list"),
    "a buffer that is not there": (lambda d: d["profile"].update(buffers=[]), "in a buffer that is not there"),
    "rows out of order": (lambda d: d["profile"]["rows"].reverse(), r"rows\[0\].index is"),
    "a row that is not there": (lambda d: d["profile"]["timeline"][-2].update(row=10**6), "row is 1000000"),
    "an unknown card": (lambda d: d["profile"].update(card="n1"), "the virtual cards are"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_profiles_are_refused_in_words(case: str, data: dict[str, Any], tmp_path: Path) -> None:
    change, message = BROKEN[case]
    change(data)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=message) as told:
        load_profile(path)
    assert str(path) in str(told.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '"profile"', "[" * 100_000, "\x00\xff"])
def test_other_files_are_refused_in_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match="is not a profile"):
        load_profile(path)


def test_a_folder_without_a_profile_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a profile: there is no .*profile\.json"):
        load_profile(tmp_path)
    with pytest.raises(ValueError, match="is not a profile"):
        load_profile(tmp_path / "nowhere")
