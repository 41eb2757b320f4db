# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn optimize`: the answer first, a folder of files, never over another; what was interrupted goes on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.optimizer.fake_steps import registered
from tt_cnn.builder.overrides import Assignment, read_settings
from tt_cnn.cli import app
from tt_cnn.cli.optimize import INTERRUPTED, seconds_of
from tt_cnn.cli.optimize_display import Display
from tt_cnn.optimizer.prediction import Prediction, planned_network
from tt_cnn.optimizer.run import optimize

FILES = {"config.json", "config.py", "diff.txt", "report.html", "journal.json"}


@pytest.fixture(autouse=True)
def fake_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))
    with registered():
        yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["optimize", *arguments])


def test_the_answer_comes_first_and_the_folder_holds_it(tmp_path: Path) -> None:
    where = tmp_path / "unet"
    result = run("vanilla_unet", "--steps", "fake_blocks,pipeline", "--candidates", "60", "-o", str(where))
    assert result.exit_code == 0, result.output + repr(result.exception)
    first, second = result.stdout.splitlines()[:2]
    assert first.startswith("vanilla_unet 480x640, batch 1, on n150, predicted: ")
    assert "times as fast" in first and "fps end to end with trace+2cq+io" in first and first.endswith("verified")
    assert "per second" in second and {path.name for path in where.iterdir()} == FILES
    with planned_network("vanilla_unet", "n150", config=read_settings(where / "config.json")) as network:
        predicted = network.predict(Assignment())
    assert isinstance(predicted, Prediction) and f"to {predicted.device_ns / 1e3:.1f} µs" in first
    again = run("vanilla_unet", "--steps", "fake_blocks", "--candidates", "1", "-o", str(where))
    assert again.exit_code == 0 and {path.name for path in (tmp_path / "unet-2").iterdir()} == FILES
    assert {path.name for path in where.iterdir()} == FILES


def test_ctrl_c_writes_the_best_and_it_is_resumed(tmp_path: Path) -> None:
    where = tmp_path / "cut"
    options = ("--goal", "throughput", "--steps", "fake_blocks,fake_ctrl_c", "--candidates", "120")
    cut = run("vanilla_unet", *options, "-o", str(where))
    assert cut.exit_code == INTERRUPTED, cut.output + repr(cut.exception)
    assert "interrupted" in cut.stdout and {path.name for path in where.iterdir()} == FILES
    before = json.loads((where / "journal.json").read_text())
    assert before["state"] == "interrupted" and before["attempts"]
    other = run("vanilla_unet", "--goal", "latency", "--resume", str(where))
    assert isinstance(other.exception, ValueError) and "is of goal throughput, and latency is" in str(other.exception)
    result = run("vanilla_unet", "--steps", "fake_blocks", "--candidates", "200", "--resume", str(where))
    assert result.exit_code == 0, result.output + repr(result.exception)
    after = json.loads((tmp_path / "cut-2" / "journal.json").read_text())
    count = len(before["attempts"])
    assert after["attempts"][:count] == before["attempts"] and len(after["attempts"]) > count
    assert after["start"] == before["start"] and after["baseline"] == before["baseline"]
    assert after["result"]["value"] <= before["result"]["value"] and f"({count} of them before)" in result.stdout


def test_the_same_seed_gives_the_same_journal(tmp_path: Path) -> None:
    options = ("--steps", "fake_chance", "--candidates", "25", "--random-seed", "3")
    journals = []
    for name in ("a", "b"):
        assert run("vanilla_unet", *options, "-o", str(tmp_path / name)).exit_code == 0
        data = json.loads((tmp_path / name / "journal.json").read_text())
        for one in (*data["attempts"], *data["steps"], data["result"], data):
            one.pop("seconds", None)
            one.pop("written", None)
        journals.append(data)
    assert journals[0] == journals[1]


def test_a_faulty_step_is_told_and_the_result_stays(tmp_path: Path) -> None:
    result = run("vanilla_unet", "--steps", "fake_faulty", "--candidates", "120", "-o", str(tmp_path / "out"))
    assert result.exit_code == 1 and "step fake_faulty failed: ZeroDivisionError: planted" in result.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_findings_and_configs_are_applied(tmp_path: Path) -> None:
    changes = {"decoder1.conv2": {"reallocate_halo_output": False, "enable_act_double_buffer": False}}
    findings = tmp_path / "findings.json"
    findings.write_text(json.dumps([{"advice": "do <this>", "changes": changes}, {"kind": "no changes"}]))
    result = run("vanilla_unet", "--apply", str(findings), "--candidates", "9", "-o", str(tmp_path / "a"))
    assert result.exit_code == 0, result.output + repr(result.exception)
    (attempt,) = json.loads((tmp_path / "a" / "journal.json").read_text())["attempts"]
    assert attempt["words"] == "do <this>" and attempt["step"] == "suggestions" and attempt["value"] is not None
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"layers": changes}))
    assert run("vanilla_unet", "--apply", str(config), "--candidates", "9", "-o", str(tmp_path / "b")).exit_code == 0


def test_explaining_searches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("vanilla_unet", "--explain")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert result.stdout.startswith("vanilla_unet on n150, predicted: ") and "findings, the largest" in result.stdout
    assert "fake_blocks  heights of blocks" in result.stdout and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no_such_model",), "there is no model 'no_such_model'"),
        (("vanilla_unet", "--goal", "fun"), "goal is 'fun'"),
        (("vanilla_unet", "--budget", "soon"), "--budget is 'soon'; it must be like 120s or 2m"),
        (("vanilla_unet", "--steps", "magic"), "there is no step 'magic'"),
        (("vanilla_unet", "--only", "nowhere"), "fits no layer"),
        (("vanilla_unet", "--resume", "nowhere"), "cannot be resumed"),
        (("vanilla_unet", "--apply", "nowhere"), "nowhere: no such file"),
        (("vanilla_unet", "--card", "n1"), "the virtual cards are"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = run(*arguments, "--candidates", "1", "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, ValueError) and message in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON file"),
        ("[]", "no finding with `changes`"),
        ('{"a": 1}', "neither a config.json"),
        ('{"layers": {"nowhere": {"dtype": 1}}}', "no such layer"),
        ('{"layers": {"pool1": {"nothing": 1}}}', "has no setting 'nothing'"),
        ('{"layers": {"pool1": {}}}', "changes nothing"),
    ],
)
def test_bad_files_are_not_applied(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(content)
    result = run("vanilla_unet", "--apply", str(tmp_path / "bad.json"), "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, ValueError) and message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_budgets_are_read() -> None:
    assert [seconds_of(text) for text in ("120s", "2m", "1.5m", "90", "1h")] == [120, 120, 90, 90, 3600]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_display_tells_the_best(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=160)
    with Display(console) as display:
        result = optimize("vanilla_unet", steps=["fake_blocks"], candidates=60, watcher=display)
        shown = io.StringIO()
        Console(file=shown, width=160).print(display._render())
    assert (
        result.kept
        and f"best {result.value_after / 1e3:.1f} µs, from {result.value_before / 1e3:.1f} µs" in shown.getvalue()
    )
    assert "60 of 60 candidates" in shown.getvalue()
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("\x1b" in said) == terminal
    if not terminal:
        assert len(said.splitlines()) == 1 + len(result.kept), "a line for the start and for each kept change"
