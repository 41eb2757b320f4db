# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn doctor`: what is missing and how to get it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import tt_cnn
from tt_cnn.cli import app, health

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def checks(*arguments: str, status: int = 0) -> dict[str, dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    told = json.loads(result.stdout)
    assert told["healthy"] == (status == 0)
    return {one["name"]: one for one in told["checks"]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))


def test_a_sound_installation(tmp_path: Path) -> None:
    found = checks()
    assert found["tt-cnn"]["found"].startswith(tt_cnn.__version__)
    assert f"torch {metadata.version('torch')}" in found["packages"]["found"]
    assert "the virtual card" in found["runtime"]["found"] and str(tmp_path) in found["cache folder"]["found"]
    assert {"card", "compiler", "gpu", "graphviz", "cpu", "eval", "video"} <= found.keys() and "dev" not in found
    result = run()
    assert result.exit_code == 0 and "all that TT-CNN needs is there" in result.stdout


def test_what_is_optional_and_missing_fails_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    (missing,) = [one for name, one in checks().items() if name == "compiler"]
    assert (missing["state"], missing["how"]) == ("missing", "apt-get install g++")
    assert checks("--need", "compiler", status=1)["compiler"]["failed"]
    assert "compiler is missing: no g++" in run("--need", "compiler").stderr


def test_an_extra_that_is_missing_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(package: str) -> str:
        if package == "openvino":
            raise metadata.PackageNotFoundError(package)
        return "1.2.0" if package == "onnx" else real(package)

    monkeypatch.setattr(health.metadata, "version", version)
    cpu = checks()["cpu"]
    assert cpu["state"] == "missing" and cpu["how"] == "pip install 'tt-cnn[cpu]'"
    assert "openvino is not installed" in cpu["found"] and "onnx 1.2.0 is older than 1.16" in cpu["found"]


@pytest.mark.parametrize(
    ("variable", "value", "name", "words"),
    [
        ("TT_CNN_RUNTIME", "simulated", "runtime", "simulated"),
        ("TT_CNN_CACHE", "/proc/nowhere", "cache folder", "cannot be made"),
    ],
)
def test_what_is_broken_fails(
    variable: str, value: str, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    broken = checks(status=1)[name]
    assert broken["state"] == "broken" and words in broken["found"] and broken["how"]


def test_a_source_that_is_only_on_the_path_is_told(tmp_path: Path) -> None:
    """Not installed, so that nobody knows what it requires: in a process that sees no metadata of it."""
    hide = "import importlib.metadata as m\nreal = m.Distribution.from_name\n"
    hide += "def named(name):\n    if name == 'tt-cnn': raise m.PackageNotFoundError(name)\n    return real(name)\n"
    hide += "m.Distribution.from_name = named\nfrom tt_cnn.cli import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", hide, "doctor"],
        env={"PYTHONPATH": "src", "TT_CNN_CACHE": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "tt-cnn is missing: imported from" in done.stderr, done.stderr


def test_what_cannot_be_needed_is_refused() -> None:
    result = run("--need", "coffee")
    assert result.exit_code == 2 and "coffee is nothing that can be needed; there are" in result.stderr
