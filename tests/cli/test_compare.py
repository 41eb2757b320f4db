# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn compare`: models, architectures, folders and profiles side by side, on several cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tt_cnn.cli import app
from tt_cnn.models import model_entry
from tt_cnn.reports import profile as profiles
from tt_cnn.reports.profile import profile_model
from tt_cnn.reports.profile_json import save_profile
from tt_cnn.reports.side_by_side import HEADINGS, compared


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def rows_of(result: Result) -> list[dict[str, object]]:
    found = json.loads(result.stdout)
    assert isinstance(found, list)
    return found


def test_models_on_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(name: str, **options: object) -> profiles.Profile:
        asked.append((name, options["card"]))
        return profile_model(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(profiles, "profile_model", counted)
    twice = ("vanilla_unet", "vanilla_unet", "--card", "n150", "--card", "p150", "--card", "n150")
    rows = rows_of(run(*twice, "--json"))
    assert asked == [("vanilla_unet", "n150"), ("vanilla_unet", "p150")]  # nothing twice
    for row, card in zip(rows, ("n150", "p150"), strict=True):
        same = compared("vanilla_unet", profile_model("vanilla_unet", card=card))
        assert row == json.loads(json.dumps(same.as_data()))
        assert 0 < same.device_fps_band[0] <= same.device_fps and 0 < same.fps <= same.device_fps


def test_an_architecture_beside_a_saved_profile(tmp_path: Path) -> None:
    file = save_profile(profile_model("vanilla_unet", executor="plain"), tmp_path / "profile.json")
    result = run("espcn_x4", file, "--markdown", "--card", "n150")
    assert result.exit_code == 0, result.output
    heading, line, zoo, saved = result.stdout.strip().split("\n")
    assert heading == f"| {' | '.join(HEADINGS)} |" and line.startswith("|---")
    assert zoo.startswith("| espcn_x4 | 1x") and "| trace+2cq |" in zoo
    assert saved.startswith(f"| {file} | 1x480x640 | n150 | plain |")
    assert {row.count("|") for row in (heading, line, zoo, saved)} == {len(HEADINGS) + 1}


def test_ones_own_model_does_not_take_the_place_of_another(stripes: str) -> None:
    before = model_entry("vanilla_unet")
    result = run(stripes, "vanilla_unet", "--json")
    assert [row["name"] for row in rows_of(result)] == [stripes, "vanilla_unet"]
    assert model_entry("vanilla_unet") is before


def test_a_row_that_fails_says_why() -> None:
    result = run("vanilla_unet", "resnet50", "--batch", "16", "--json")
    assert result.exit_code == 1
    failed, came = rows_of(result)
    assert "batch" in str(failed["failed"]) and "device_fps" not in failed
    assert came["batch"] == 16 and came["name"] == "resnet50"
    table = run("vanilla_unet", "--batch", "16")
    assert table.exit_code == 1 and "vanilla_unet on n150: " in table.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "there is no model 'nothing'"),
        (("zoo:nothing",), "there is no architecture 'nothing'"),
        (("vanilla_unet", "--json", "--markdown"), "choose one"),
        (("vanilla_unet", "--card", "x1"), "x1"),
        (("./nothing.json",), "nothing.json"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1 and said in str(result.exception)


def test_a_folder_may_have_the_name_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vanilla_unet").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run("vanilla_unet", "--json").exit_code == 0
    (tmp_path / "folder").mkdir()
    assert "is not a profile" in str(run("./folder/../folder").exception)
