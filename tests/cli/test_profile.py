# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn profile`: a folder of reports, never over another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.optimizer.residual import ENTRY, TtResidual, registered
from tt_cnn import ttnn
from tt_cnn.cli import app
from tt_cnn.reports.equal_findings import group_equal
from tt_cnn.reports.profile_json import load_profile

FILES = {
    *("report.html", "db.sqlite", "config.json", "profile_log_device.csv", "profile.json"),
    *("model_card.md", "summary.md", "graph.svg", "findings.json"),
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["profile", *arguments])


def test_a_folder_of_reports_is_written_and_summed_up(tmp_path: Path) -> None:
    where = tmp_path / "unet"
    result = run("vanilla_unet", "-o", str(where))
    assert result.exit_code == 0, result.output + repr(result.exception)
    names = {path.name for path in where.iterdir()}
    (sheet,) = names - FILES
    assert names >= FILES and sheet.startswith("ops_perf_results_") and sheet.endswith(".csv")
    profile = load_profile(where)
    on_device, end_to_end = profile.device_fps_band, profile.fps_band
    assert f"{profile.device_fps:.0f} fps, {on_device.low:.0f} to {on_device.high:.0f}; " in result.stdout
    assert (
        f"{profile.fps:.0f} fps, {end_to_end.low:.0f} to {end_to_end.high:.0f} end to end with trace+2cq"
        in result.stdout
    )
    assert "on n150, predicted: " in result.stdout
    assert f"l1_small_size >= {profile.l1_small_needed}" in result.stdout
    for said in ("time by op", "Conv2d", "the 10 longest steps", "end to end (predicted)", "trace+2cq+io", sheet):
        assert said in result.stdout
    assert profile.findings is not None and profile.together is not None
    told = result.stdout.replace("\n", " ")
    groups = group_equal(profile.findings)
    assert f"findings, 5 of {len(groups)} (predicted):" in told
    for number, one in enumerate(groups[:5], 1):
        assert f"  {number}. {one.layers} " in told
    assert f"{len(profile.together.applied)} of them together, planned with the whole model, save about " in told


def test_a_model_that_does_not_fit_is_told_with_all_misfits(tmp_path: Path) -> None:
    class Large(TtResidual):
        weights_dtype = ttnn.bfloat16

    with registered(replace(ENTRY, name="large_residual", tt=Large)):
        result = run("large_residual", "-o", str(tmp_path / "large"))
    assert result.exit_code == 1 and not (tmp_path / "large").exists()
    assert "3 calls do not fit in all" in result.stdout and "of 'layer4.1.conv2'" in result.stdout


def test_a_folder_that_is_taken_is_kept(tmp_path: Path) -> None:
    where = tmp_path / "unet"
    where.mkdir()
    (where / "mine.txt").write_text("mine")
    options = ("--card", "p150", "--executor", "plain", "--precision", "bfloat16", "--top", "0")
    result = run("vanilla_unet", "-o", str(where), *options)
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert [path.name for path in where.iterdir()] == ["mine.txt"]
    profile = load_profile(tmp_path / "unet-2")
    assert (profile.card, profile.executor, profile.model.precision) == ("p150", "plain", "bfloat16")
    assert "longest steps" not in result.stdout and "unet-2/" in result.stdout


def test_ones_own_model_is_profiled(stripes: str, tmp_path: Path) -> None:
    result = run(stripes, "-o", str(tmp_path / "stripes"))
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert load_profile(tmp_path / "stripes").model.title == "StripesNet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no_such_model",), "there is no model 'no_such_model'"),
        (("vanilla_unet", "--card", "n1"), "the virtual cards are"),
        (("vanilla_unet", "--executor", "fast"), "it must be one of plain"),
        (("vanilla_unet", "--resolution", "big"), "it must be like 320x320"),
        (("vanilla_unet", "--batch", "3"), "batch_size is 3"),
        (("vanilla_unet", "--precision", "float64"), "it must be tuned or bfloat16"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = run(*arguments, "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, ValueError) and message in str(result.exception)
    assert not (tmp_path / "out").exists()
