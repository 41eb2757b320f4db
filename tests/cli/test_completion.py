# SPDX-License-Identifier: Apache-2.0
"""Completion in the shells themselves."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tt_cnn.cli import app
from tt_cnn.cli.completion import CARDS, EXECUTORS, MODELS, Shell
from tt_cnn.models import EXECUTORS as REAL_EXECUTORS
from tt_cnn.models import list_models, registry
from tt_cnn.virtual.arch import CARDS as REAL_CARDS

ROOT = Path(__file__).parents[2]
INSTALLED = [shell.value for shell in Shell if shutil.which(shell.value)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With `tt-cnn` on the path, and a home folder without anybody's settings."""
    command = tmp_path / "bin" / "tt-cnn"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m tt_cnn.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "$ "}


INTERACTIVE = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
LOAD = {shell: f'eval "$(tt-cnn completion {shell})"' for shell in ("bash", "zsh")}


def completed(shell: str, line: str, environment: dict[str, str]) -> str:
    """What an interactive shell makes of a line when Tab is pressed behind it."""
    if shell == "fish":  # it can say what Tab would offer
        script = f"tt-cnn completion fish | source; complete -C '{line}'"
        done = subprocess.run(["fish", "-c", script], env=environment, capture_output=True, text=True, check=True)
        return done.stdout
    child, controller = pty.fork()
    if child == 0:  # pragma: no cover
        os.execve(str(shutil.which(shell)), INTERACTIVE[shell], environment)
    try:
        _typed(controller, f"{LOAD[shell]}; echo READ''Y\n", "READY")
        return _typed(controller, f"{line}\t\t", None)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(controller)


def _typed(controller: int, keys: str, until: str | None) -> str:
    """What the shell shows for the keys, until a word comes or nothing more does."""
    os.write(controller, keys.encode())
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([controller], [], [], 5.0 if until is None else 60.0)
        if not ready:
            break
        shown += os.read(controller, 65536)
        if until is not None and until.encode() in shown:
            break
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", shown.decode(errors="replace"))


@pytest.mark.parametrize("shell", INSTALLED)
def test_a_command_is_completed(shell: str, environment: dict[str, str]) -> None:
    assert "profile" in completed(shell, "tt-cnn prof", environment)


@pytest.mark.parametrize("shell", INSTALLED)
def test_cards_are_offered_where_one_is_asked_for(shell: str, environment: dict[str, str]) -> None:
    shown = completed(shell, "tt-cnn profile resnet50 --card p1", environment)
    assert "p100" in shown and "p150" in shown


def test_bash_is_there() -> None:
    assert "bash" in INSTALLED


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dev"], ["devices"]),
        (["profile", "yolov8"], ["yolov8s", "yolov8x"]),
        (["profile", "yolov4", "--executor", "trace+2cq"], ["trace+2cq", "trace+2cq+io"]),
        (["evaluate", "yolov4", "--preci"], ["--precision"]),
        (["evaluate", "yolov4", "--precision", "t"], ["tuned"]),
        (["bench", "yolov4", "--precision", "int"], ["int8"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["diff", ""], []),
        (["profile", "yolov4", "-o", ""], []),
        (["no_such_command", ""], []),
    ],
)
def test_candidates(words: list[str], expected: list[str]) -> None:
    result = CliRunner().invoke(app, ["complete", "--", *words])
    assert result.stdout.splitlines() == expected


def test_what_is_offered_is_what_there_is() -> None:
    assert list(MODELS) == list_models() and list(EXECUTORS) == list(REAL_EXECUTORS) and list(CARDS) == list(REAL_CARDS)


@pytest.mark.parametrize("turn", [1, 2])
def test_models_of_other_tests_are_not_among_them(turn: int, stripes: str) -> None:
    assert "stripes" not in MODELS and list_models() == sorted([*MODELS, "stripes"])
    registry.register(replace(registry.model_entry("stripes"), name="of_one_test"))  # refused if it had stayed


def test_to_complete_imports_no_torch() -> None:
    code = "import sys; from tt_cnn.cli import app; app(['complete', '--', 'prof'], standalone_mode=False); "
    code += "sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "src"}, cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"profile\n")


def test_an_unknown_shell_is_refused() -> None:
    result = CliRunner().invoke(app, ["completion", "tcsh"])
    assert result.exit_code == 2 and "'bash', 'zsh', 'fish'" in result.stderr
