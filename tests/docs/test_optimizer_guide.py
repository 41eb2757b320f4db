# SPDX-License-Identifier: Apache-2.0
"""docs/optimizer.md: its options, files and steps are those of the command, and its snippet runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer.main

from tt_cnn import ttnn
from tt_cnn.cli import app
from tt_cnn.models import create_tt
from tt_cnn.optimizer.journal_file import FILE
from tt_cnn.optimizer.result_folder import CONFIG, DIFF, PYTHON, REPORT
from tt_cnn.optimizer.steps.base import STEPS
from tt_cnn.reports.recording import PlanningCard

GUIDE = (Path(__file__).parents[2] / "docs" / "optimizer.md").read_text(encoding="utf-8")


def test_options_are_those_of_the_command() -> None:
    command: Any = typer.main.get_command(app).commands["optimize"]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts}
    own = re.sub(r"`(python benchmarks/|tt-cnn conformance)[^`]*`", "", GUIDE)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", own))
    assert named and named <= known, named - known
    assert known >= {
        "--goal",
        "--min-pcc",
        "--budget",
        "--candidates",
        "--random-seed",
        "--steps",
        "--only",
        "--freeze",
    }


def test_files_and_steps_are_named() -> None:
    for name in (FILE, CONFIG, DIFF, PYTHON, REPORT):
        assert f"| `{name}` |" in GUIDE
    for step in ("batch", "devices", "pipeline"):
        assert step in STEPS and f"`{step}`" in GUIDE
    for card in ("n150", "p150"):
        begin, end = f"<!-- optimizer table {card} -->", f"<!-- end of optimizer table {card} -->"
        assert GUIDE.count(begin) == GUIDE.count(end) == 1, "benchmarks/optimizer.py writes between them"


def test_the_snippet_runs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))
    (code,) = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    device = PlanningCard("n150", 32768)
    try:
        names: dict[str, Any] = {"create_tt": create_tt, "device": device, "ttnn": ttnn}
        exec(compile(code.replace("candidates=200", "candidates=5"), "docs/optimizer.md", "exec"), names)
        assert names["model"].layers
    finally:
        device.close()
