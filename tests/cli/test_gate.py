# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn profile` and `tt-cnn evaluate` as a gate in CI, and the action that calls the first of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.optimizer.residual import ENTRY, TtResidual, registered
from tt_cnn import ttnn
from tt_cnn.cli import app
from tt_cnn.models import model_entry
from tt_cnn.reports.profile_json import load_profile

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def suite_of(file: Path) -> ET.Element:
    suite = ET.fromstring(file.read_text()).find("testsuite")
    assert suite is not None
    return suite


def test_limits_that_are_kept(tmp_path: Path) -> None:
    junit = tmp_path / "new" / "gate.xml"
    limits = ("--pcc", "--min-fps", "100", "--max-l1", "95%", "--junit", junit, "--markdown", "-")
    result = run("profile", "mobilenetv2", "-o", tmp_path / "out", *limits)
    assert result.exit_code == 0, result.output + repr(result.exception)
    profile = load_profile(tmp_path / "out")
    (accuracy,) = profile.accuracy
    (gate,) = model_entry("mobilenetv2").gates.values()
    assert gate <= accuracy.pcc < 1
    assert f"PCC of {accuracy.layer} with PyTorch {accuracy.pcc:.5f}" in result.stdout
    assert (
        f"| PCC of {accuracy.layer} with PyTorch | {accuracy.pcc:.5f} | at least {gate:g} | passed |" in result.stdout
    )
    assert "all limits are kept: fps end to end" in result.stderr
    assert (suite_of(junit).get("tests"), suite_of(junit).get("failures")) == ("3", "0")


def test_limits_that_are_missed_have_a_line_each(tmp_path: Path) -> None:
    markdown = tmp_path / "summary.md"
    markdown.write_text("# Before\n")
    limits = ("--min-pcc", "0.99999", "--min-fps", "1e6", "--max-l1", "1KB", "--markdown", markdown)
    result = run("profile", "mobilenetv2", "-o", tmp_path / "out", "--json", *limits)
    assert result.exit_code == 1
    missed = [line for line in result.stderr.splitlines() if line.startswith("missed  ")]
    assert [line.split(":")[0] for line in missed] == [
        "missed  fps end to end with trace+2cq, predicted",
        f"missed  L1 peak per core at {json.loads(result.stdout)['tightest']}",
        "missed  PCC of logits with PyTorch",
    ]
    assert json.loads(result.stdout)["missed"] == [line.removeprefix("missed  ") for line in missed]
    text = markdown.read_text()
    assert text.startswith("# Before\n### MobileNetV2 224x224, batch 1, on n150: 3 limits missed\n")


def test_a_model_that_does_not_fit_is_a_failure_in_the_report(tmp_path: Path) -> None:
    class Large(TtResidual):
        weights_dtype = ttnn.bfloat16

    with registered(replace(ENTRY, name="large_residual", tt=Large)):
        result = run("profile", "large_residual", "-o", tmp_path / "out", "--junit", tmp_path / "gate.xml")
    assert result.exit_code == 1 and suite_of(tmp_path / "gate.xml").get("failures") == "1"
    assert "missed  fit into the card's L1" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-l1", "most"), "--max-l1 is 'most'; it must be like 95% "),
        (("--junit", "/proc/nowhere/gate.xml"), "/proc/nowhere/gate.xml cannot be written"),
        (("--markdown", "/proc/nowhere/gate.md"), "/proc/nowhere/gate.md cannot be written"),
    ],
)
def test_mistakes_are_told_before_anything_is_planned(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = run("profile", "mobilenetv2", "-o", tmp_path / "out", *options)
    assert isinstance(result.exception, ValueError) and words in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_diff_shows_the_pcc_of_both(tmp_path: Path) -> None:
    for name, precision in (("a", "tuned"), ("b", "bfloat16")):
        made = run("profile", "mobilenetv2", "--pcc", "--top", "0", "--precision", precision, "-o", tmp_path / name)
        assert made.exit_code == 0, made.output + repr(made.exception)
    a, b = (load_profile(tmp_path / name).accuracy[0].pcc for name in "ab")
    text = run("diff", tmp_path / "a", tmp_path / "b").stdout
    (line,) = [line for line in text.splitlines() if "PCC of logits" in line]
    assert a != b and all(value in line for value in (f"{a:.5f}", f"{b:.5f}", f"{b - a:+.5f}"))
    assert json.loads(run("diff", tmp_path / "a", tmp_path / "b", "--json").stdout)["pcc"] == [
        {"logits": a},
        {"logits": b},
    ]


def test_evaluate_holds_figures_to_their_minimum(stand_ins: None, tmp_path: Path) -> None:
    kept = run("evaluate", "brightness", "--count", "2", "--min", "0", "--min", "Dice=0")
    assert kept.exit_code == 0, kept.output + repr(kept.exception)
    missed = run("evaluate", "brightness", "--count", "2", "--min", "IoU=100.5", "--junit", tmp_path / "gate.xml")
    assert missed.exit_code == 1 and "missed  IoU on the card: " in missed.stderr
    assert suite_of(tmp_path / "gate.xml").get("failures") == "1"
    unknown = run("evaluate", "brightness", "--count", "2", "--min", "mAP=10")
    assert "--min names mAP; the figures are IoU" in str(unknown.exception)
    assert run("evaluate", "brightness", "--min", "IoU=much").exit_code == 2


# --- the action -----------------------------------------------------------------------------------------------------


def step_of_the_action() -> str:
    """The script of its last step, as a runner's bash gets it."""
    text = (ROOT / "action.yml").read_text()
    return textwrap.dedent(text[text.rindex("run: |\n") + len("run: |\n") :])


def in_a_runner(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    command = folder / "bin" / "tt-cnn"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m tt_cnn.cli "$@"\n')
    command.chmod(0o755)
    asked = {"CARD": "n150", "PCC": "false", "MIN_FPS": "", "MAX_L1": "", "MIN_PCC": "", "ARGUMENTS": "", **inputs}
    files = {name: str(folder / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step_of_the_action()],
        env={**os.environ, **asked, **files, "PATH": f"{command.parent}:{os.environ['PATH']}", "OUTPUT": "out/gate"},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_the_action_passes_and_leaves_its_files(tmp_path: Path) -> None:
    done = in_a_runner(tmp_path, MODEL="mobilenetv2", MIN_FPS="100", ARGUMENTS="--executor trace --precision bfloat16")
    assert done.returncode == 0, done.stderr
    profile = load_profile(tmp_path / "out" / "gate" / "profile")
    assert (profile.executor, profile.model.precision) == ("trace", "bfloat16")
    assert (tmp_path / "github_output").read_text() == "folder=out/gate\n"
    assert "| fps end to end with trace, predicted |" in (tmp_path / "github_step_summary").read_text()
    assert suite_of(tmp_path / "out" / "gate" / "gate.xml").get("tests") == "1"


def test_the_action_fails_and_still_shows_why(tmp_path: Path) -> None:
    done = in_a_runner(tmp_path, MODEL="mobilenetv2", MIN_FPS="1000000", MAX_L1="95%")
    assert done.returncode == 1 and "missed  fps end to end" in done.stderr
    assert "1 limit missed" in (tmp_path / "github_step_summary").read_text()


def test_the_actions_inputs_are_all_used_and_all_there() -> None:
    text = (ROOT / "action.yml").read_text()
    given = set(re.findall(r"^  ([a-z0-9-]+):$", text[text.index("inputs:") : text.index("outputs:")], re.MULTILINE))
    assert set(re.findall(r"inputs\.([a-z0-9-]+)", text)) == given
