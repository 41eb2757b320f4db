# SPDX-License-Identifier: Apache-2.0
"""docs/bringup.md: its model is brought up by its code, and its options, files and generated piece are true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.cli import app

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "bringup.md").read_text(encoding="utf-8")
NET, _, STAGES = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
NOT_ALWAYS = {"docs/issues/"}
"""Only where something runs in torch."""


@pytest.fixture(scope="module")
def brought_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[BringUp, Path]:
    folder = tmp_path_factory.mktemp("guide")
    (folder / "net.py").write_text(NET, encoding="utf-8")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(STAGES.replace("seconds=5", "seconds=1"), "docs/bringup.md", "exec"), names)
    return names["work"], folder / "brought_up" / "net"


def test_the_stages_run_from_python(brought_up: tuple[BringUp, Path]) -> None:
    work, _ = brought_up
    assert work.accuracy is not None and work.accuracy.passed


def test_the_folder_is_as_the_guide_lists_it(brought_up: tuple[BringUp, Path]) -> None:
    _, folder = brought_up
    listed = re.search(r"^    net/\n((?:      \S.*\n)+)", GUIDE, re.MULTILINE)
    assert listed is not None
    names = {line.split()[0] for line in listed[1].splitlines()} - NOT_ALWAYS
    assert [name for name in names if not (folder / name).exists()] == []
    also = set(re.findall(r"\w+\.(?:json|svg)", GUIDE))
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.stat().st_size}
    unsaid = {
        name for name in written - names if not name.startswith("profile/") and name.rpartition("/")[2] not in also
    }
    assert unsaid == set()


def test_the_piece_of_generated_code_is_what_is_generated(brought_up: tuple[BringUp, Path]) -> None:
    _, folder = brought_up
    shown = re.search(r"<!-- generated -->\n(.*?)<!-- end of generated -->", GUIDE, re.DOTALL)
    assert shown is not None
    piece = re.sub(r"^    ", "", shown[1], flags=re.MULTILINE).strip()
    assert piece in (folder / "tt/model.py").read_text(encoding="utf-8")


def test_options_are_those_of_the_command() -> None:
    command: Any = typer.main.get_command(app).commands["bringup"]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts if name.startswith("-")}
    table = set(re.findall(r"^\| `(-[a-z-]+)` \|", GUIDE, re.MULTILINE))
    assert table | {"--output"} == known
