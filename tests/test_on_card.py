# SPDX-License-Identifier: Apache-2.0
"""`scripts/on_card.sh` with a stand-in for the interpreter of a card: what is asked of it, and what comes of it."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "on_card.sh"

STAND_IN = """#!/usr/bin/env bash
echo "$*" >> "$ASKED"
case "$*" in
  *"import os"*) echo "$MOCKED" ;;
  *"list_models"*) printf 'resnet50\\nyolov4\\n' ;;
  *"conformance --live"*)
    program=$5
    [[ $program != absent.py ]] || exit 2
    while [[ $# -gt 0 ]]; do [[ $1 == --record ]] && out=$2; shift; done
    name=${program%.py}; touch "$out/steps_${name//[:.]/_}_n150.json.gz"
    echo "$program: compared"
    exit "$DIFFERS" ;;
  *"-m tracy"*)
    [[ $PROFILER == works ]] || { echo "no device"; exit 1; }
    while [[ $1 != -o ]]; do shift; done
    mkdir -p "$2/reports" && touch "$2/reports/ops_perf_results_1.csv" ;;
  *kernel_times*) touch "$5" ;;
esac
"""


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return path


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    defaults = {"ASKED": str(folder / "asked"), "MOCKED": "", "DIFFERS": "0", "PROFILER": "works"}
    environment = {**os.environ, **defaults, **variables}
    return subprocess.run(
        [str(SCRIPT), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def packed(folder: Path) -> set[str]:
    with tarfile.open(folder / "out.tar.gz") as archive:
        return {Path(name).name for name in archive.getnames()}


def test_help_teaches(tmp_path: Path) -> None:
    text = run(tmp_path, "-h").stdout
    assert "scripts/on_card.sh resnet50 my_net.py" in text and "-p PYTHON" in text and "set -euo" not in text


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", str(tmp_path / "none"))
    assert done.returncode == 2 and "is not an executable" in done.stderr


def test_a_card_gives_values_and_times(tmp_path: Path, interpreter: Path) -> None:
    done = run(tmp_path, "-p", str(interpreter), "-o", "out", "net.py")
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text()
    assert "conformance --live net.py" in asked and "--values" in asked
    assert "tracy -p -r" in asked and "tt_cnn.conformance.live.profiled net.py" in asked
    assert {"steps_net_n150.json.gz", "times_net_n150.jsonl.gz", "net.txt"} <= packed(tmp_path)
    assert "absent" not in done.stdout


def test_a_mocked_card_has_neither_and_it_is_said(tmp_path: Path, interpreter: Path) -> None:
    done = run(tmp_path, "-p", str(interpreter), "-o", "out", "net.py", MOCKED="n150.yaml")
    assert done.returncode == 0
    assert "absent: values and kernel times: the card is mocked (n150.yaml)" in done.stdout
    asked = (tmp_path / "asked").read_text()
    assert "--values" not in asked and "tracy" not in asked


def test_all_models_of_the_package_where_none_is_named(tmp_path: Path, interpreter: Path) -> None:
    run(tmp_path, "-p", str(interpreter), "-o", "out", "-n")
    asked = (tmp_path / "asked").read_text()
    assert "--live resnet50" in asked and "--live yolov4" in asked and "tracy" not in asked


def test_what_cannot_be_had_is_said(tmp_path: Path, interpreter: Path) -> None:
    """A program that does not run does not stop the others; differences are the exit status."""
    done = run(tmp_path, "-p", str(interpreter), "-o", "out", "absent.py", "net.py", DIFFERS="1", PROFILER="fails")
    assert done.returncode == 1
    assert "absent: absent.py: it could not be run" in done.stdout
    assert "absent: kernel times of net.py: the profiler failed, see out/profiler.log" in done.stdout
    assert "steps_net_n150.json.gz" in packed(tmp_path)
