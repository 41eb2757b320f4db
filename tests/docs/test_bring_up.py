# SPDX-License-Identifier: Apache-2.0
"""docs/bring-up.md: its files are written, its code is run in order, its tests pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.bring_up import DOCUMENT, snippets, trained_stripes, write_files
from tt_cnn.virtual.devices.opening import open_devices


def test_the_code_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    tutorial = trained_stripes()
    assert tutorial.names["right"] > 0.95
    names = dict(tutorial.names)
    for code in tutorial.rest:
        exec(compile(code, str(DOCUMENT), "exec"), names)
    assert open_devices() == []
    told = capsys.readouterr().out
    assert "all 5 modules reach PCC 0.99" in told
    assert told.count("KB free") >= 8
    assert "images per second on this machine" in told


def test_the_model_s_own_tests_and_demo_work() -> None:
    folder = trained_stripes().folder
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "stripes"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "5 passed" in tests.stdout
    demo = subprocess.run(
        [sys.executable, "-m", "stripes.demo.demo"], cwd=folder, capture_output=True, text=True, check=True
    )
    lines = demo.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.split()[2].rstrip(",") == line.split()[-1] for line in lines)


def test_every_file_of_the_structure_is_on_the_page(tmp_path: Path) -> None:
    write_files(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    made = {str(path.relative_to(tmp_path / "stripes")) for path in tmp_path.rglob("*.py") if path.stat().st_size}
    for name in ("__init__.py", "reference/model.py", "tt/common.py", "tt/config.py", "tt/model.py", "demo/demo.py"):
        assert name in made and f"      {name} " in text
    assert len(snippets()) >= 14
