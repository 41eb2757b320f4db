# SPDX-License-Identifier: Apache-2.0
"""docs/evaluation.md: its code runs, its options are the commands'."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tt_cnn.cli import app

GUIDE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_drawn_pictures_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(SNIPPETS[0], {})
    assert len(list((tmp_path / "shapes" / "images").iterdir())) == 10
    assert (tmp_path / "shapes" / "annotations.json").exists()


@pytest.mark.long
def test_a_model_is_compared_from_python() -> None:
    names: dict[str, Any] = {}
    exec(SNIPPETS[1], names)
    assert names["result"].card["IoU"] > 90


@pytest.mark.parametrize("command", ["evaluate", "demo"])
def test_every_option_that_the_guide_names_is_there(command: str) -> None:
    text = CliRunner().invoke(app, [command, "--help"]).stdout
    only = {"evaluate": {"--image", "--video", "--force", "--threshold"}, "demo": {"--data", "--within", "--json"}}
    named = set(re.findall(r"(--[a-z]+)\b", GUIDE)) - only[command]
    assert named and [option for option in sorted(named) if option not in text] == []
