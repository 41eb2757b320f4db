# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn conformance --live`: what it prints and how it ends, on what the real library did in a recorded program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.conformance.live.recorded import PROGRAM, real_recording
from tt_cnn.cli import app
from tt_cnn.conformance.live import running
from tt_cnn.conformance.live.launching import Recorded
from tt_cnn.conformance.live.recording import Recording


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["conformance", *arguments])


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Recording]]:
    """Both sides did what the real library did, until a test changes one."""
    sides = {"ttnn": real_recording(), "virtual": real_recording()}
    sides["virtual"].library = "the virtual n150"

    def record(program: str, options: Any, *, library: str, **_: Any) -> Recorded:
        calls = [{"family": "live", "op": "relu", "inputs": [], "args": [], "kwargs": {}}]
        return Recorded(sides[library], {}, calls if library == "virtual" else ())

    monkeypatch.setattr(running, "record", record)
    monkeypatch.setattr(running, "ask_cases", lambda cases, python: [{"status": "ok"} for _ in cases])
    yield sides


PYTHON = ("--python", sys.executable)


def test_equal_steps_are_counted(both: dict[str, Recording]) -> None:
    result = run("--live", PROGRAM, *PYTHON)
    steps = len(both["ttnn"].steps)
    assert result.exit_code == 0
    assert f"{steps} of {steps} steps equal (ttnn 0.81.1 on n150, mocked and the virtual n150)" in result.stdout
    assert "Conv2d" in result.stdout and "frees" in result.stdout


def test_differences_are_said_in_words(both: dict[str, Recording]) -> None:
    both["virtual"].steps[3].layer = "encoder1.conv2"
    both["virtual"].steps[3].buffers.pop()
    result = run("--live", PROGRAM, *PYTHON)
    assert result.exit_code == 1
    assert "step 3, Conv2d (ttnn.conv2d of encoder1.conv2): allocations [type, address, bytes per bank] differ" in (
        result.stdout
    )
    assert "the real library" in result.stdout and "the virtual card" in result.stdout


@pytest.mark.parametrize("card", ["p150", "n150-8x7"])
def test_unlike_cards_are_not_compared(both: dict[str, Recording], card: str) -> None:
    result = run("--live", PROGRAM, *PYTHON, "--card", card)
    assert result.exit_code == 2 and not result.stdout
    assert f"--card {card} is" in result.stderr
    assert "but the real library ran on WORMHOLE_B0 with 1 chip and a grid of 8x8 cores" in result.stderr


@pytest.mark.parametrize("card", ["n150", "n300"])
def test_a_like_card_may_be_named(both: dict[str, Recording], card: str) -> None:
    result = run("--live", PROGRAM, *PYTHON, "--card", card)
    assert result.exit_code == 0 and f"ttnn 0.81.1 on {card}, mocked" in result.stdout


def test_a_card_that_does_not_exist_is_told_before_anything_runs(both: dict[str, Recording]) -> None:
    both.clear()
    result = run("--live", PROGRAM, *PYTHON, "--card", "n151")
    assert result.exit_code == 2 and "card is 'n151'; the virtual cards are n150" in result.stderr


def test_a_refusal_of_both_is_told(both: dict[str, Recording]) -> None:
    for side in both.values():
        side.status, side.error, side.message = "error", "RuntimeError", "Out of Memory: Not enough space"
    result = run("--live", PROGRAM, *PYTHON)
    assert result.exit_code == 0
    assert "the program ends with RuntimeError: Out of Memory: Not enough space" in result.stdout


def test_shown_differences_are_chosen(both: dict[str, Recording]) -> None:
    for step in both["virtual"].steps:
        step.factory, step.frees = "Another", [[1, 0, 0]]
    text = run("--live", PROGRAM, *PYTHON, "--show", "1", "--field", "frees").stdout
    assert text.count("memory given back") == 1 and "the program factories" not in text
    assert "more differences; --show N shows more" in text


def test_json_has_the_counts_and_all_differences(both: dict[str, Recording]) -> None:
    both["virtual"].steps[3].cbs.pop()
    result = run("--live", PROGRAM, *PYTHON, "--json")
    assert result.exit_code == 1
    (told,) = json.loads(result.stdout)["programs"]
    assert told["equal"] == told["steps"] - 1
    assert [(one["step"], one["field"]) for one in told["differences"]] == [(3, "cbs")]


def test_a_mocked_card_has_no_values(both: dict[str, Recording]) -> None:
    assert "not compared: values: a mocked card computes none" in run("--live", PROGRAM, *PYTHON, "--values").stdout


def test_what_the_real_library_did_is_written(both: dict[str, Recording], tmp_path: Path) -> None:
    assert run("--live", "net.py", *PYTHON, "--record", str(tmp_path)).exit_code == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["calls_net_n150.jsonl.gz", "steps_net_n150.json.gz"]


def test_several_programs_are_summed(both: dict[str, Recording]) -> None:
    steps = 2 * len(both["ttnn"].steps)
    text = run("--live", PROGRAM, "--live", "mobilenetv2", *PYTHON).stdout
    assert f"all 2 programs: {steps} of {steps} steps equal" in text


def test_without_the_real_library_it_says_what_to_do() -> None:
    result = run("--live", "mobilenetv2")
    assert result.exit_code == 2
    assert "has no module ttnn" in result.stderr and "--python PATH" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--live", "mobilenetv2", "corpus.jsonl"), "replays no files"),
        (("--live", "mobilenetv2", "--resolution", "224"), "is not like 320x320"),
        (("--live", "mobilenetv2", "--precision", "half"), "is neither tuned nor bfloat16"),
        (("--live", "mobilenetv2", "--field", "colour"), "is not one of status, step"),
        ((), "name corpora, or a program with --live"),
    ],
)
def test_options_that_cannot_be_understood(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_help_teaches() -> None:
    text = " ".join(run("--help").stdout.split())
    assert "tt-cnn conformance --live resnet50 --batch 16 --python" in text
    assert "module:ENTRY (a ModelEntry, or a function of an open device), or script.py" in text
