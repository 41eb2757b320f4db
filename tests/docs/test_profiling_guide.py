# SPDX-License-Identifier: Apache-2.0
"""docs/profiling.md: its snippets run, and it names every file and command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.cli import app

GUIDE = Path(__file__).parents[2] / "docs" / "profiling.md"


def test_the_snippets_run(open_card: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marked, any_program = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    device = open_card()
    x = ttnn.from_torch(torch.ones(1, 1, 64, 64), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    names: dict[str, Any] = {"device": device, "x": x, "folder": tmp_path}
    for snippet in (marked, any_program):
        exec(compile(snippet, str(GUIDE), "exec"), names)
    assert [mark.header for mark in names["profile"].signposts] == ["backbone", "head"]
    assert capsys.readouterr().out.endswith("µs, 2 steps\n")
    text = GUIDE.read_text()
    written = {re.sub(r"_\d{4}_.*", "_DATE.csv", path.name) for path in tmp_path.iterdir()}
    assert [name for name in written if f"`{name}`" not in text] == []


def test_the_commands_are_there() -> None:
    known = {command.name for command in app.registered_commands}
    said = set(re.findall(r"tt-cnn (\w+)", GUIDE.read_text()))
    assert said <= known and said >= {"profile", "diff", "memory", "visualize"}
