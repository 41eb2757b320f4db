# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn diff`: what changed between two profiles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tt_cnn.cli import app
from tt_cnn.reports.profile import Profile, profile_model
from tt_cnn.reports.profile_json import save_profile


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, arguments)])


@pytest.fixture(scope="module")
def before() -> Profile:
    return profile_model("vanilla_unet")


@pytest.fixture
def files(before: Profile, tmp_path: Path) -> tuple[Path, Path]:
    """A profile, and the same with one step faster, in another place and less precise."""
    rows = list(before.rows)
    at = next(row.index for row in rows if row.op == "Conv2d")
    output = replace(rows[at].outputs[0], dtype="BFLOAT4_B", buffer_type="DRAM")
    cost = replace(rows[at].cost, ns=rows[at].cost.ns / 2)
    rows[at] = replace(rows[at], layer="[red]neck[/]", cores=10, cost=cost, outputs=(output,))
    renamed = list(before.rows)
    renamed[at] = replace(renamed[at], layer="[red]neck[/]")
    return (
        save_profile(replace(before, rows=tuple(renamed)), tmp_path / "a.json"),
        save_profile(replace(before, rows=tuple(rows)), tmp_path / "b.json"),
    )


def test_changes_are_told_by_kind(files: tuple[Path, Path]) -> None:
    result = run(*files)
    assert result.exit_code == 0, result.output + repr(result.exception)
    for said in (
        "faster: 1 step",
        "moved: 1 step",
        "changed precision: 1 step",
        "[red]neck[/] Conv2d",
        "cores: 64 -> 10",
    ):
        assert said in result.stdout
    assert "slower" not in result.stdout and "BFLOAT16 -> BFLOAT4_B" in result.stdout


def test_the_same_is_said_to_be_the_same(files: tuple[Path, Path]) -> None:
    result = run(files[0], files[0])
    assert result.exit_code == 0 and "no step changed" in result.stdout and "+0.0 %" in result.stdout


def test_changes_as_data(files: tuple[Path, Path], before: Profile) -> None:
    told = json.loads(run(*files, "--json").stdout)
    assert told["device_ns"][0] == pytest.approx(before.device_ns) and told["device_ns"][1] < told["device_ns"][0]
    assert [step["op"] for step in told["faster"]] == ["Conv2d"] and told["slower"] == []
    assert told["moved"][0]["moved"][0] == "cores: 64 -> 10"


def test_what_is_no_profile_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{}")
    for wrong in (tmp_path / "c.json", tmp_path / "nowhere", tmp_path):
        result = run(files[0], wrong)
        assert isinstance(result.exception, ValueError) and "is not a profile" in str(result.exception)
