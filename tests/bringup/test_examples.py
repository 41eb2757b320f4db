# SPDX-License-Identifier: Apache-2.0
"""examples/: brought up as the present code brings models up, and right."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts.write_examples import EXAMPLES, INPUT
from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.codegen.config_file import layers_named
from tt_cnn.bringup.comparison import LAYER_LOSS
from tt_cnn.bringup.inputs import input_shape
from tt_cnn.bringup.source import model_source

FOLDER = Path(__file__).parents[2] / "examples"
STALE = "python scripts/write_examples.py writes the examples again"
CHOSEN = {"__init__.py", "tt/config.py", "tests/points.py"}
"""They have what was measured or searched for: gates, settings, and what layers may lose."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_code_is_what_bringup_generates(name: str) -> None:
    work = BringUp(model_source(f"{FOLDER}/nets/{name}.py:{EXAMPLES[name]}"), input_shape(INPUT), name=name)
    work.load()
    work.lower()
    work.written = layers_named((FOLDER / name / "tt/config.py").read_text(encoding="utf-8"))
    with work.movable_skips():  # those that the search has found of use
        pass
    generated = {file: content.decode() for file, content in work.code_files().items()}
    different = [
        file
        for file, text in generated.items()
        if file not in CHOSEN and (FOLDER / name / file).read_text(encoding="utf-8") != text
    ]
    assert different == [], STALE
    written = (FOLDER / name / "tests/points.py").read_text(encoding="utf-8")
    assert points(written) == points(generated["tests/points.py"]), STALE


def points(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return {name: replace(point, loss=LAYER_LOSS) for name, point in names["POINTS"].items()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_own_tests_pass(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{name}/tests"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_are_small_and_listed() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in EXAMPLES:
        assert f"({name}/README.md)" in readme and f"(nets/{name}.py)" in readme
        assert (FOLDER / name / "reference/weights.safetensors").stat().st_size < 300_000


def test_the_readme_shows_the_code_of_an_example() -> None:
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n(class Tt.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert shown in (FOLDER / "senet/tt/model.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("virtual", "card"), [(True, "n150"), (False, None)])
def test_only_the_virtual_card_is_chosen(virtual: bool, card: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a real card in use, `open_device` has nothing to choose and refuses a name."""
    monkeypatch.syspath_prepend(FOLDER)
    common = importlib.import_module("senet.tt.common")
    asked = []

    def opened(*_: Any, card: str | None, **__: Any) -> Any:
        asked.append(card)
        raise InterruptedError

    monkeypatch.setattr(common, "is_virtual", lambda: virtual)
    monkeypatch.setattr(common, "opened_card", opened)
    with pytest.raises(InterruptedError), common.model_on_card():
        pass
    assert asked == [card]
